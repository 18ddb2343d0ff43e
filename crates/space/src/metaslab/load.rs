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
        self.allocated.fetch_add(change, Ordering::Relaxed);
        self.lists.allocated.add(change);
        if action == Action::Free {
            let expected = self.add_free(&mut state, range.clone());
            debug_assert!(expected, "nothing is loaded yet");
        }
        self.weigh(&mut state);
        Ok(true)
    }

    /// Reads the maps, unless it is loaded.
    pub(crate) fn load(&self, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if self.is_loaded() {
            return Ok(());
        }
        let _map = self.map.lock();
        self.load_locked(store)
    }

    /// As [`Self::load`], by one who holds the map's lock: so the map and what is in the logs only stay as they are.
    pub(super) fn load_locked(&self, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if self.state.lock().free.is_some() {
            return Ok(());
        }
        let (object, map) = self.read_map(store)?;
        let mut free = self.free_of_map(object, &map)?;
        let mut state = self.state.lock();
        state.map_length = map.len() as u64;
        self.apply_logs(&state, &mut free)?;
        // Free on disk, but taken since, or not yet to be used again.
        let held = [
            (&state.allocating[..], "allocation"),
            (std::slice::from_ref(&state.freed), "deferred free"),
            (&state.deferred[..], "deferred free"),
        ];
        for (sets, what) in held {
            for range in sets.iter().flat_map(RangeSet::iter) {
                if !free.remove(range.clone()) {
                    return Err(self.contradiction(&state, what, range));
                }
            }
        }
        // What is being freed was in use, if the maps are right and nothing else leads there.
        if let Some(range) = state.freeing.iter().find(|range| free.overlaps(range)) {
            return Err(self.contradiction(&state, "free", range));
        }
        self.set_loaded(&mut state, free);
        Ok(())
    }

    fn read_map(&self, store: &dyn SpaceStore) -> Result<(ObjectId, Vec<u8>), SpaceError> {
        let object = self.state.lock().object;
        if object == ObjectId(0) {
            return Ok((object, Vec::new()));
        }
        let read = store.read(object);
        let contents = read.map_err(|source| SpaceError::Store {
            object,
            txg: Txg(0),
            source,
        })?;
        Ok((object, contents.bytes))
    }

    /// What the own map calls free.
    fn free_of_map(&self, object: ObjectId, map: &[u8]) -> Result<FreeSpace, SpaceError> {
        let whole = &self.place.range;
        let mut free = FreeSpace::new(whole, self.place.shift);
        let added = free.insert(whole.clone());
        debug_assert!(added, "a metaslab has whole units");
        for entry in decode(map, self.place.shift) {
            let entry = entry.map_err(|source| SpaceError::Format { object, source })?;
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
                return Err(self.contradicts(object, what, start..end));
            }
        }
        Ok(free)
    }

    /// Applies what the logs hold beyond the own map.
    fn apply_logs(&self, state: &State, free: &mut FreeSpace) -> Result<(), SpaceError> {
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
        Ok(())
    }

    /// What is free on disk, for a check of the whole pool.
    pub(crate) fn free_ranges(&self, store: &dyn SpaceStore) -> Result<RangeSet, SpaceError> {
        let _map = self.map.lock();
        let (object, map) = self.read_map(store)?;
        let mut free = self.free_of_map(object, &map)?;
        self.apply_logs(&self.state.lock(), &mut free)?;
        Ok(free.to_set())
    }
}
