//! The lists of dirty objects, one a txg. An object enters a list once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};

use crate::object::Object;

static LIST: LockClass = LockClass::new("dmu.dirty_list", rank::DMU + 40);

const SHARDS: usize = 8;

struct DirtyList {
    any: AtomicBool,
    shards: [Mutex<Vec<Arc<Object>>>; SHARDS],
}

/// The dirty objects of every txg in flight.
pub(crate) struct DirtyLists {
    lists: [DirtyList; Txg::SLOTS],
}

impl DirtyLists {
    pub(crate) fn new() -> Self {
        let list = |_| DirtyList {
            any: AtomicBool::new(false),
            shards: std::array::from_fn(|_| Mutex::new(&LIST, Vec::new())),
        };
        Self {
            lists: std::array::from_fn(list),
        }
    }

    /// Adds an object that has just become dirty in `txg`.
    pub(crate) fn push(&self, txg: Txg, object: Arc<Object>) {
        let list = &self.lists[txg.slot()];
        // Neighbours share a block of dnodes and often a directory; spread by block.
        let shard = (object.id().0 / 32) as usize % SHARDS;
        list.shards[shard].lock().push(object);
        if !list.any.load(Ordering::Relaxed) {
            list.any.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_dirty(&self, txg: Txg) -> bool {
        self.lists[txg.slot()].any.load(Ordering::Acquire)
    }

    /// How many entries the list of `txg` has.
    #[cfg(test)]
    pub(crate) fn len(&self, txg: Txg) -> usize {
        self.lists[txg.slot()]
            .shards
            .iter()
            .map(|shard| shard.lock().len())
            .sum()
    }

    /// Takes the list of `txg`.
    pub(crate) fn take(&self, txg: Txg) -> Vec<Arc<Object>> {
        let list = &self.lists[txg.slot()];
        list.any.store(false, Ordering::Release);
        let mut all = Vec::new();
        for shard in &list.shards {
            all.append(&mut shard.lock());
        }
        all
    }
}
