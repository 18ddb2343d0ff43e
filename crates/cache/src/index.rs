//! Where hits look: a map that is read without any lock, kept equal to the shards' tables by those
//! who hold a shard's lock.
//!
//! A removed entry may stay readable for a moment, and the map frees it later still: so a block's
//! memory does not wait for that, whoever removes the entry empties it first. Nobody ever waits here:
//! a reader that comes while an entry is emptied has missed, and who finds a reader at an entry
//! leaves the emptying to the map.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use base::lock::{LockClass, RwLock, rank};

use crate::BlockKey;

static HELD_CLASS: LockClass = LockClass::nesting("cache block", rank::CACHE + 3);

/// More uses than this are not told apart.
const USES_MAX: u8 = 3;

/// A block in the cache, shared by its shard and the index.
pub(crate) struct Held<V> {
    /// Only ever tried, never waited for. `None` once the block left the cache.
    value: RwLock<Option<V>>,
    uses: AtomicU8,
}

impl<V: Clone> Held<V> {
    pub(crate) fn new(value: V) -> Self {
        Self {
            value: RwLock::new(&HELD_CLASS, Some(value)),
            uses: AtomicU8::new(0),
        }
    }

    /// The block, which counts as used.
    pub(crate) fn take_reference(&self) -> Option<V> {
        let value = self.value.try_read()?.clone()?;
        // Written only when it changes: readers of one block do not pass its cache line around.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
        Some(value)
    }

    /// How often it was used since this was lowered.
    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Sets the number of uses.
    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// The block leaves the cache.
    fn empty(&self) {
        if let Some(mut value) = self.value.try_write() {
            drop(value.take());
        }
    }
}

impl<V> fmt::Debug for Held<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("uses", &self.uses)
            .finish_non_exhaustive()
    }
}

/// See the module.
pub(crate) struct Index<V> {
    map: papaya::HashMap<BlockKey, Arc<Held<V>>>,
}

impl<V: Clone> Index<V> {
    pub(crate) fn new() -> Self {
        Self {
            map: papaya::HashMap::new(),
        }
    }

    /// The block, if it is here.
    pub(crate) fn get(&self, key: &BlockKey) -> Option<V> {
        self.map.pin().get(key)?.take_reference()
    }

    pub(crate) fn contains(&self, key: &BlockKey) -> bool {
        self.map.pin().contains_key(key)
    }

    /// Makes a block visible. The caller holds the lock of the key's shard, and the key is not here.
    pub(crate) fn insert(&self, key: BlockKey, held: Arc<Held<V>>) {
        self.map.pin().insert(key, held);
    }

    /// Hides a block and lets go of its memory. The caller holds the lock of the key's shard.
    pub(crate) fn remove(&self, key: &BlockKey, held: &Held<V>) {
        self.map.pin().remove(key);
        held.empty();
    }
}

impl<V> fmt::Debug for Index<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}
