//! The keys of encrypted datasets that are loaded, as whoever reads blocks asks for them.
//!
//! A wrapping key is loaded for a root of encryption; it opens the records of all directories below that have theirs
//! from it. What is opened is kept by record (clones share one) and given to object sets when they are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use base::lock::{LockClass, RwLock, rank};
use base::{ObjectId, ObjectSetId};
use crypto::{DatasetKeys, KeyError, StoredKeys, WrappingKey};
use dmu::ObjectSet;
use pipeline::{Key, KeySource};

static LOCKED: LockClass = LockClass::new("dsl.locked_keys", rank::LAST + 9);

/// The keys of a pool's datasets.
pub struct Keys {
    known: RwLock<Known>,
    /// Whether any object set is known to be encrypted: in other pools nobody takes the lock.
    any: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// Wrapping keys, by the directory that they were loaded for.
    roots: BTreeMap<ObjectId, RootKey>,
    /// Keys that were opened, by record, with the root that opened them.
    records: BTreeMap<ObjectId, (ObjectId, Arc<DatasetKeys>)>,
    /// Object sets that were opened with them, with the record.
    opened: BTreeMap<ObjectSetId, (ObjectId, Arc<DatasetKeys>)>,
    /// What of these is open: it may outlive the dataset in memory.
    open: BTreeMap<ObjectSetId, Weak<ObjectSet>>,
    /// Object sets of encrypted datasets that somebody wanted to open without a key.
    locked: BTreeSet<ObjectSetId>,
}

/// The wrapping key of a root.
struct RootKey {
    key: WrappingKey,
    /// The root's record is wrapped with it. It is not any more once a received increment brought another key: what it
    /// opened stays open, but nothing may be wrapped with it that the present key is to open.
    is_current: bool,
}

impl RootKey {
    const fn current(key: WrappingKey) -> Self {
        Self {
            key,
            is_current: true,
        }
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            known: RwLock::new(&LOCKED, Known::default()),
            any: AtomicBool::new(false),
        }
    }
}

impl Keys {
    /// Whether the keys of a record under a root are known, or can be with what is loaded.
    #[must_use]
    pub fn is_loaded(&self, root: ObjectId, record: ObjectId) -> bool {
        let known = self.known.read();
        let loaded = known.roots.get(&root);
        loaded.is_some_and(|loaded| loaded.is_current || known.records.contains_key(&record))
    }

    /// The key of a root to wrap with, if it is loaded and the record is wrapped with it.
    pub(crate) fn wrapping(&self, root: ObjectId) -> Result<Option<WrappingKey>, KeyError> {
        let known = self.known.read();
        let current = known.roots.get(&root).filter(|loaded| loaded.is_current);
        current.map(|loaded| loaded.key.copy()).transpose()
    }

    /// Whether a root's key is loaded, and its record wrapped with it.
    pub(crate) fn is_current(&self, root: ObjectId) -> bool {
        let known = self.known.read();
        let loaded = known.roots.get(&root);
        loaded.is_some_and(|loaded| loaded.is_current)
    }

    /// A root's record is wrapped with another key from now on. What was opened stays so; without that the key is of no
    /// use any more.
    pub(crate) fn supersede(&self, root: ObjectId, record: ObjectId) {
        let mut guard = self.known.write();
        let known = &mut *guard;
        if !known.records.contains_key(&record) {
            known.roots.remove(&root);
        } else if let Some(loaded) = known.roots.get_mut(&root) {
            loaded.is_current = false;
        }
    }

    /// A record is gone: another that gets its number has other keys.
    pub(crate) fn forget_record(&self, record: ObjectId) {
        let mut known = self.known.write();
        known.records.remove(&record);
        known.opened.retain(|_, (by, _)| *by != record);
    }

    /// Records are under a root from now on, whose key is this one. `left` is a root no more.
    pub(crate) fn change(
        &self,
        (root, key): (ObjectId, WrappingKey),
        records: &BTreeSet<ObjectId>,
        left: Option<ObjectId>,
    ) {
        let mut guard = self.known.write();
        let known = &mut *guard;
        known.roots.insert(root, RootKey::current(key));
        if let Some(left) = left {
            known.roots.remove(&left);
        }
        known.reroot(root, records);
    }

    /// A root has become another, with its key if that is loaded.
    pub(crate) fn move_root(&self, from: ObjectId, to: ObjectId, records: &BTreeSet<ObjectId>) {
        let mut guard = self.known.write();
        let known = &mut *guard;
        if let Some(key) = known.roots.remove(&from) {
            known.roots.insert(to, key);
        }
        known.reroot(to, records);
    }

    /// A root is gone, or was never made.
    pub(crate) fn forget_root(&self, root: ObjectId) {
        self.known.write().roots.remove(&root);
    }

    /// A key becomes that of a root; false: it has one.
    pub(crate) fn load(&self, root: ObjectId, key: WrappingKey) -> bool {
        let mut known = self.known.write();
        if known.roots.contains_key(&root) {
            return false;
        }
        known.roots.insert(root, RootKey::current(key));
        true
    }

    /// An object set is open, if it is one that a key opened.
    pub(crate) fn note_open(&self, set: ObjectSetId, opened: &Arc<ObjectSet>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.known.write();
        if known.opened.contains_key(&set) {
            known.open.insert(set, Arc::downgrade(opened));
        }
    }

