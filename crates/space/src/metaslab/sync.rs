//! Writing a txg's changes to the maps.

use super::{Metaslab, State};
use crate::free_space::FreeSpace;
use crate::range_set::RangeSet;
use crate::{MapAppend, SpaceError, SpaceStore};
use base::invariant;
use base::{ObjectId, Txg};
use format::space_map::{Action, Encoder, Entry, Form};
use std::sync::atomic::Ordering;

/// A map is rewritten when it is this many times as long as it need be, and longer than a few blocks.
const CONDENSE_FACTOR: u64 = 2;
const CONDENSE_BLOCKS: u64 = 4;

/// What one metaslab changes in one pass.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) allocated: RangeSet,
    pub(crate) freed: RangeSet,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.allocated.is_empty() && self.freed.is_empty()
    }

    /// By how much allocated bytes grow.
    pub(crate) fn growth(&self) -> i64 {
        self.allocated.bytes().cast_signed() - self.freed.bytes().cast_signed()
    }

    /// Writes the entries, with offsets from `start` on.
    pub(crate) fn encode(&self, encoder: &mut Encoder, vdev: u64, start: u64, pass: Pass) {
        let kinds = [
            (Action::Allocate, &self.allocated),
            (Action::Free, &self.freed),
        ];
        for (action, ranges) in kinds.into_iter().filter(|(_, ranges)| !ranges.is_empty()) {
            encoder.debug(action, pass.pass, pass.txg.0);
            for range in ranges.iter() {
                let (offset, length) = (range.start - start, range.end - range.start);
                encoder.push(Entry {
                    action,
                    vdev,
                    offset,
                    length,
                });
            }
        }
    }
}

/// Which txg and pass writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) txg: Txg,
    pub(crate) pass: u32,
    /// How entries of own maps are written.
    pub(crate) form: Form,
}

impl Metaslab {
    /// Takes the changes since the last pass, for the log. The metaslab's own map comes to be here.
    pub(crate) fn take_for_log(
        &self,
        pass: Pass,
        store: &dyn SpaceStore,
    ) -> Result<Changes, SpaceError> {
        let _map = self.map.lock();
        if self.create_map(pass.txg, store)? {
            self.set_unflushed(pass.txg, store)?;
        }
        let mut state = self.state.lock();
        let changes = self.take(&mut state, pass.txg);
        for range in changes.allocated.iter() {
            if !state.unflushed.allocate(&range) {
                return Err(self.contradiction(&state, "logged allocation", range));
            }
        }
        for range in changes.freed.iter() {
            if !state.unflushed.free(&range) {
                return Err(self.contradiction(&state, "logged free", range));
            }
        }
        self.weigh(&mut state);
        Ok(changes)
    }

    /// Writes the changes since the last pass to the metaslab's own map: pools without log space maps.
    pub(crate) fn write_own(&self, pass: Pass, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let _map = self.map.lock();
        if pass.pass == 1
            && self.may_be_long(pass.txg, store)?
            && let Err(error) = self.load_locked(store)
            && !self.is_unreadable()
        {
            return Err(error);
        }
        if pass.pass == 1
            && let Some(shortest) = self.shorter_map(pass.txg, store)?
        {
            self.rewrite(&shortest, pass, store)?;
        }
        let changes = self.take(&mut self.state.lock(), pass.txg);
        self.append_or_rewrite(&changes, pass, store)
    }

    /// Moves what the logs hold for this metaslab into its own map; before this txg's changes are taken.
    pub(crate) fn flush(&self, pass: Pass, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let _map = self.map.lock();
        if !self.has_map() {
            return Ok(());
        }
        if !self.has_unflushed() {
            return self.set_unflushed(pass.txg, store);
        }
        // Not used for the txg by that: as soon as its map is written, it may be let go.
        if let Err(error) = self.load_locked(store) {
            // The logs go on telling what has changed: they are kept as long as that.
            return if self.is_unreadable() {
                Ok(())
            } else {
                Err(error)
            };
        }
        let shortest = self.shorter_map(pass.txg, store)?;
        let pending = {
            let mut state = self.state.lock();
            let pending = std::mem::take(&mut state.unflushed);
            self.weigh(&mut state);
            pending
        };
        match shortest {
            Some(shortest) => self.rewrite(&shortest, pass, store)?,
            None => {
                let changes = Changes {
                    allocated: pending.allocated,
                    freed: pending.freed,
                };
                self.append_or_rewrite(&changes, pass, store)?;
            }
        }
        self.set_unflushed(pass.txg, store)
    }

