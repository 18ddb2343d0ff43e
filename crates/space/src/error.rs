//! What can go wrong with space.

use base::{ObjectId, Txg, VdevId};
use std::ops::Range;

/// An error of the allocator or of its maps.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// No vdev has room for the block.
    #[error("no space for {size} bytes")]
    NoSpace {
        /// Bytes asked for.
        size: u64,
    },
    /// A range was freed that is free already, or allocated twice: the maps are damaged, or we have a bug.
    #[error("vdev {vdev}: space map {object}: {what} of {range:?} contradicts the map")]
    Contradiction {
        /// The top-level vdev.
        vdev: VdevId,
        /// The space map, 0 if none was written yet.
        object: ObjectId,
        /// Which change.
        what: &'static str,
        /// Which bytes of the vdev.
        range: Range<u64>,
    },
    /// A range lies outside the vdev, or the vdev does not exist.
    #[error("vdev {vdev}: {range:?} lies outside the allocatable space")]
    Outside {
        /// The top-level vdev.
        vdev: VdevId,
        /// Which bytes.
        range: Range<u64>,
    },
    /// An entry of a space map does not decode.
    #[error("space map {object}: {source}")]
    Format {
        /// The space map object.
        object: ObjectId,
        /// Why.
        source: format::FormatError,
    },
    /// The store below failed.
    #[error("space map {object}, txg {txg}: {source}")]
    Store {
        /// The object in question, 0 if none.
        object: ObjectId,
        /// The syncing txg, 0 when reading.
        txg: Txg,
        /// The store's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
