//! How a RAID-Z vdev got more children than it was made with.

use base::Txg;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a vdev got more children: one at a time. Blocks keep the width of their txg. While a child is being added, all
/// that is allocated moves, from the first sector on, to where it lies on one child more.
#[derive(Debug)]
pub struct Growth {
    /// From which txgs on blocks are wider by one child than before.
    since: Box<[Txg]>,
    /// What has moved, where a child is being added: as [`Moved::word`].
    moved: Option<AtomicU64>,
}

/// What has moved of a vdev that is getting another child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Up to which byte of the vdev.
    pub to: u64,
    /// Whether it is in the scratch area of each child, and perhaps nowhere else.
    pub in_scratch: bool,
}

impl Moved {
    /// Places are whole sectors, none of which is odd.
    const IN_SCRATCH: u64 = 1;

    const fn word(self) -> u64 {
        (self.to & !Self::IN_SCRATCH) | self.in_scratch as u64
    }

    const fn of_word(word: u64) -> Self {
        Self {
            to: word & !Self::IN_SCRATCH,
            in_scratch: word & Self::IN_SCRATCH != 0,
        }
    }
}

impl Growth {
    pub(crate) fn new(since: &[Txg], is_growing: bool) -> Self {
        Self {
            since: since.into(),
            moved: is_growing.then(AtomicU64::default),
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

    /// What has moved; none if no child is being added.
    #[must_use]
    pub fn moved(&self) -> Option<Moved> {
        let word = self.moved.as_ref()?.load(Ordering::SeqCst);
        Some(Moved::of_word(word))
    }

    /// Says how far sectors have moved. Whoever looks for a block from now on does so accordingly.
    pub fn set_moved(&self, moved: Moved) {
        if let Some(word) = &self.moved {
            word.store(moved.word(), Ordering::SeqCst);
        }
    }
}

/// How far sectors have moved is no part of what a vdev is.
impl PartialEq for Growth {
    fn eq(&self, other: &Self) -> bool {
        self.since == other.since && self.is_growing() == other.is_growing()
    }
}

impl Eq for Growth {}
