//! The blocks that a scan has found and not looked at yet, each copy by its place.
//!
//! What is freed meanwhile is taken out when it is freed: its place may be given away three txgs later, and what lies
//! there then is neither to be judged nor to be repaired. A slice sees the state of an older txg, so what was freed
//! since that is remembered until the slice has handed in what it found.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::{Bookmark, Txg, VdevId};
use format::BlockPointer;
use format::block_pointer::{DVA_COUNT, Dva};
use format::gang;

use super::walk::Found;
use crate::tunables::{SCAN_GAP_BYTES, SCAN_MEMORY_BYTES, SCAN_RUN_BYTES};

static PENDING: LockClass = LockClass::new("pool.scan_pending", rank::LAST + 4);

/// What one copy takes in memory, with its share of the tree.
const ENTRY_BYTES: u64 = 256;

/// A copy of a block that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCopy {
    pub(super) block: BlockPointer,
    pub(super) bookmark: Bookmark,
    /// Which of its addresses; the first of a gang stands for all that it is made of.
    pub(super) index: usize,
    pub(super) dva: Dva,
}

impl PendingCopy {
    /// Bytes that lie at its place.
    pub(super) fn stored_bytes(&self) -> u64 {
        if self.block.is_gang() {
            gang::SIZE as u64
        } else {
            self.block.psize()
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.dva.offset.saturating_add(self.stored_bytes())
    }
}

/// See the module.
pub(crate) struct PendingBlocks {
    /// Whether a scan runs: frees pass by without the lock when none does.
    is_active: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tops: BTreeMap<VdevId, BTreeMap<u64, PendingCopy>>,
    count: u64,
    /// Where each vdev is read.
    cursors: BTreeMap<VdevId, u64>,
    /// What was freed lately, by txg.
    freed: BTreeMap<Txg, HashSet<(VdevId, u64)>>,
    /// Slices of the walk that are under way.
    collecting: usize,
    /// Which scan this is.
    number: u64,
}

impl State {
    fn is_freed(&self, place: (VdevId, u64)) -> bool {
        self.freed.values().any(|freed| freed.contains(&place))
    }

    fn add(&mut self, found: &Found) {
        let copies = if found.block.is_gang() { 1 } else { DVA_COUNT };
        for (index, dva) in found.block.dvas().enumerate().take(copies) {
            if self.is_freed((dva.vdev, dva.offset)) {
                continue;
            }
            let copy = PendingCopy {
                block: found.block,
                bookmark: found.bookmark,
                index,
                dva,
            };
            let top = self.tops.entry(dva.vdev).or_default();
            let is_new = top.insert(dva.offset, copy).is_none();
            self.count += u64::from(is_new);
        }
    }
}

impl PendingBlocks {
    pub(crate) fn new() -> Self {
        Self {
            is_active: AtomicBool::new(false),
            state: Mutex::new(&PENDING, State::default()),
        }
    }

    /// A scan begins. The walk may begin when a txg that was opened later is on disk: what the present ones freed
    /// already is not known.
    /// Answers the number of the scan.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.number + 1;
        *state = State {
            number,
            ..State::default()
        };
        self.is_active.store(true, Ordering::SeqCst);
        number
    }

    /// The scan is over, or left; unless another one has begun since.
    pub(super) fn end(&self, number: u64) {
        let mut state = self.state.lock();
        if state.number == number {
            self.is_active.store(false, Ordering::SeqCst);
            *state = State {
                number,
                ..State::default()
            };
        }
    }

    /// A block's space is freed in `txg`, which is being synced: this is not undone, other than with all of the
    /// txg. What a task frees is told when the task is done.
    pub(crate) fn freed(&self, txg: Txg, block: &BlockPointer) {
        if !self.is_active.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.state.lock();
        if state.collecting == 0 {
            // The state that a walk can see has these frees.
            state.freed = state.freed.split_off(&txg);
        }
        for dva in block.dvas() {
            let place = (dva.vdev, dva.offset);
            let top = state.tops.get_mut(&dva.vdev);
            if top.is_some_and(|top| top.remove(&dva.offset).is_some()) {
                state.count -= 1;
            }
            let freed = state.freed.entry(txg).or_default();
            freed.insert(place);
        }
    }

