//! What is known of the keys of encrypted datasets. None can be loaded yet, so that all are locked.

use std::collections::BTreeSet;

use base::ObjectSetId;
use base::lock::{LockClass, RwLock, rank};
use pipeline::{Key, KeySource};

static LOCKED: LockClass = LockClass::new("dsl.locked_keys", rank::LAST + 9);

/// The keys of a pool's datasets, as whoever reads blocks asks for them.
pub struct Keys {
    /// Object sets of encrypted datasets that somebody wanted to open.
    locked: RwLock<BTreeSet<ObjectSetId>>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            locked: RwLock::new(&LOCKED, BTreeSet::new()),
        }
    }
}

impl Keys {
    /// A dataset turned out to be encrypted: its key.
    pub(crate) fn of_encrypted(&self, set: ObjectSetId) -> Key {
        self.locked.write().insert(set);
        self.key(set)
    }
}

impl KeySource for Keys {
    fn key(&self, set: ObjectSetId) -> Key {
        if self.locked.read().contains(&set) {
            Key::Locked
        } else {
            Key::None
        }
    }
}
