//! One live copy of a thing per identity: a table of weak references.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::tunables;
use base::ObjectId;
use base::lock::{LockClass, Mutex};

/// The table. A thing that nobody uses any more disappears from it by itself.
pub(crate) struct Registry<T> {
    table: Mutex<BTreeMap<ObjectId, Weak<T>>>,
}

impl<T> Registry<T> {
    pub(crate) fn new(class: &'static LockClass) -> Self {
        Self {
            table: Mutex::new(class, BTreeMap::new()),
        }
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<T>> {
        self.table.lock().get(&id).and_then(Weak::upgrade)
    }

    /// Enters `fresh`, unless another copy was faster: then that one. Nothing where `is_current` denies that the thing
    /// is still as it was loaded; it is asked while nobody enters or forgets anything.
    pub(crate) fn enter(
        &self,
        id: ObjectId,
        fresh: Arc<T>,
        is_current: impl FnOnce() -> bool,
    ) -> Option<Arc<T>> {
        let sweep = tunables::REGISTRY_SWEEP.count();
        let mut table = self.table.lock();
        if let Some(present) = table.get(&id).and_then(Weak::upgrade) {
            return Some(present);
        }
        if !is_current() {
            return None;
        }
        if table.len() % sweep == sweep - 1 {
            table.retain(|_, weak| weak.strong_count() != 0);
        }
        table.insert(id, Arc::downgrade(&fresh));
        Some(fresh)
    }

    /// The live things that it knows.
    pub(crate) fn live(&self) -> Vec<Arc<T>> {
        self.table
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// How many live things it knows.
    pub(crate) fn alive(&self) -> usize {
        let table = self.table.lock();
        let is_alive = |weak: &&Weak<T>| weak.strong_count() != 0;
        table.values().filter(is_alive).count()
    }

    pub(crate) fn forget(&self, id: ObjectId) {
        self.table.lock().remove(&id);
    }
}

#[cfg(test)]
mod tests;
