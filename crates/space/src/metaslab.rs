//! A metaslab: a slice of a top-level vdev, and what became of its space in the last txgs.
//!
//! Life of a range: `free → allocating(txg) → (written) → freeing → freed → deferred, two txgs → free`, and between
//! two of its lives `free → trimming → free`.
//! Invariant, while the metaslab is loaded: free, trimming, allocating, freeing, freed, deferred and what is in use are
//! disjoint and together the whole metaslab. Freed ranges rest for two txgs because the two uberblocks before the
//! newest must stay importable.

mod load;
mod sync;
mod trim;

pub(crate) use sync::{Changes, Pass};
pub use trim::TrimSizes;

use crate::free_space::FreeSpace;
use crate::range_set::{Pending, RangeSet};
use crate::{SpaceError, SpaceStore};
use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg, VdevId};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static METASLAB: LockClass = LockClass::new("space.metaslab", rank::SPACE + 10);
/// Held while a metaslab's map is read or written: the store below is the dmu, so this lock comes before its locks.
static MAP: LockClass = LockClass::new("space.map", rank::DMU - 10);

/// How many txgs a freed range rests before it is used again.
pub(crate) const DEFER_TXGS: usize = 2;

/// Where a metaslab lies.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) vdev: VdevId,
    pub(crate) index: usize,
    /// Bytes of the vdev.
    pub(crate) range: Range<u64>,
    /// log2 of the smallest allocation.
    pub(crate) shift: u32,
}

/// A metaslab.
#[derive(Debug)]
pub(crate) struct Metaslab {
    place: Place,
    /// Whoever reads or writes the maps holds it; the state's lock is never held then.
    map: Mutex<()>,
    state: Mutex<State>,
    /// Bytes in use as the maps on disk say (own map and logs).
    allocated: AtomicI64,
    /// The largest free segment; the size of all free space while not loaded.
    largest: AtomicU64,
}

/// What a metaslab knows; under its lock.
#[derive(Debug, Default)]
struct State {
    object: ObjectId,
    map_length: u64,
    map_allocated: i64,
    /// Free for allocation; present once loaded.
    free: Option<FreeSpace>,
    /// Free, but under a discard: nobody may be given it.
    trimming: RangeSet,
    /// What became free lately, if that is remembered. Parts may be in use again.
    recent: RangeSet,
    remembers: bool,
    allocating: [RangeSet; Txg::SLOTS],
    freeing: RangeSet,
    freed: RangeSet,
    deferred: [RangeSet; DEFER_TXGS],
    /// Changes that are in the logs but not in the metaslab's own map.
    unflushed: Pending,
    unflushed_txg: Txg,
}

impl Metaslab {
    /// A metaslab with the space map `object` (0: never used), whose header says `map_allocated` bytes.
    pub(crate) fn new(
        place: Place,
        object: ObjectId,
        map_allocated: i64,
        unflushed_txg: Txg,
    ) -> Self {
        let size = place.range.end - place.range.start;
        let used = u64::try_from(map_allocated).unwrap_or(0);
        let state = State {
            object,
            map_allocated,
            unflushed_txg,
            ..State::default()
        };
        Self {
            map: Mutex::new(&MAP, ()),
            state: Mutex::new(&METASLAB, state),
            allocated: AtomicI64::new(map_allocated),
            largest: AtomicU64::new(size.saturating_sub(used)),
            place,
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Bytes in use on disk.
    pub(crate) fn allocated(&self) -> i64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// An upper bound of the largest allocation that can succeed.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// Whether it was ever used.
    pub(crate) fn has_map(&self) -> bool {
        self.state.lock().object != ObjectId(0)
    }

    /// Its space map; 0 if it was never used.
    pub(crate) fn object(&self) -> ObjectId {
        self.state.lock().object
    }

    /// From which txg on its changes are in the logs.
    pub(crate) fn unflushed_txg(&self) -> Txg {
        self.state.lock().unflushed_txg
    }

    /// Bytes that were freed and rest until they may be used again.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.freed.bytes() + state.deferred.iter().map(RangeSet::bytes).sum::<u64>()
    }

    /// Takes `size` bytes for `txg`, loading the maps if need be. None when there is no segment of that size.
    pub(crate) fn allocate(
        &self,
        size: u64,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<Option<Range<u64>>, SpaceError> {
        self.load(store)?;
        let mut state = self.state.lock();
        let Some(free) = &mut state.free else {
            return Ok(None);
        };
        let Some(range) = free.allocate(size) else {
            self.largest.store(free.largest(), Ordering::Relaxed);
            return Ok(None);
        };
        self.largest.store(free.largest(), Ordering::Relaxed);
        if state.allocating[txg.slot()].insert(range.clone()) {
            Ok(Some(range))
        } else {
            Err(self.contradiction(&state, "allocation", range))
        }
    }

    /// Gives back what was allocated in this very txg and never written to a map.
    pub(crate) fn unallocate(&self, range: Range<u64>, txg: Txg) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let taken = state.allocating[txg.slot()].remove(range.clone());
        self.make_free(&mut state, range, taken, "return")
    }

    /// Makes a range free for allocation again, if it was `taken` from where it was; `what` names the operation.
    fn make_free(
        &self,
        state: &mut State,
        range: Range<u64>,
        taken: bool,
        what: &'static str,
    ) -> Result<(), SpaceError> {
        let Some(free) = &mut state.free else {
            return Err(self.contradiction(state, what, range));
        };
        let given = taken && free.insert(range.clone());
        self.largest.store(free.largest(), Ordering::Relaxed);
        if given {
            Ok(())
        } else {
            Err(self.contradiction(state, what, range))
        }
    }

    /// Notes that a range is no longer used; in syncing context.
    pub(crate) fn free(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let free_already = state
            .free
            .as_ref()
            .is_some_and(|free| free.segments().overlaps(&range))
            || state.trimming.overlaps(&range)
            || state.freed.overlaps(&range)
            || state
                .deferred
                .iter()
                .any(|deferred| deferred.overlaps(&range));
        if free_already || !state.freeing.insert(range.clone()) {
            return Err(self.contradiction(&state, "free", range));
        }
        Ok(())
    }

    /// Takes a range that the maps call free but that is in use: claiming an intent log at import.
    pub(crate) fn claim(
        &self,
        range: Range<u64>,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        self.load(store)?;
        let mut state = self.state.lock();
        let taken = state
            .free
            .as_mut()
            .is_some_and(|free| free.remove(range.clone()));
        if taken && state.allocating[txg.slot()].insert(range.clone()) {
            Ok(())
        } else {
            Err(self.contradiction(&state, "claim", range))
        }
    }

    fn contradiction(&self, state: &State, what: &'static str, range: Range<u64>) -> SpaceError {
        SpaceError::Contradiction {
            vdev: self.place.vdev,
            object: state.object,
            what,
            range,
        }
    }
}
