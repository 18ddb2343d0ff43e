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
    /// Takes up one change that a log holds, `newer` logs before the last; at import, before anything is loaded. What
    /// is older than what the own map has is passed over, but for what the free tells of rest.
    pub(crate) fn replay(
        &self,
        action: Action,
        range: &Range<u64>,
        log: Txg,
        newer: usize,
    ) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let rests = self.replay_rest(&mut state, action, range, newer);
        if log < state.unflushed_txg {
            return Ok(());
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
        if action == Action::Free && !rests {
            let expected = self.add_free(&mut state, range.clone());
            debug_assert!(expected, "nothing is loaded yet");
        }
        self.weigh(&mut state);
        Ok(())
    }

    /// What the last logs call freed has not rested: the states before them need it, and may be what is imported next.
    /// What was given away since all the same, by whoever wrote them, is in use. True: the range rests.
    fn replay_rest(
        &self,
        state: &mut State,
        action: Action,
        range: &Range<u64>,
        newer: usize,
    ) -> bool {
        let rested_before = state.deferred_bytes();
        for deferred in &mut state.deferred {
            let _now_as_said_here = deferred.take_overlap(range);
        }
        let resting = match action {
            Action::Free => state.deferred.get_mut(newer),
            Action::Allocate => None,
        };
        let rests = resting.is_some();
        if let Some(resting) = resting {
            resting.extend([range.clone()]);
        }
        self.note_rest(state, rested_before);
        rests
    }

    /// Counts and lists what rests, of which there was so much before.
    pub(super) fn note_rest(&self, state: &State, bytes_before: u64) {
        let bytes = state.deferred_bytes();
        if bytes == bytes_before {
            return;
        }
        self.lists.resting_bytes.change(bytes_before, bytes);
        let mut lists = self.lists.lock();
        if bytes == 0 && state.freed.is_empty() {
            lists.resting.remove(&self.place.index);
        } else {
            lists.resting.insert(self.place.index);
        }
    }

    /// Reads the maps, unless it is loaded.
    pub(crate) fn load(&self, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if self.is_loaded() {
            return Ok(());
        }
        let _map = self.map.lock();
        self.load_locked(store)
    }

    /// Loads it; false where its map cannot be read in any copy, which is not tried again.
    pub(crate) fn load_unless_damaged(&self, store: &dyn SpaceStore) -> Result<bool, SpaceError> {
        if self.is_unreadable() {
            return Ok(false);
        }
        match self.load(store) {
            Err(_) if self.is_unreadable() => Ok(false),
            loaded => loaded.map(|()| true),
        }
    }

    /// Whether its map was found to be unreadable.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Acquire)
    }

    /// Notes whether the map can be read.
    fn set_unreadable(&self, unreadable: bool) {
        if self.unreadable.swap(unreadable, Ordering::AcqRel) == unreadable {
            return;
        }
        let state = self.state.lock();
        self.list_map(state.unflushed_txg, state.unflushed_txg);
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
        let contents = read.map_err(|source| {
            if store.is_damage(&source) {
                self.set_unreadable(true);
            }
            SpaceError::Store {
                object,
                txg: Txg(0),
                source,
            }
        })?;
        self.set_unreadable(false);
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

    /// What is in use as of the txg before the one that syncs, but for what that one has freed.
    pub(crate) fn in_use(&self, store: &dyn SpaceStore) -> Result<RangeSet, SpaceError> {
        let mut used = self.free_ranges(store)?.gaps(self.place.range.clone());
        for range in self.state.lock().freeing.iter() {
            used.take_overlap(&range);
        }
        Ok(used)
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
