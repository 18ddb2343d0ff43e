//! A metaslab: a slice of a top-level vdev, and what became of its space in the last txgs.
//!
//! Life of a range: `free → allocating(txg) → (written) → freeing → freed → deferred, two txgs → free`, and between
//! two of its lives `free → trimming → free`.
//! Invariant: free, trimming, allocating, freeing, freed, deferred and what is in use are disjoint and together the
//! whole metaslab. Freed ranges rest for two txgs because the two uberblocks before the newest must stay importable; so
//! only txgs count that write one.
//!
//! All but *free* is always in memory. *Free* is there while the metaslab is loaded, and follows at any moment from
//! what its map and the logs say: free on disk, less what is allocating, freed or deferred. So a metaslab may be
//! unloaded at any time when nothing of it is under a discard.

mod keep;
mod load;
mod sync;
mod trim;
mod used;
mod weight;

pub(crate) use sync::{Changes, Pass};
pub use trim::TrimSizes;

use crate::free_space::{FreeSpace, Manner};
use crate::lists::Lists;
use crate::range_set::{Pending, RangeSet};
use crate::{MetaslabInfo, SpaceError, SpaceStore};
use base::invariant;
use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg, VdevId};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use weight::Weight;
pub(crate) use weight::rank_of;

static METASLAB: LockClass = LockClass::new("space.metaslab", rank::SPACE + 10);
/// Held while a metaslab's map is read or written: the store below is the dmu, so this lock comes before its locks.
static MAP: LockClass = LockClass::new("space.map", rank::DMU - 10);

/// How many txgs that write an uberblock a freed range rests before it is used again.
pub const DEFER_TXGS: usize = 2;

/// Where a metaslab lies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) vdev: VdevId,
    pub(crate) index: usize,
    /// Bytes of the vdev.
    pub(crate) range: Range<u64>,
    /// log2 of the smallest allocation.
    pub(crate) shift: u32,
    /// What allocations begin at, and are as long as, multiples of, in bytes.
    pub(crate) unit: u64,
}

impl Place {
    /// How long it is, bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A metaslab.
#[derive(Debug)]
pub(crate) struct Metaslab {
    place: Place,
    /// Whoever reads or writes the maps holds it; the state's lock is never held then.
    map: Mutex<()>,
    state: Mutex<State>,
    /// The lists of the vdev.
    lists: Arc<Lists>,
    /// Bytes in use as the maps on disk say (own map and logs).
    allocated: AtomicI64,
    /// An upper bound of the longest free segment, bytes.
    bound: AtomicU64,
    loaded: AtomicBool,
    /// Its map cannot be read in any copy: what is free is not known, and nothing is taken from it.
    unreadable: AtomicBool,
    /// How many allocators work on it.
    users: AtomicUsize,
    /// The last txg for which it was used.
    used: AtomicU64,
}

/// What a metaslab knows; under its lock.
#[derive(Debug, Default)]
struct State {
    object: ObjectId,
    map_length: u64,
    map_allocated: i64,
    /// Free for allocation, while loaded.
    free: Option<FreeSpace>,
    /// How many segments there were when it was unloaded.
    segments_unloaded: usize,
    /// What is said of it on the lists.
    weight: Weight,
    /// Free, but under a discard: nobody may be given it.
    trimming: RangeSet,
    /// What became free lately, if that is remembered. Parts may be in use again.
    recent: RangeSet,
    allocating: [RangeSet; Txg::SLOTS],
    freeing: RangeSet,
    /// In use on disk, and from now on for a checkpoint alone.
    keeping: RangeSet,
    /// Where the last free has found nothing but what is in use, or being freed: blocks that were written together
    /// are freed together, and most lie in here. Empty once anything else may have come there.
    in_use: Range<u64>,
    freed: RangeSet,
    /// What rests, by how many uberblocks were written since it was freed.
    deferred: [RangeSet; DEFER_TXGS],
    /// Changes that are in the logs but not in the metaslab's own map.
    unflushed: Pending,
    unflushed_txg: Txg,
}

impl State {
    /// From where on up to the end of `range` nothing is free, under a discard or freed before; none when part of the
    /// range itself is.
    fn in_use_from(&self, range: &Range<u64>) -> Option<u64> {
        let free = self.free.as_ref();
        let mut from = free.map_or(Some(0), |free| free.end_before(range))?;
        let [newer, older] = &self.deferred;
        for set in [&self.trimming, &self.freed, newer, older] {
            from = from.max(set.end_before(range)?);
        }
        Some(from)
    }

