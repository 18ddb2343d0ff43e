//! The top-level vdevs of a pool by their ids.

use crate::top::Elsewhere;
use crate::{BlockRange, Destination, Fence, Mapping, Top, VdevError, WriteGroup, tunables};
use base::lock::{LockClass, Mutex, RwLock, RwLockReadGuard, rank};
use base::thread::{self, Role};
use base::{Txg, VdevId};
use layout::{Layout, Moved};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

static FAILED: LockClass = LockClass::new("vdev.flush_failed", rank::LAST - 3);
static CLASS: LockClass = LockClass::new("vdev.tree", rank::VDEV);

/// The top-level vdevs of a pool. Holes and missing vdevs are `None`.
pub struct VdevTree {
    tops: RwLock<Vec<Option<Arc<Top>>>>,
    /// Until when its leaves are written.
    fence: Arc<Fence>,
}

/// A place on a vdev that holds bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The vdev.
    pub vdev: VdevId,
    /// Where on it.
    pub range: Range<u64>,
    /// When the bytes were written there.
    pub birth: Txg,
}

/// Where a range of a removed vdev lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedPlaces {
    /// The places, in the order of the range.
    pub places: Vec<Place>,
    /// The ranges of vdevs that are themselves removed by which they were found: the first is the range itself.
    pub through: Vec<(VdevId, Range<u64>)>,
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

/// The tree, as its removed vdevs know it.
struct Others(Weak<VdevTree>);

impl Elsewhere for Others {
    fn places(
        &self,
        vdev: VdevId,
        range: Range<u64>,
    ) -> Result<Vec<(Arc<Top>, BlockRange)>, VdevError> {
        let tree = self.0.upgrade().ok_or(VdevError::NoSuchTop(vdev))?;
        let moved = tree.moved(vdev, range)?.places.into_iter();
        let place = |place: Place| {
            let range = BlockRange {
                offset: place.range.start,
                len: (place.range.end - place.range.start) as usize,
                birth: place.birth,
            };
            Ok((tree.top(place.vdev)?, range))
        };
        moved.map(place).collect()
    }

    fn tops(&self) -> Vec<Arc<Top>> {
        let tree = self.0.upgrade();
        tree.map(|tree| tree.tops()).unwrap_or_default()
    }
}

impl VdevTree {
    /// A tree of these vdevs, by id.
    #[must_use]
    pub fn new(tops: Vec<Option<Arc<Top>>>) -> Self {
        let fence = Arc::new(Fence::default());
        tops.iter().flatten().for_each(|top| top.set_fence(&fence));
        Self {
            tops: RwLock::new(&CLASS, tops),
            fence,
        }
    }

    /// Until when the leaves of its vdevs are written.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
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

    /// Every vdev that is there, by rising id; none that was removed.
    #[must_use]
    pub fn tops(&self) -> Vec<Arc<Top>> {
        let tops = self.tops.read();
        let there = tops.iter().flatten().filter(|top| !top.is_indirect());
        there.cloned().collect()
    }

    /// Every vdev that was removed, by rising id.
    #[must_use]
    pub fn removed(&self) -> Vec<Arc<Top>> {
        let tops = self.tops.read();
        let removed = tops.iter().flatten().filter(|top| top.is_indirect());
        removed.cloned().collect()
    }

    /// What the mapping of a removed vdev may lead to: a vdev that holds copies, or one that was removed and is mapped
    /// already. So whoever tells the mappings of the vdevs removed last first makes no circle.
    #[must_use]
    pub fn destination(&self, id: VdevId) -> Option<Destination> {
        let top = self.top(id).ok()?;
        let is_known = top.layout().is_copies() || top.mapping().is_some();
        is_known.then(|| Destination {
            asize: top.asize(),
            sector: top.layout().sector(),
        })
    }

    /// Says where what a removed vdev held lies.
    ///
    /// # Errors
    /// There is no such vdev, or it was not removed.
    pub fn set_mapping(self: &Arc<Self>, id: VdevId, mapping: Mapping) -> Result<(), VdevError> {
        let top = self.top(id)?;
        if !top.is_indirect() {
            return Err(VdevError::NoSuchTop(id));
        }
        self.put_moved(&top, mapping);
        Ok(())
    }

    /// Puts a vdev without devices, `top`, in the place of one that held what `mapping` says.
    pub fn put_moved(self: &Arc<Self>, top: &Top, mapping: Mapping) {
        let elsewhere = Arc::new(Others(Arc::downgrade(self)));
        let mapped = top.with_mapping(Arc::new(mapping), elsewhere);
        self.set(top.id(), Some(mapped));
    }

    /// Where a range of a removed vdev lies now, however often it was moved.
    ///
    /// # Errors
    /// Something of it is not mapped.
    pub fn moved(&self, id: VdevId, range: Range<u64>) -> Result<MovedPlaces, VdevError> {
        let mut found = MovedPlaces::default();
        // What is still to be followed, the next one last.
        let mut left = vec![Place {
            vdev: id,
            range,
            birth: Txg(0),
        }];
        while let Some(place) = left.pop() {
            let top = self.top(place.vdev)?;
            if !top.is_indirect() {
                found.places.push(place);
                continue;
            }
            let parts = top
                .mapping()
                .and_then(|mapping| mapping.parts(place.range.clone()));
            let parts = parts.ok_or(VdevError::NotMapped {
                vdev: place.vdev,
                offset: place.range.start,
                len: place.range.end.saturating_sub(place.range.start),
            })?;
            found.through.push((place.vdev, place.range));
            left.extend(parts.into_iter().rev().map(|part| Place {
                vdev: part.vdev,
                range: part.offset..part.offset.saturating_add(part.len),
                birth: part.birth,
            }));
        }
        Ok(found)
    }

    /// Notes that a scan did not see some block of `birth`, wherever it lies: no leaf that missed it has it now.
    pub fn leave_behind(&self, birth: Txg) {
        // What lies on a removed vdev was written to others when it was copied.
        let removed = self.removed();
        let mappings = removed.iter().filter_map(|top| top.mapping());
        let copied: Vec<Txg> = mappings.flat_map(|mapping| mapping.births()).collect();
        for top in self.tops() {
            top.leave_behind(birth);
            copied.iter().for_each(|birth| top.leave_behind(*birth));
        }
    }

    /// Puts a vdev (or a hole) in slot `id`, making slots up to it; answers what was there. An id
    /// that does not fit in a block pointer (24 bits) changes nothing.
    pub fn set(&self, id: VdevId, top: Option<Arc<Top>>) -> Option<Arc<Top>> {
        if id.0 >= 1 << 24 {
            return None;
        }
        if let Some(top) = &top {
            top.set_fence(&self.fence);
        }
        let mut tops = self.tops.write();
        let index = id.0 as usize;
        if tops.len() <= index {
            tops.resize(index + 1, None);
        }
        std::mem::replace(&mut tops[index], top)
    }

    /// Says what of the vdev that is getting another child has moved, by an uberblock.
    pub fn set_moved(&self, moved: Moved) {
        for top in self.tops() {
            top.set_moved(moved);
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
