//! What a metaslab promises to allocators, loaded or not.
//!
//! While it is loaded, its weight is the class of its longest segment (a power of two, no longer than it), and the
//! bound is some length that no segment exceeds. While it is not, nothing is allocated from it, so segments only
//! grow: its weight is the longest as it was when it was unloaded, or one that came since; the bound is what may have
//! come of it and its neighbours. After an import the weight comes from the histogram of the map's header, which knows
//! nothing of changes in the logs: it may be too large then, which a load corrects.

use super::{Metaslab, State};
use crate::free_space::FreeSpace;
use crate::{MetaslabInfo, RangeSet};
use base::ObjectId;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Metaslabs whose longest segment is at least this part of them (as a shift) are all the same to allocators, which
/// take the first of them.
const ROOMY_SHIFT: u32 = 2;

/// What is noted of a metaslab on the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    /// The longest free segment, bytes: see above.
    likely: u64,
    /// The ranks under which it is listed; the second if it is doubtful.
    rank: u8,
    doubtful: Option<u8>,
    /// Segments and bytes of memory, as counted.
    segments: u64,
    memory_bytes: u64,
    unflushed: u64,
}

/// The place of a metaslab of `size` bytes with a segment of `longest` in the order of choice: 0 for the roomy ones,
/// then one a class of length.
pub(crate) fn rank_of(longest: u64, size: u64) -> u8 {
    if longest >= size >> ROOMY_SHIFT && longest > 0 {
        return 0;
    }
    let class = longest.checked_ilog2();
    class.map_or(u8::MAX, |class| u8::try_from(64 - class).unwrap_or(u8::MAX))
}

impl Metaslab {
    /// No allocation of more bytes can succeed.
    pub(crate) fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Free bytes on disk.
    pub(crate) fn free_bytes(&self) -> u64 {
        let used = u64::try_from(self.allocated()).unwrap_or(0);
        self.size().saturating_sub(used)
    }

    /// The weight before anything was loaded.
    pub(super) fn first_weight(&self, info: &MetaslabInfo) {
        let mut state = self.state.lock();
        let free = self.free_bytes();
        state.weight.likely = match info.longest {
            Some(longest) if info.object != ObjectId(0) => longest.min(free),
            Some(_) | None => free,
        };
        self.bound.store(free, Ordering::Relaxed);
        let (rank, doubtful) = self.ranks(&state);
        (state.weight.rank, state.weight.doubtful) = (rank, doubtful);
        let mut lists = self.lists.lock();
        lists.by_rank.insert((rank, self.place.index));
        if let Some(doubtful) = doubtful {
            lists.doubtful.insert((doubtful, self.place.index));
        }
    }

    fn ranks(&self, state: &State) -> (u8, Option<u8>) {
        let rank = rank_of(state.weight.likely, self.size());
        if state.free.is_some() {
            return (rank, None);
        }
        let bound = rank_of(self.bound(), self.size());
        (rank, (bound < rank).then_some(bound))
    }

    /// Notes on the lists what has changed of the free segments and of the logged changes.
    pub(super) fn weigh(&self, state: &mut State) {
        let unflushed = &state.unflushed;
        let unflushed = (unflushed.allocated.count() + unflushed.freed.count()) as u64;
        let (segments, memory_bytes) = match &state.free {
            Some(free) => {
                state.weight.likely = free.longest_class();
                (free.count() as u64, free.memory_bytes())
            }
            None => (0, 0),
        };
        let old = state.weight;
        self.lists.segments.change(old.segments, segments);
        self.lists
            .memory_bytes
            .change(old.memory_bytes, memory_bytes);
        if memory_bytes > old.memory_bytes {
            let now = self.lists.memory_bytes.get();
            self.lists.memory_max.fetch_max(now, Ordering::Relaxed);
        }
        self.lists.unflushed.change(old.unflushed, unflushed);
        let (rank, doubtful) = self.ranks(state);
        state.weight = Weight {
            likely: old.likely,
            rank,
            doubtful,
            segments,
            memory_bytes,
            unflushed,
        };
        if (old.rank, old.doubtful) == (rank, doubtful) {
            return;
        }
        let index = self.place.index;
        let mut lists = self.lists.lock();
        lists.by_rank.remove(&(old.rank, index));
        lists.by_rank.insert((rank, index));
        if let Some(old) = old.doubtful {
            lists.doubtful.remove(&(old, index));
        }
        if let Some(doubtful) = doubtful {
            lists.doubtful.insert((doubtful, index));
        }
    }

    /// Adds a range to what is free for allocation: to the segments, or to what may be expected of them. False when it
    /// is free already.
    pub(super) fn add_free(&self, state: &mut State, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let length = range.end - range.start;
        state.use_changes();
        let Some(free) = &mut state.free else {
            let bound = self.bound().saturating_mul(2).saturating_add(length);
            self.bound
                .store(bound.min(self.free_bytes()), Ordering::Relaxed);
            state.weight.likely = state.weight.likely.max(length);
            return true;
        };
        let merged = free.insert_merged(range);
        if let Some(merged) = merged {
            self.bound.fetch_max(merged, Ordering::Relaxed);
        }
        merged.is_some()
    }

    /// It is loaded now, with these segments.
    pub(super) fn set_loaded(&self, state: &mut State, free: FreeSpace) {
        self.bound.store(free.longest(), Ordering::Relaxed);
        state.use_changes();
        state.free = Some(free);
        self.loaded.store(true, Ordering::Release);
        self.lists.loads.fetch_add(1, Ordering::Relaxed);
        self.lists.loaded.add(1);
        self.weigh(state);
        self.lists.lock().loaded.insert(self.place.index);
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// The last txg for which it was used.
    pub(crate) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Lets the free segments go. Not while an allocator works on it, or part of it is under a discard. Answers
    /// whether it did.
    pub(crate) fn unload(&self) -> bool {
        let mut state = self.state.lock();
        if self.is_in_use() || !state.trimming.is_empty() {
            return false;
        }
        let Some(free) = state.free.take() else {
            return false;
        };
        let longest = free.longest();
        self.bound.store(longest, Ordering::Relaxed);
        state.weight.likely = longest;
        state.segments_unloaded = free.count();
        self.loaded.store(false, Ordering::Release);
        self.lists.loaded.add(-1);
        self.weigh(&mut state);
        self.lists.lock().loaded.remove(&self.place.index);
        true
    }

    /// Notes what became free, if that is remembered.
    pub(super) fn remember(&self, state: &mut State, freed: &RangeSet) {
        if freed.is_empty() || !self.lists.remembers.load(Ordering::Relaxed) {
            return;
        }
        state.recent.extend(freed.iter());
        self.lists.lock().recent.insert(self.place.index);
    }
}
