//! How a dataset's blocks are stored: the effective values of the properties that say so.

use crate::property::{RedundantMetadata, dataset};

/// Effective storage properties of a dataset; numbers as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoragePolicy {
    /// `compression`: 1 on, 2 off, …; zstd levels above bit 7.
    pub compression: u64,
    /// `checksum`: 1 on, 2 off, …
    pub checksum: u64,
    /// `copies`, 1 to 3.
    pub copies: u64,
    /// `redundant_metadata`.
    pub redundant_metadata: RedundantMetadata,
    /// `dedup`: 2 off, otherwise a checksum, plus 256 to verify.
    pub dedup: u64,
    /// `special_small_blocks`: data blocks up to this size go to the special class.
    pub special_small_blocks: u64,
    /// Whether its blocks are encrypted.
    pub encrypted: bool,
}

impl StoragePolicy {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        compression: dataset::COMPRESSION.row().default_number(),
        checksum: dataset::CHECKSUM.row().default_number(),
        copies: dataset::COPIES.row().default_number(),
        redundant_metadata: RedundantMetadata::All,
        dedup: dataset::DEDUP.row().default_number(),
        special_small_blocks: dataset::SPECIAL_SMALL_BLOCKS.row().default_number(),
        encrypted: false,
    };
}