    /// After the uberblock: what was freed begins its rest, what rested long enough is free.
    pub(crate) fn finish(&self) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let freed = std::mem::take(&mut state.freed);
        // The one that has rested longest comes first, and makes place.
        state.deferred.rotate_right(1);
        let rested = std::mem::replace(&mut state.deferred[0], freed);
        self.lists.resting_bytes.add(-rested.bytes().cast_signed());
        let contradicts = rested
            .iter()
            .find(|range| !self.add_free(&mut state, range.clone()));
        self.weigh(&mut state);
        if let Some(range) = contradicts {
            return Err(self.contradiction(&state, "end of rest", range));
        }
        self.remember(&mut state, &rested);
        let rests = state.deferred.iter().any(|deferred| !deferred.is_empty());
        if !rests {
            self.lists.lock().resting.remove(&self.place.index);
        }
        Ok(())
    }

    /// Whether the logs hold changes that the own map lacks.
    pub(crate) fn has_unflushed(&self) -> bool {
        !self.state.lock().unflushed.is_empty()
    }

    pub(super) fn take(&self, state: &mut State, txg: Txg) -> Changes {
        let allocated = std::mem::take(&mut state.allocating[txg.slot()]);
        let freed = std::mem::take(&mut state.freeing);
        let rested_before = state.freed.bytes();
        state.use_changes();
        state.freed.extend(freed.iter());
        let (grown, freed_bytes) = (state.freed.bytes() - rested_before, freed.bytes());
        invariant!(
            self.lists.findings,
            grown == freed_bytes,
            "space.disjoint",
            "{freed_bytes} bytes of {:?} of vdev {} are freed, and {grown} of them were not freed before in this txg",
            self.place.range,
            self.place.vdev
        );
        self.lists
            .resting_bytes
            .change(rested_before, state.freed.bytes());
        let change = allocated.bytes().cast_signed() - freed.bytes().cast_signed();
        self.allocated.fetch_add(change, Ordering::Relaxed);
        self.lists.allocated.add(change);
        let mut lists = self.lists.lock();
        lists.allocating[txg.slot()].remove(&self.place.index);
        lists.freeing.remove(&self.place.index);
        if !state.freed.is_empty() {
            lists.resting.insert(self.place.index);
        }
        Changes { allocated, freed }
    }

    /// Makes the own map if there is something to write and none yet; true if it did.
    fn create_map(&self, txg: Txg, store: &dyn SpaceStore) -> Result<bool, SpaceError> {
        let mut state = self.state.lock();
        let nothing = state.allocating[txg.slot()].is_empty() && state.freeing.is_empty();
        if state.object != ObjectId(0) || nothing {
            return Ok(false);
        }
        drop(state);
        let created = store.create(self.place.vdev, self.place.index);
        let object = created.map_err(|source| SpaceError::Store {
            object: ObjectId(0),
            txg,
            source,
        })?;
        state = self.state.lock();
        state.object = object;
        self.list_map(state.unflushed_txg, state.unflushed_txg);
        Ok(true)
    }

    /// Lists the map under the txg from which on its changes are in the logs.
    pub(super) fn list_map(&self, before: Txg, now: Txg) {
        let index = self.place.index;
        let is_unreadable = self.is_unreadable();
        let mut lists = self.lists.lock();
        lists.mapped.remove(&(before, index));
        lists.unreadable.remove(&(before, index));
        if is_unreadable {
            lists.unreadable.insert((now, index));
        } else {
            lists.mapped.insert((now, index));
        }
    }

    fn set_unflushed(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let object = {
            let mut state = self.state.lock();
            let before = std::mem::replace(&mut state.unflushed_txg, txg);
            self.list_map(before, txg);
            state.object
        };
        store
            .set_unflushed(self.place.vdev, self.place.index, txg)
            .map_err(|source| SpaceError::Store {
                object,
                txg,
                source,
            })
    }

    /// Appends changes, which are taken already. Where the end of the map cannot be read, all of it is written anew:
    /// what is free is known while the metaslab is loaded.
    fn append_or_rewrite(
        &self,
        changes: &Changes,
        pass: Pass,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        match self.append(changes, pass, store) {
            Err(SpaceError::Store {
                object,
                txg,
                source,
            }) if store.is_damage(&source) => {
                let allocated = {
                    let state = self.state.lock();
                    state
                        .free
                        .as_ref()
                        .map(|free| self.allocated_of(&state, free))
                };
                let failed = || SpaceError::Store {
                    object,
                    txg,
                    source,
                };
                self.rewrite(&allocated.ok_or_else(failed)?, pass, store)
            }
            done => done,
        }
    }

    fn append(
        &self,
        changes: &Changes,
        pass: Pass,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        if changes.is_empty() {
            return Ok(());
        }
        let (mut object, histogram) = {
            let state = self.state.lock();
            (state.object, self.map_histogram(&state))
        };
        let failed = |source| SpaceError::Store {
            object,
            txg: pass.txg,
            source,
        };
        if object == ObjectId(0) {
            object = store
                .create(self.place.vdev, self.place.index)
                .map_err(failed)?;
            let mut state = self.state.lock();
            state.object = object;
            self.list_map(state.unflushed_txg, state.unflushed_txg);
        }
        let failed = |source| SpaceError::Store {
            object,
            txg: pass.txg,
            source,
        };
        let position = store.length(object).map_err(failed)?;
        let block_size = store.block_size(object).map_err(failed)?;
        let bytes = self.encode(changes, pass, position, block_size);
        let allocated_change = changes.growth();
        let append = MapAppend {
            bytes: &bytes,
            allocated_change,
            histogram,
        };
        store.append(object, &append).map_err(failed)?;
        let mut state = self.state.lock();
        state.map_length = position + bytes.len() as u64;
        state.map_allocated += allocated_change;
        Ok(())
    }

    fn encode(&self, changes: &Changes, pass: Pass, position: u64, block_size: usize) -> Vec<u8> {
        let position = usize::try_from(position % block_size as u64).unwrap_or(0);
        let mut encoder = Encoder::new(self.place.shift, pass.form, block_size, position);
        changes.encode(&mut encoder, 0, self.place.range.start, pass);
        encoder.finish()
    }

    fn rewrite(
        &self,
        allocated: &RangeSet,
        pass: Pass,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        let object = {
            let mut state = self.state.lock();
            state.map_allocated = 0;
            state.object
        };
        let cleared = store.clear(object);
        cleared.map_err(|source| SpaceError::Store {
            object,
            txg: pass.txg,
            source,
        })?;
        let changes = Changes {
            allocated: allocated.clone(),
            freed: RangeSet::new(),
        };
        self.append(&changes, pass, store)
    }

    /// Whether the map of a metaslab that is not loaded has grown so long that it is worth a look.
    fn may_be_long(&self, txg: Txg, store: &dyn SpaceStore) -> Result<bool, SpaceError> {
        let (object, segments, length) = {
            let state = self.state.lock();
            let segments = state.segments_unloaded + state.freeing.count();
            (state.object, segments, state.map_length)
        };
        if object == ObjectId(0) || self.is_loaded() {
            return Ok(false);
        }
        Ok(is_long(
            length,
            segments,
            self.block_size(object, txg, store)?,
        ))
    }

    fn block_size(
        &self,
        object: ObjectId,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<usize, SpaceError> {
        let found = store.block_size(object);
        found.map_err(|source| SpaceError::Store {
            object,
            txg,
            source,
        })
    }

    /// The allocations of the map as of the txg before, when it has grown so long that it is to be rewritten.
    fn shorter_map(
        &self,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<Option<RangeSet>, SpaceError> {
        let object = self.state.lock().object;
        if object == ObjectId(0) {
            return Ok(None);
        }
        let block_size = self.block_size(object, txg, store)?;
        let state = self.state.lock();
        let Some(free) = state.free.as_ref() else {
            return Ok(None);
        };
        if !is_long(state.map_length, free.count(), block_size) {
            return Ok(None);
        }
        Ok(Some(self.allocated_of(&state, free)))
    }

    /// The allocations that the map and the logs come to, while it is loaded. Free on disk are the free segments, what
    /// is being trimmed, what rests, and what this and later txgs took but did not write yet.
    fn allocated_of(&self, state: &State, free: &FreeSpace) -> RangeSet {
        let mut free_on_disk = free.to_set();
        let resting = [&state.freed, &state.trimming]
            .into_iter()
            .chain(&state.deferred)
            .chain(&state.allocating);
        free_on_disk.extend(resting.flat_map(RangeSet::iter).collect::<Vec<_>>());
        free_on_disk.gaps(self.place.range.clone())
    }

    /// The histogram of a map's header: segments of 2^(i + shift) bytes in bucket i.
    fn map_histogram(&self, state: &State) -> Option<[u64; 32]> {
        let free = state.free.as_ref()?;
        let mut buckets = [0; 32];
        for (class, count) in free.classes().iter().enumerate() {
            buckets[class.min(31)] += u64::from(*count);
        }
        let resting = state.deferred.iter().chain([&state.trimming]);
        for segment in resting.flat_map(RangeSet::iter) {
            let class = FreeSpace::class(segment.end - segment.start, self.place.shift);
            buckets[class.min(31)] += 1;
        }
        Some(buckets)
    }
}

/// Whether a map of so many bytes is to be rewritten, if it need only say so many segments.
fn is_long(length: u64, segments: usize, block_size: usize) -> bool {
    let shortest = (segments as u64 + 1) * 16;
    length > CONDENSE_FACTOR * shortest && length > CONDENSE_BLOCKS * block_size as u64
}
