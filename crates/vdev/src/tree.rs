//! The top-level vdevs of a pool by their ids.

use crate::{Top, VdevError, WriteGroup, tunables};
use base::VdevId;
use base::lock::{LockClass, Mutex, RwLock, RwLockReadGuard, rank};
use base::thread::{self, Role};
use layout::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static FAILED: LockClass = LockClass::new("vdev.flush_failed", rank::LAST - 3);
static CLASS: LockClass = LockClass::new("vdev.tree", rank::VDEV);

/// The top-level vdevs of a pool. Holes and missing vdevs are `None`.
pub struct VdevTree {
    tops: RwLock<Vec<Option<Arc<Top>>>>,
}

/// The layouts of a pool's vdevs.
pub struct Layouts<'a>(RwLockReadGuard<'a, Vec<Option<Arc<Top>>>>);

impl Layouts<'_> {
    /// The layout of a vdev, if there is one of that id.
    #[must_use]
    pub fn of(&self, id: VdevId) -> Option<&Layout> {
        let index = usize::try_from(id.0).ok()?;
        self.0.get(index)?.as_ref().map(|top| top.layout())
    }
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

    /// The layouts of all vdevs. No vdev is added or removed as long as they are held.
    #[must_use]
    pub fn layouts(&self) -> Layouts<'_> {
        Layouts(self.tops.read())
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

    /// Says up to which byte the vdev that is getting another child has moved, by an uberblock.
    pub fn set_moved(&self, bytes: u64) {
        for top in self.tops() {
            top.set_moved(bytes);
        }
    }

    /// Says how much is dirty, in thousandths of the limit: the more, the more writes at once.
    pub fn set_dirty(&self, permille: u32) {
        for top in self.tops() {
            top.leaves()
                .iter()
                .for_each(|leaf| leaf.set_dirty(permille));
        }
    }

    /// Makes every write that is done durable, on every vdev at once. Log vdevs that fail are given up.
    ///
    /// # Errors
    /// The first vdev that could not; the others are flushed all the same.
    pub fn flush(&self) -> Result<(), VdevError> {
        flush_tops(&self.tops())
    }
}

/// [`Top::flush_for_txg`] of all of them, [`tunables::FLUSHES_COUNT`] at once: a flush takes as long as a device's
/// cache needs, and the caller waits for the longest instead of the sum.
///
/// # Errors
/// The first vdev that could not; the others are flushed all the same.
pub fn flush_tops(tops: &[Arc<Top>]) -> Result<(), VdevError> {
    let threads = tunables::FLUSHES_COUNT.count().min(tops.len());
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(&FAILED, None);
    let work = || {
        while let Some((index, top)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            tops.get(index).map(|top| (index, top))
        } {
            let Err(error) = top.flush_for_txg() else {
                continue;
            };
            let mut failed = failed.lock();
            if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                *failed = Some((index, error));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that cannot be started is work that the others do.
            let _ = thread::named("flush", Role::PART).spawn_scoped(scope, work);
        }
        work();
    });
    failed.into_inner().map_or(Ok(()), |(_, error)| Err(error))
}

impl WriteGroup {
    /// Queues every write that failed again, to the same places: the vdevs are thought to be back.
    /// For a group whose writes all ended; see [`WriteGroup::wait`] for how it went.
    pub fn write_again(self: &Arc<Self>, vdevs: &VdevTree) {
        for failed in self.take_failed() {
            if let Ok(top) = vdevs.top(failed.vdev) {
                let place = (failed.offset, failed.birth);
                top.write_of(place, failed.data, failed.class, self);
            } else {
                self.fails_again(failed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
