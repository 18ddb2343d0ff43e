//! The top-level vdevs of a pool by their ids.

use crate::{Top, VdevError};
use base::VdevId;
use base::lock::{LockClass, RwLock, rank};
use std::sync::Arc;

static CLASS: LockClass = LockClass::new("vdev.tree", rank::VDEV);

/// The top-level vdevs of a pool. Holes and missing vdevs are `None`.
pub struct VdevTree {
    tops: RwLock<Vec<Option<Arc<Top>>>>,
}

impl VdevTree {
    /// A tree of these vdevs, by id.
    #[must_use]
    pub fn new(tops: Vec<Option<Arc<Top>>>) -> Self {
        Self {
            tops: RwLock::new(&CLASS, tops),
        }
    }

    /// The vdev called `id`.
    ///
    /// # Errors
    /// If there is none.
    pub fn top(&self, id: VdevId) -> Result<Arc<Top>, VdevError> {
        let tops = self.tops.read();
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        tops.get(index)
            .and_then(Clone::clone)
            .ok_or(VdevError::NoSuchTop(id))
    }

    /// The number of slots, holes included.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.tops.read().len()
    }

    /// Every vdev that is there, by rising id.
    #[must_use]
    pub fn tops(&self) -> Vec<Arc<Top>> {
        self.tops.read().iter().flatten().cloned().collect()
    }

    /// Puts a vdev (or a hole) in slot `id`, making slots up to it; answers what was there. An id
    /// that does not fit in a block pointer (24 bits) changes nothing.
    pub fn set(&self, id: VdevId, top: Option<Arc<Top>>) -> Option<Arc<Top>> {
        if id.0 >= 1 << 24 {
            return None;
        }
        let mut tops = self.tops.write();
        let index = id.0 as usize;
        if tops.len() <= index {
            tops.resize(index + 1, None);
        }
        std::mem::replace(&mut tops[index], top)
    }

    /// Says how much is dirty, in thousandths of the limit: the more, the more writes at once.
    pub fn set_dirty(&self, permille: u32) {
        for top in self.tops() {
            top.leaves()
                .iter()
                .for_each(|leaf| leaf.set_dirty(permille));
        }
    }

    /// Makes every write that is done durable, on every vdev. Log vdevs that fail are given up.
    ///
    /// # Errors
    /// The first vdev that could not.
    pub fn flush(&self) -> Result<(), VdevError> {
        self.tops().iter().try_for_each(|top| top.flush_for_txg())
    }
}