    /// Bytes that rest since txgs that have ended.
    fn deferred_bytes(&self) -> u64 {
        self.deferred.iter().map(RangeSet::bytes).sum()
    }

    /// What was in use may be something else from now on.
    fn use_changes(&mut self) {
        self.in_use = 0..0;
    }
}

impl Metaslab {
    /// A metaslab of which `info` is known, on the lists of its vdev.
    pub(crate) fn new(place: Place, info: &MetaslabInfo, lists: &Arc<Lists>) -> Self {
        let state = State {
            object: info.object,
            map_allocated: info.allocated,
            unflushed_txg: info.unflushed,
            ..State::default()
        };
        lists.allocated.add(info.allocated);
        if info.object != ObjectId(0) {
            lists.lock().mapped.insert((info.unflushed, place.index));
        }
        let metaslab = Self {
            map: Mutex::new(&MAP, ()),
            state: Mutex::new(&METASLAB, state),
            lists: Arc::clone(lists),
            allocated: AtomicI64::new(info.allocated),
            bound: AtomicU64::new(0),
            loaded: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            place,
        };
        metaslab.first_weight(info);
        metaslab
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Bytes in use on disk.
    pub(crate) fn allocated(&self) -> i64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn size(&self) -> u64 {
        self.place.range.end - self.place.range.start
    }

    /// Whether it was ever used.
    pub(crate) fn has_map(&self) -> bool {
        self.state.lock().object != ObjectId(0)
    }

    /// Its space map; 0 if it was never used.
    pub(crate) fn object(&self) -> ObjectId {
        self.state.lock().object
    }

    /// Takes `size` bytes for `txg`, loading the maps if need be. None when there is no segment of that size.
    pub(crate) fn allocate(
        &self,
        (size, manner): (u64, Manner),
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<Option<Range<u64>>, SpaceError> {
        self.touch(txg);
        loop {
            if !self.load_unless_damaged(store)? {
                return Ok(None);
            }
            let mut state = self.state.lock();
            // It may have been unloaded meanwhile.
            let Some(free) = &mut state.free else {
                continue;
            };
            let Some(range) = free.allocate(size, manner) else {
                self.bound.store(free.longest(), Ordering::Relaxed);
                return Ok(None);
            };
            self.weigh(&mut state);
            let may_be_given = self.may_be_given(&state, &range, size);
            return if may_be_given && self.note_allocated(&mut state, txg, range.clone()) {
                Ok(Some(range))
            } else {
                Err(self.contradiction(&state, "allocation", range))
            };
        }
    }

    /// Whether a range that was free while the metaslab is loaded is where it must be, and nothing else. What came from
    /// the maps was compared with the rest when it was loaded.
    fn may_be_given(&self, state: &State, range: &Range<u64>, size: u64) -> bool {
        let findings = &self.lists.findings;
        let Place {
            vdev,
            range: whole,
            unit,
            ..
        } = &self.place;
        let units = range.start.is_multiple_of(*unit) && range.end.is_multiple_of(*unit);
        let is_inside = invariant!(
            findings,
            units && range.start >= whole.start && range.end <= whole.end,
            "space.inside",
            "{range:?} is given of the metaslab {whole:?} of vdev {vdev}"
        );
        let is_whole = invariant!(
            findings,
            range.end.wrapping_sub(range.start) >= size,
            "space.inside",
            "{range:?} is given for {size} bytes"
        );
        let named = [
            (&state.trimming, "under a discard"),
            (&state.freeing, "being freed"),
            (&state.freed, "just freed"),
            (&state.deferred[0], "resting"),
            (&state.deferred[1], "resting"),
        ];
        let allocating = state.allocating.iter().map(|set| (set, "given already"));
        let mut held = named.into_iter().chain(allocating);
        let other = held.find(|(set, _)| set.overlaps(range));
        let is_free = invariant!(
            findings,
            other.is_none(),
            "space.disjoint",
            "{range:?} of vdev {vdev} is given, and part of it is {}",
            other.map_or("", |(_, what)| what)
        );
        is_inside && is_whole && is_free
    }

    fn note_allocated(&self, state: &mut State, txg: Txg, range: Range<u64>) -> bool {
        let slot = txg.slot();
        let first = state.allocating[slot].is_empty();
        let noted = state.allocating[slot].insert(range);
        if first && noted {
            self.lists.lock().allocating[slot].insert(self.place.index);
        }
        noted
    }

    /// Frees what was allocated in this very txg and never written to a map.
    pub(crate) fn unallocate(&self, range: Range<u64>, txg: Txg) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let slot = txg.slot();
        let taken = state.allocating[slot].remove(range.clone());
        if taken && state.allocating[slot].is_empty() {
            self.lists.lock().allocating[slot].remove(&self.place.index);
        }
        self.make_free(&mut state, range, taken, "return")
    }

    /// Makes a range that is free on disk free for allocation again, if it was `taken` from where it was; `what` names
    /// the operation.
    fn make_free(
        &self,
        state: &mut State,
        range: Range<u64>,
        taken: bool,
        what: &'static str,
    ) -> Result<(), SpaceError> {
        let given = taken && self.add_free(state, range.clone());
        self.weigh(state);
        if given {
            Ok(())
        } else {
            Err(self.contradiction(state, what, range))
        }
    }

    /// Notes that a range is no longer used; in syncing context.
    pub(crate) fn free(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        if state.in_use.start > range.start || state.in_use.end < range.end {
            let Some(from) = state.in_use_from(&range) else {
                return Err(self.contradiction(&state, "free", range));
            };
            state.in_use = from..range.end;
        }
        let first = state.freeing.is_empty();
        if state.keeping.overlaps(&range) || !state.freeing.insert(range.clone()) {
            return Err(self.contradiction(&state, "free", range));
        }
        if first {
            self.lists.lock().freeing.insert(self.place.index);
        }
        Ok(())
    }

    /// Takes a range that the maps call free but that is in use: claiming an intent log at import. Whoever wrote the
    /// log may have taken for it what has not rested.
    pub(crate) fn claim(
        &self,
        range: Range<u64>,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        self.touch(txg);
        loop {
            let is_known = self.load_unless_damaged(store)?;
            let mut state = self.state.lock();
            if is_known && state.free.is_none() {
                continue;
            }
            self.end_rest(&mut state, &range);
            // Where nobody can say what is free, the log's word must do.
            let free = state.free.as_mut();
            let taken = free.is_none_or(|free| free.remove(range.clone()));
            self.weigh(&mut state);
            return if taken && self.note_allocated(&mut state, txg, range.clone()) {
                Ok(())
            } else {
                Err(self.contradiction(&state, "claim", range))
            };
        }
    }

    /// Makes free what of a range rests.
    fn end_rest(&self, state: &mut State, range: &Range<u64>) {
        let rested_before = state.deferred_bytes();
        let [newer, older] = &mut state.deferred;
        let parts = [newer.take_overlap(range), older.take_overlap(range)];
        for part in parts.into_iter().flatten() {
            let added = self.add_free(state, part);
            debug_assert!(added, "what rests is not free");
        }
        self.note_rest(state, rested_before);
    }

    /// Marks it as used for a txg: it stays loaded until that has synced.
    pub(crate) fn touch(&self, txg: Txg) {
        self.used.fetch_max(txg.0, Ordering::Relaxed);
    }

    /// An allocator begins to work on it: it stays loaded.
    pub(crate) fn begin_use(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// An allocator goes elsewhere.
    pub(crate) fn end_use(&self) {
        let before = self.users.fetch_sub(1, Ordering::Relaxed);
        let is_used = invariant!(
            self.lists.findings,
            before != 0,
            "space.users",
            "an allocator leaves {:?} of vdev {} that none works on",
            self.place.range,
            self.place.vdev
        );
        if !is_used {
            self.users.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether an allocator works on it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    fn contradiction(&self, state: &State, what: &'static str, range: Range<u64>) -> SpaceError {
        self.contradicts(state.object, what, range)
    }

    fn contradicts(&self, object: ObjectId, what: &'static str, range: Range<u64>) -> SpaceError {
        SpaceError::Contradiction {
            vdev: self.place.vdev,
            object,
            what,
            range,
        }
    }
}

#[cfg(test)]
mod tests;