    /// A slice of the walk begins: from here on nothing that is freed is forgotten. It takes its hold afterwards.
    pub(super) fn collect(&self) -> Collecting<'_> {
        let mut state = self.state.lock();
        state.collecting += 1;
        Collecting {
            pending: self,
            number: state.number,
        }
    }

    /// Memory that is taken.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().count * ENTRY_BYTES
    }

    /// How many blocks there is memory for, at least one.
    pub(super) fn room(&self) -> usize {
        let left = SCAN_MEMORY_BYTES.get().saturating_sub(self.bytes());
        let blocks = left / (ENTRY_BYTES * DVA_COUNT as u64);
        usize::try_from(blocks).unwrap_or(usize::MAX).max(1)
    }

    /// Whether there is memory for less than one block.
    pub(super) fn is_full(&self) -> bool {
        let max = self.bytes() + ENTRY_BYTES * DVA_COUNT as u64;
        max > SCAN_MEMORY_BYTES.get() && !self.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().count == 0
    }

    /// The vdevs with copies to be looked at.
    pub(super) fn vdevs(&self) -> Vec<VdevId> {
        let state = self.state.lock();
        let tops = state.tops.iter().filter(|(_, top)| !top.is_empty());
        tops.map(|(id, _)| *id).collect()
    }

    /// Takes the next copies of a vdev that are read together, in the order of their places, and says where to begin:
    /// with what lies between them and the last ones, if that is little, so that a disk does not have to seek.
    pub(super) fn take_run(&self, vdev: VdevId) -> (u64, Vec<PendingCopy>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut run: Vec<PendingCopy> = Vec::new();
        let Some(top) = state.tops.get_mut(&vdev) else {
            return (0, run);
        };
        let cursor = state.cursors.entry(vdev).or_default();
        if top.range(*cursor..).next().is_none() {
            *cursor = 0;
        }
        let limits = Limits::now();
        let (mut start, mut useful) = (*cursor, 0);
        while let Some(copy) = top.range(*cursor..).next().map(|(_, copy)| *copy) {
            let gap = copy.dva.offset - *cursor;
            let is_alone =
                copy.block.is_gang() || run.first().is_some_and(|copy| copy.block.is_gang());
            let bytes = copy.end().saturating_sub(start);
            let fits = limits.fit(gap, bytes, useful + copy.stored_bytes()) && !is_alone;
            match (run.is_empty(), fits) {
                (true, false) => start = copy.dva.offset,
                (false, false) => break,
                (_, true) => {}
            }
            useful += copy.stored_bytes();
            run.push(copy);
            top.remove(&copy.dva.offset);
            // Whole sectors: an operation may begin here.
            *cursor = copy.dva.offset.saturating_add(copy.dva.asize.max(1));
            state.count -= 1;
        }
        (start, run)
    }
}

/// A slice of the walk.
pub(super) struct Collecting<'a> {
    pending: &'a PendingBlocks,
    number: u64,
}

impl Collecting<'_> {
    /// The slice is over the state of `synced`, which has all frees up to then.
    pub(super) fn over(&self, synced: Txg) {
        let mut state = self.pending.state.lock();
        if state.collecting == 1 {
            state.freed = state.freed.split_off(&synced.next());
        }
    }

    /// Takes what the slice found, but for what was freed meanwhile.
    pub(super) fn add(&self, found: &[Found]) {
        let mut state = self.pending.state.lock();
        if state.number == self.number && self.pending.is_active.load(Ordering::SeqCst) {
            found.iter().for_each(|found| state.add(found));
        }
    }
}

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        let mut state = self.pending.state.lock();
        if state.number == self.number {
            state.collecting = state.collecting.saturating_sub(1);
        }
    }
}

/// What is read together.
pub(super) struct Limits {
    bytes_max: u64,
    gap_max: u64,
}

impl Limits {
    pub(super) fn now() -> Self {
        Self {
            bytes_max: SCAN_RUN_BYTES.get(),
            gap_max: SCAN_GAP_BYTES.get(),
        }
    }

    /// Whether a copy belongs to a run: after a gap, with so many bytes from the beginning of the run, of which so many
    /// are wanted.
    pub(super) const fn fit(&self, gap: u64, bytes: u64, wanted: u64) -> bool {
        gap <= self.gap_max
            && bytes <= self.bytes_max
            && bytes <= wanted.saturating_mul(2).saturating_add(self.gap_max)
    }
}

#[cfg(test)]
mod tests;
