//! The keys of deadlists in memory: which list takes a block, without reading the deadlist's ZAP each time.
//!
//! Invariant: what is here is what the ZAP says, for every change goes through [`DeadKeys::change`] after the ZAP's. It
//! may only be missing. Who reads a ZAP while another changes it does not install what it read.

use std::collections::HashMap;
use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg};

use crate::tunables::DEAD_KEYS;

static KEYS: LockClass = LockClass::new("dsl.dead_keys", rank::LAST + 5);

/// The keys of one deadlist with their lists, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(Vec<(Txg, ObjectId)>);

impl Keys {
    /// From entries in any order.
    pub(crate) fn new(mut entries: Vec<(Txg, ObjectId)>) -> Self {
        entries.sort_unstable();
        Self(entries)
    }

    /// All, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Txg, ObjectId)> + '_ {
        self.0.iter().copied()
    }

    /// Those from `low` on.
    pub(crate) fn from(&self, low: Txg) -> &[(Txg, ObjectId)] {
        &self.0[self.position(low)..]
    }

    /// How many keys are below `key`.
    fn position(&self, key: Txg) -> usize {
        self.0.partition_point(|(other, _)| *other < key)
    }

    /// The highest key below `key`.
    pub(crate) fn below(&self, key: Txg) -> Option<(Txg, ObjectId)> {
        let index = self.position(key).checked_sub(1)?;
        self.0.get(index).copied()
    }

    /// The highest key.
    pub(crate) fn last(&self) -> Option<(Txg, ObjectId)> {
        self.0.last().copied()
    }

    /// The list of a key.
    pub(crate) fn get(&self, key: Txg) -> Option<ObjectId> {
        let found = self.0.get(self.position(key))?;
        (found.0 == key).then_some(found.1)
    }

    /// Gives a key a list, or (none) takes the key away.
    fn set(&mut self, key: Txg, list: Option<ObjectId>) {
        let index = self.position(key);
        let is_there = self.0.get(index).is_some_and(|found| found.0 == key);
        match (list, is_there) {
            (Some(list), true) => self.0[index].1 = list,
            (Some(list), false) => self.0.insert(index, (key, list)),
            (None, true) => {
                self.0.remove(index);
            }
            (None, false) => {}
        }
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Default)]
struct Cache {
    lists: HashMap<ObjectId, (Arc<Keys>, u64)>,
    /// Keys of all lists, and one for each list.
    weight: usize,
    /// Counts uses: the last of each list tells which was used longest ago.
    now: u64,
    /// How often anything was changed.
    changes: u64,
}

/// The keys of the deadlists that were used last, up to [`DEAD_KEYS`] of them.
pub(crate) struct DeadKeys(Mutex<Cache>);

impl Default for DeadKeys {
    fn default() -> Self {
        Self(Mutex::new(&KEYS, Cache::default()))
    }
}

impl DeadKeys {
    /// The keys of a deadlist, from memory or by `load`.
    pub(crate) fn get<E>(
        &self,
        id: ObjectId,
        load: impl FnOnce() -> Result<Keys, E>,
    ) -> Result<Arc<Keys>, E> {
        let changes = {
            let mut cache = self.0.lock();
            cache.now += 1;
            let now = cache.now;
            if let Some((keys, used)) = cache.lists.get_mut(&id) {
                *used = now;
                return Ok(Arc::clone(keys));
            }
            cache.changes
        };
        let keys = Arc::new(load()?);
        let mut cache = self.0.lock();
        if cache.changes == changes && !cache.lists.contains_key(&id) {
            let now = cache.now;
            cache.weight += keys.len() + 1;
            cache.lists.insert(id, (Arc::clone(&keys), now));
            cache.shrink();
        }
        Ok(keys)
    }

    /// The keys of a deadlist, if they are in memory.
    pub(crate) fn known(&self, id: ObjectId) -> Option<Arc<Keys>> {
        let cache = self.0.lock();
        cache.lists.get(&id).map(|(keys, _)| Arc::clone(keys))
    }

    /// A key got a list, or (none) went.
    pub(crate) fn change(&self, id: ObjectId, key: Txg, list: Option<ObjectId>) {
        let mut cache = self.0.lock();
        cache.changes += 1;
        let Some((keys, _)) = cache.lists.get_mut(&id) else {
            return;
        };
        let before = keys.len();
        Arc::make_mut(keys).set(key, list);
        let after = keys.len();
        cache.weight = cache.weight + after - before;
    }

    /// The deadlist is gone.
    pub(crate) fn forget(&self, id: ObjectId) {
        let mut cache = self.0.lock();
        cache.changes += 1;
        if let Some((keys, _)) = cache.lists.remove(&id) {
            cache.weight -= keys.len() + 1;
        }
    }

    /// Nothing that is known counts any more.
    pub(crate) fn forget_all(&self) {
        let mut cache = self.0.lock();
        *cache = Cache {
            changes: cache.changes + 1,
            ..Cache::default()
        };
    }
}

impl Cache {
    /// Drops the lists used longest ago, half of what there is at once, when there are too many keys.
    fn shrink(&mut self) {
        let max = DEAD_KEYS.count();
        if self.weight <= max {
            return;
        }
        let mut uses: Vec<(u64, ObjectId)> = self
            .lists
            .iter()
            .map(|(id, (_, used))| (*used, *id))
            .collect();
        uses.sort_unstable();
        for (_, id) in uses {
            if self.weight <= max / 2 || self.lists.len() == 1 {
                return;
            }
            if let Some((keys, _)) = self.lists.remove(&id) {
                self.weight -= keys.len() + 1;
            }
        }
    }
}
