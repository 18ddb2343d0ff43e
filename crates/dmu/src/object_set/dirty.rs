//! The lists of dirty objects, one a txg. An object enters a list once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};

use crate::object::Object;

static LIST: LockClass = LockClass::new("dmu.dirty_list", rank::DMU + 40);

const SHARDS: usize = 8;

#[cfg(test)]
thread_local! {
    /// The old fault, for the negative control: every change enters the object again.
    pub(crate) static REQUEUES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

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

    /// Adds an object that has just become dirty in `txg`; false when the object before it shares its block of dnodes.
    pub(crate) fn push(&self, txg: Txg, object: Arc<Object>) -> bool {
        let list = &self.lists[txg.slot()];
        // Neighbours share a block of dnodes and often a directory; spread by block.
        let block = object.id().0 / 32;
        let mut shard = list.shards[block as usize % SHARDS].lock();
        let is_first = shard.last().is_none_or(|last| last.id().0 / 32 != block);
        shard.push(object);
        drop(shard);
        if !list.any.load(Ordering::Relaxed) {
            list.any.store(true, Ordering::Release);
        }
        is_first
    }

    /// Takes an object off the list of `txg`; whether it was there.
    pub(crate) fn withdraw(&self, txg: Txg, object: &Object) -> bool {
        let shard = (object.id().0 / 32) as usize % SHARDS;
        let mut list = self.lists[txg.slot()].shards[shard].lock();
        let found = list
            .iter()
            .rposition(|one| std::ptr::eq(Arc::as_ptr(one), object));
        found.map(|index| list.swap_remove(index)).is_some()
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

    /// The objects on the list of `txg`, which stay there.
    pub(crate) fn peek(&self, txg: Txg) -> Vec<Arc<Object>> {
        let mut all = Vec::new();
        for shard in &self.lists[txg.slot()].shards {
            all.extend(shard.lock().iter().cloned());
        }
        all
    }

    /// Up to so many of the objects in the list of `txg`.
    pub(crate) fn some(&self, txg: Txg, max: usize) -> Vec<Arc<Object>> {
        let mut some = Vec::new();
        for shard in &self.lists[txg.slot()].shards {
            let list = shard.lock();
            some.extend(list.iter().take(max - some.len()).cloned());
        }
        some
    }

    /// Forgets all lists.
    pub(crate) fn clear(&self) {
        for slot in 0..Txg::SLOTS as u64 {
            drop(self.take(Txg(slot)));
        }
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
