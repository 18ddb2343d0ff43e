//! Loading: from the map's entries to free segments.

use super::{Metaslab, State};
use crate::free_space::FreeSpace;
use crate::range_set::RangeSet;
use crate::{SpaceError, SpaceStore};
use base::{ObjectId, Txg};
use format::space_map::{Action, decode};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Metaslab {
    /// Takes up one change that a log holds; at import, before anything is loaded. False: it is older than what
    /// the own map has, and was passed over.
    pub(crate) fn replay(
        &self,
        action: Action,
        range: &Range<u64>,
        log: Txg,
    ) -> Result<bool, SpaceError> {
        let mut state = self.state.lock();
        if log < state.unflushed_txg {
            return Ok(false);
        }
        let length = (range.end - range.start).cast_signed();
        let (fits, change) = match action {
            Action::Allocate => (state.unflushed.allocate(range), length),
            Action::Free => (state.unflushed.free(range), -length),
        };
        if !fits {
            return Err(self.contradiction(&state, "log entry", range.clone()));
        }
        let allocated = self.allocated.fetch_add(change, Ordering::Relaxed) + change;
        let size = self.place.range.end - self.place.range.start;
        let used = u64::try_from(allocated).unwrap_or(0);
        self.largest
            .store(size.saturating_sub(used), Ordering::Relaxed);
        Ok(true)
    }

    /// Reads the maps, if that was not done yet.
    pub(crate) fn load(&self, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if self.state.lock().free.is_some() {
            return Ok(());
        }
        let _map = self.map.lock();
        self.load_locked(store)
    }

    /// As [`Self::load`], by one who holds the map's lock.
    pub(super) fn load_locked(&self, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if self.state.lock().free.is_some() {
            return Ok(());
        }
        let map = self.read_map(store)?;
        let mut state = self.state.lock();
        state.map_length = map.len() as u64;
        let on_disk = self.free_on_disk(&state, &map)?;
        let mut free = FreeSpace::default();
        for range in on_disk.iter() {
            let added = free.insert(range);
            debug_assert!(added, "ranges of one set are disjoint");
        }
        // Free on disk, but not yet to be used again.
        let resting = [&state.freed].into_iter().chain(&state.deferred);
        for range in resting.flat_map(RangeSet::iter) {
            if !free.remove(range.clone()) {
                return Err(self.contradiction(&state, "deferred free", range));
            }
        }
        self.largest.store(free.largest(), Ordering::Relaxed);
        state.free = Some(free);
        Ok(())
    }

    fn read_map(&self, store: &dyn SpaceStore) -> Result<Vec<u8>, SpaceError> {
        let object = self.state.lock().object;
        if object == ObjectId(0) {
            return Ok(Vec::new());
        }
        let read = store.read(object);
        Ok(read
            .map_err(|source| SpaceError::Store {
                object,
                txg: Txg(0),
                source,
            })?
            .bytes)
    }

    /// What the own map and the logs call free.
    fn free_on_disk(&self, state: &State, map: &[u8]) -> Result<RangeSet, SpaceError> {
        let mut free = RangeSet::new();
        free.extend([self.place.range.clone()]);
        self.apply(state, map, &mut free)?;
        for range in state.unflushed.allocated.iter() {
            if !free.remove(range.clone()) {
                return Err(self.contradiction(state, "logged allocation", range));
            }
        }
        for range in state.unflushed.freed.iter() {
            if !free.insert(range.clone()) {
                return Err(self.contradiction(state, "logged free", range));
            }
        }
        Ok(free)
    }

    fn apply(&self, state: &State, bytes: &[u8], free: &mut RangeSet) -> Result<(), SpaceError> {
        let whole = &self.place.range;
        for entry in decode(bytes, self.place.shift) {
            let entry = entry.map_err(|source| SpaceError::Format {
                object: state.object,
                source,
            })?;
            let outside = || SpaceError::Outside {
                vdev: self.place.vdev,
                range: entry.offset..entry.offset.saturating_add(entry.length),
            };
            let start = whole.start.checked_add(entry.offset).ok_or_else(outside)?;
            let end = start.checked_add(entry.length).ok_or_else(outside)?;
            if end > whole.end {
                return Err(outside());
            }
            let (done, what) = match entry.action {
                Action::Allocate => (free.remove(start..end), "allocation"),
                Action::Free => (free.insert(start..end), "free"),
            };
            if !done {
                return Err(self.contradiction(state, what, start..end));
            }
        }
        Ok(())
    }

    /// What is free on disk, for a check of the whole pool.
    pub(crate) fn free_ranges(&self, store: &dyn SpaceStore) -> Result<RangeSet, SpaceError> {
        let _map = self.map.lock();
        let map = self.read_map(store)?;
        self.free_on_disk(&self.state.lock(), &map)
    }
}
