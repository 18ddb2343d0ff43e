//! How a RAID-Z vdev got more children than it was made with.

use base::Txg;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a vdev got more children: one at a time. Blocks keep the width of their txg. While a child is being added, all
/// that is allocated moves, from the first sector on, to where it lies on one child more.
#[derive(Debug)]
pub struct Growth {
    /// From which txgs on blocks are wider by one child than before.
    since: Box<[Txg]>,
    /// Up to which byte of the vdev its sectors have moved, where a child is being added.
    moved: Option<AtomicU64>,
}

impl Growth {
    pub(crate) fn new(since: &[Txg], is_growing: bool) -> Self {
        Self {
            since: since.into(),
            moved: is_growing.then(|| AtomicU64::new(0)),
        }
    }

    /// Whether a child is being added.
    #[must_use]
    pub const fn is_growing(&self) -> bool {
        self.moved.is_some()
    }

    /// How many children it got that blocks of a txg do not know.
    pub(crate) fn since(&self, birth: Txg) -> usize {
        let known = self.since.partition_point(|since| *since <= birth);
        self.since.len() - known
    }

    /// The byte of the vdev up to which sectors have moved; none if no child is being added.
    #[must_use]
    pub fn moved(&self) -> Option<u64> {
        self.moved
            .as_ref()
            .map(|moved| moved.load(Ordering::Acquire))
    }

    /// Says how far sectors have moved. Whoever reads or writes a block from now on looks for it accordingly.
    pub fn set_moved(&self, bytes: u64) {
        if let Some(moved) = &self.moved {
            moved.store(bytes, Ordering::Release);
        }
    }
}

impl PartialEq for Growth {
    fn eq(&self, other: &Self) -> bool {
        self.since == other.since && self.moved() == other.moved()
    }
}

impl Eq for Growth {}
