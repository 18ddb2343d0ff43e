//! A top-level vdev: a tree of mirrors over leaves that all hold the same bytes.

use crate::{BlockRange, Condition, IoClass, Leaf, ReadOutcome, VdevError, WriteGroup};
use base::{Guid, VdevId};
use std::sync::Arc;
use sys::Buffer;

/// What is known of a top-level vdev from its configuration.
#[derive(Clone, Copy, Debug)]
pub struct TopConfig {
    /// Its place in the pool.
    pub id: VdevId,
    /// Its guid (of the leaf itself if that is all there is).
    pub guid: Guid,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// Size of the allocatable area in bytes.
    pub asize: u64,
}

/// A vdev below the root.
pub enum Node {
    /// A device.
    Leaf(Arc<Leaf>),
    /// Several vdevs with the same bytes.
    Interior(Interior),
}

/// Several vdevs that hold the same bytes.
pub struct Interior {
    /// Its guid.
    pub guid: Guid,
    /// Why there are several.
    pub kind: InteriorKind,
    /// The vdevs.
    pub children: Vec<Node>,
}

/// Why several vdevs hold the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InteriorKind {
    /// For redundancy.
    Mirror,
    /// While one replaces the other.
    Replacing,
    /// While a spare stands in.
    Spare,
}

/// A top-level vdev.
pub struct Top {}

impl Top {
    /// A top-level vdev over `node`.
    #[must_use]
    pub fn new(config: TopConfig, node: Node) -> Arc<Self> {
        let _ = (config, node);
        unimplemented!()
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &TopConfig {
        unimplemented!()
    }

    /// Its vdevs as a tree.
    #[must_use]
    pub fn node(&self) -> &Node {
        unimplemented!()
    }

    /// Its leaves, from left to right.
    #[must_use]
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        unimplemented!()
    }

    /// How it is, as follows from its leaves.
    #[must_use]
    pub fn condition(&self) -> Condition {
        unimplemented!()
    }

    /// What a block of `psize` bytes takes up.
    #[must_use]
    pub fn allocated_size(&self, psize: u64) -> u64 {
        let _ = psize;
        unimplemented!()
    }

    /// Reads `range`, asking leaf after leaf until `accept` says that the bytes are right; leaves
    /// that had others are given the right ones. The device is read on the caller's thread; what
    /// is queued but not yet written is served from the queue.
    ///
    /// # Errors
    /// If no leaf has the right bytes, with what each leaf said.
    pub fn read(
        &self,
        range: BlockRange,
        class: IoClass,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<ReadOutcome, VdevError> {
        let _ = (range, class, accept);
        unimplemented!()
    }

    /// Queues the write of `data` at `offset` on every leaf. Returns at once unless the queue is
    /// full; then the caller writes for a while. Failures are the group's: [`WriteGroup::wait`].
    pub fn write(&self, offset: u64, data: Buffer, class: IoClass, group: &Arc<WriteGroup>) {
        let _ = (offset, data, class, group);
        unimplemented!()
    }

    /// Makes every write that is done (whose group was waited for) durable on every usable leaf.
    ///
    /// # Errors
    /// If no leaf could. A leaf that alone could not has missed the txgs and is out of use.
    pub fn flush(&self) -> Result<(), VdevError> {
        unimplemented!()
    }

    /// Gives space back to the devices, as far as they can.
    pub fn discard(&self, offset: u64, len: u64) {
        let _ = (offset, len);
        unimplemented!()
    }
}