    /// An object set is gone, or is one of another dataset now.
    pub(crate) fn forget(&self, set: ObjectSetId) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.known.write();
        known.opened.remove(&set);
        known.open.remove(&set);
        known.locked.remove(&set);
    }

    /// An object set is not to be opened with a key, whatever is loaded: what is in it is not whole yet.
    pub(crate) fn keep_locked(&self, set: ObjectSetId) {
        self.any.store(true, Ordering::Release);
        let mut known = self.known.write();
        known.opened.remove(&set);
        known.open.remove(&set);
        known.locked.insert(set);
    }

    /// Whether anybody has an object set that was opened with a key.
    pub(crate) fn is_open(&self, set: ObjectSetId) -> bool {
        let known = self.known.read();
        let open = known.open.get(&set);
        open.is_some_and(|open| open.strong_count() > 0)
    }

    /// The object sets that were opened with the keys of a root.
    pub(crate) fn opened_with(&self, root: ObjectId) -> Vec<ObjectSetId> {
        let known = self.known.read();
        let is_of_root = |record: &ObjectId| {
            let found = known.records.get(record);
            found.is_some_and(|(by, _)| *by == root)
        };
        let opened = known.opened.iter();
        opened
            .filter(|(_, (record, _))| is_of_root(record))
            .map(|(set, _)| *set)
            .collect()
    }

    /// Forgets a root's key and all that it opened; answers which object sets were. None: it was not loaded.
    pub(crate) fn unload(&self, root: ObjectId) -> Option<Vec<ObjectSetId>> {
        let mut guard = self.known.write();
        let known = &mut *guard;
        let was_loaded = known.roots.remove(&root).is_some();
        let mut closed = Vec::new();
        known.records.retain(|_, (by, _)| *by != root);
        let (records, locked, open) = (&known.records, &mut known.locked, &mut known.open);
        known.opened.retain(|set, (record, _)| {
            let stays = records.contains_key(record);
            if !stays {
                locked.insert(*set);
                open.remove(set);
                closed.push(*set);
            }
            stays
        });
        was_loaded.then_some(closed)
    }

    /// An encrypted dataset is to be opened: its key, from a record that is under `root`. `stored` reads the record.
    pub(crate) fn open<E: From<KeyError>>(
        &self,
        set: ObjectSetId,
        record: ObjectId,
        root: ObjectId,
        stored: impl FnOnce() -> Result<StoredKeys, E>,
    ) -> Result<Key, E> {
        self.any.store(true, Ordering::Release);
        self.open_for(Some(set), (record, root), stored)
    }

    /// A record is about to be wrapped with another key: it is opened with what is loaded, and so stays open.
    pub(crate) fn keep_open(
        &self,
        record: ObjectId,
        root: ObjectId,
        stored: &StoredKeys,
    ) -> Result<(), KeyError> {
        self.open_for(None, (record, root), || Ok(*stored))
            .map(drop)
    }

    /// A record's keys, for an object set or for whoever comes later.
    fn open_for<E: From<KeyError>>(
        &self,
        set: Option<ObjectSetId>,
        (record, root): (ObjectId, ObjectId),
        stored: impl FnOnce() -> Result<StoredKeys, E>,
    ) -> Result<Key, E> {
        let wrapping = {
            let mut known = self.known.write();
            let opened = known.records.get(&record).map(|(_, keys)| Arc::clone(keys));
            if let Some(keys) = opened {
                known.enter(set, record, &keys);
                return Ok(Key::Loaded(keys));
            }
            match known.roots.get(&root) {
                Some(wrapping) => wrapping.key.copy()?,
                None => {
                    known.locked.extend(set);
                    return Ok(Key::Locked);
                }
            }
        };
        let keys = Arc::new(stored()?.unwrap(&wrapping)?);
        let mut known = self.known.write();
        // Others may have been faster: the first stay, for all that is cached has their name.
        let loaded = known.roots.get(&root);
        let is_still_loaded = loaded.is_some_and(|loaded| loaded.key.is(&wrapping));
        if !is_still_loaded {
            known.locked.extend(set);
            return Ok(Key::Locked);
        }
        let entry = known.records.entry(record).or_insert((root, keys));
        let keys = Arc::clone(&entry.1);
        known.enter(set, record, &keys);
        Ok(Key::Loaded(keys))
    }
}

impl Known {
    fn reroot(&mut self, root: ObjectId, records: &BTreeSet<ObjectId>) {
        for (record, (by, _)) in &mut self.records {
            if records.contains(record) {
                *by = root;
            }
        }
    }

    fn enter(&mut self, set: Option<ObjectSetId>, record: ObjectId, keys: &Arc<DatasetKeys>) {
        if let Some(set) = set {
            self.locked.remove(&set);
            self.opened.insert(set, (record, Arc::clone(keys)));
        }
    }
}

impl KeySource for Keys {
    fn key(&self, set: ObjectSetId) -> Key {
        if !self.any.load(Ordering::Acquire) {
            return Key::None;
        }
        let known = self.known.read();
        match known.opened.get(&set) {
            Some((_, keys)) => Key::Loaded(Arc::clone(keys)),
            None if known.locked.contains(&set) => Key::Locked,
            None => Key::None,
        }
    }
}
