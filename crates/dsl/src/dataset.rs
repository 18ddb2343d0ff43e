//! A dataset in memory: a head or a snapshot, its record, and its object set when that is open.
//!
//! Invariants: the object set of a head is open at most once; a head whose object set is open and
//! writable is in the layer's list of heads, so that its dirty objects are found at sync.

mod accounting;
mod burial;
mod caching;
mod create;
mod features;
mod receive;
mod relations;
mod remapped;
mod space;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{Guid, ObjectId, ObjectSetId, Txg};
use crypto::KeyError;
use dmu::{Object, ObjectSet, OpenObjectSet, Tx, Zap};
use format::dsl::{DatasetPhys, key};
use format::{BlockPointer, ObjectSetPhys};
use pipeline::{Key, KeySource};

use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::mos::{change_record, name_of, read_record};

pub(crate) use create::{create_head, creation_txg, directory_clones, new_fsid, next_clones};
pub use features::DatasetFeature;
use receive::Noted;
pub use receive::{ResumePoint, ResumeState};
pub use relations::{Bookmark, Hold};
pub use space::DatasetSpace;
pub(crate) use sync::Begun;

static OBJECT_SET: LockClass = LockClass::new("dsl.object_set", rank::DSL + 25);
static NAME: LockClass = LockClass::new("dsl.snapshot_name", rank::DSL + 28);
static DIRECTORY: LockClass = LockClass::new("dsl.dataset_directory", rank::DSL + 27);

/// A dataset in memory.
pub struct Dataset {
    dsl: Arc<Dsl>,
    pub(crate) object: Arc<Object>,
    /// Changes when the dataset is promoted.
    directory: RwLock<Arc<Directory>>,
    is_snapshot: bool,
    snapshot_name: Mutex<Option<String>>,
    object_set: Mutex<Option<Arc<ObjectSet>>>,
    /// Features that blocks or objects of this head use and that may not be counted yet.
    noted_features: AtomicU32,
    epoch: AtomicU64,
    /// How far a receive has come, of the txgs that have not synced.
    received: Noted,
    /// How many need it to stay for long.
    long_holds: AtomicUsize,
}

/// Keeps a dataset from being destroyed, until it is dropped.
pub struct LongHold(Arc<Dataset>);

impl Drop for LongHold {
    fn drop(&mut self) {
        self.0.long_holds.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Dataset {
    pub(crate) fn load(dsl: &Dsl, id: ObjectId, snapshot_name: Option<String>) -> Result<Self> {
        let object = dsl.mos.object(id)?;
        let phys: DatasetPhys = read_record(&object)?;
        let directory = dsl.directory_by_id(phys.directory)?;
        Ok(Self {
            dsl: dsl.arc()?,
            object,
            directory: RwLock::new(&DIRECTORY, directory),
            is_snapshot: phys.is_snapshot(),
            snapshot_name: Mutex::new(&NAME, snapshot_name),
            object_set: Mutex::new(&OBJECT_SET, None),
            noted_features: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            received: Noted::new(),
            long_holds: AtomicUsize::new(0),
        })
    }

    pub(crate) fn dsl(&self) -> &Arc<Dsl> {
        &self.dsl
    }

    /// Its object in the pool's own object set.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Keeps it from being destroyed as long as that is not dropped: for who reads all of it.
    #[must_use]
    pub fn hold_long(self: &Arc<Self>) -> LongHold {
        self.long_holds.fetch_add(1, Ordering::AcqRel);
        LongHold(Arc::clone(self))
    }

    /// Whether somebody holds it for long.
    #[must_use]
    pub fn is_held_long(&self) -> bool {
        self.long_holds.load(Ordering::Acquire) > 0
    }

    /// Its record.
    ///
    /// # Errors
    /// The object is something else now.
    pub fn phys(&self) -> Result<DatasetPhys> {
        read_record(&self.object)
    }

    pub(crate) fn change<T>(
        &self,
        tx: &Tx,
        change: impl FnOnce(&mut DatasetPhys) -> T,
    ) -> Result<T> {
        change_record(&self.object, tx, change)
    }

    /// Whether this is a snapshot.
    #[must_use]
    pub const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read())
    }

    pub(crate) fn set_directory(self: &Arc<Self>, tx: &Tx, directory: &Arc<Directory>) {
        let before = std::mem::replace(&mut *self.directory.write(), Arc::clone(directory));
        self.dsl.primary_cache.note_change();
        let dataset = Arc::clone(self);
        tx.on_undo(move || *dataset.directory.write() = before);
    }

    /// The guid, the same wherever the snapshot is received.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn guid(&self) -> Result<Guid> {
        Ok(self.phys()?.guid)
    }

    /// The full name.
    ///
    /// # Errors
    /// The head's names of snapshots cannot be read.
    pub fn name(&self) -> Result<String> {
        let directory = self.directory().name();
        if self.is_snapshot {
            Ok(format!("{directory}@{}", self.snapshot_name()?))
        } else {
            Ok(directory)
        }
    }

    /// The name after the `@`.
    ///
    /// # Errors
    /// This is no snapshot, or the head's names of snapshots cannot be read.
    pub fn snapshot_name(&self) -> Result<String> {
        if let Some(name) = self.snapshot_name.lock().clone() {
            return Ok(name);
        }
        if !self.is_snapshot {
            return Err(DslError::NotSnapshot {
                name: self.directory().name(),
            });
        }
        let missing = || DslError::damaged(self.id(), "its head does not know the snapshot");
        let head = self.directory().head()?.ok_or_else(missing)?;
        let stamp = self.dsl.stamp();
        let name = self
            .name_among(&head.snapshot_names()?)?
            .ok_or_else(missing)?;
        let mut kept = self.snapshot_name.lock();
        if kept.is_none() && self.dsl.stamp() == stamp {
            *kept = Some(name.clone());
        }
        Ok(name)
    }

    /// The name by which its head knows the snapshot now, for the tasks that change it: they ask the names themselves,
    /// whatever is kept beside them.
    pub(crate) fn name_in_head(&self, names: &Zap) -> Result<String> {
        let kept = self.snapshot_name.lock().clone();
        if let Some(kept) = kept
            && names.lookup(kept.as_bytes())? == Some(self.id().0)
        {
            return Ok(kept);
        }
        let missing = || DslError::damaged(self.id(), "its head does not know the snapshot");
        self.name_among(names)?.ok_or_else(missing)
    }

    fn name_among(&self, names: &Zap) -> Result<Option<String>> {
        let entries = names.entries()?;
        let entry = entries.into_iter().find(|entry| entry.value == self.id().0);
        Ok(entry.map(|entry| name_of(&entry.name)))
    }

    pub(crate) fn set_snapshot_name(self: &Arc<Self>, tx: &Tx, name: &str) {
        let before = self.snapshot_name.lock().replace(name.to_owned());
        let dataset = Arc::clone(self);
        tx.on_undo(move || *dataset.snapshot_name.lock() = before);
    }

    /// The ZAP of a head's snapshots.
    pub(crate) fn snapshot_names(&self) -> Result<Zap> {
        self.dsl.mos.zap(self.phys()?.snapshot_names)
    }

    /// The keys that a dataset carries beside its record, when there are any.
    pub(crate) fn extra(&self) -> Result<Option<Zap>> {
        self.dsl.mos.zapified(&self.object)
    }

    /// Makes room for keys beside the record.
    pub(crate) fn make_extra(&self, tx: &Tx) -> Result<Zap> {
        self.dsl.mos.zapify(tx, &self.object)
    }

    /// A word among the keys beside the record.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn extra_word(&self, key: &str) -> Result<Option<u64>> {
        match self.extra()? {
            Some(zap) => Ok(zap.lookup(key.as_bytes())?),
            None => Ok(None),
        }
    }

    /// Whether blocks are encrypted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn is_encrypted(&self) -> Result<bool> {
        Ok(self.directory().crypto_key()?.is_some())
    }

    /// The key of its blocks.
    fn key(&self) -> Result<Key> {
        let set = ObjectSetId(self.id().0);
        if self.open_object_set().is_some_and(|open| open.is_sealed()) {
            return Ok(Key::Locked);
        }
        let Some(record) = self.directory().key_record()? else {
            self.dsl.keys.forget(set);
            return Ok(Key::None);
        };
        let root = record.root().map_or(ObjectId(0), |root| root.id());
        let stored = || record.stored().map_err(Opening::Dsl);
        let opened = self.dsl.keys.open(set, record.id(), root, stored);
        opened.map_err(|error| match error {
            Opening::Dsl(error) => error,
            Opening::Key(source) => record.unusable(source),
        })
    }

    /// Has who writes its blocks know their key.
    pub(crate) fn open_key(&self) -> Result<()> {
        match self.key()? {
            Key::None | Key::Loaded(_) => Ok(()),
            Key::Locked => Err(DslError::KeyUnloaded { name: self.name()? }),
        }
    }

    /// Why this head cannot be written, though its pool can.
    fn unwritable(&self) -> Result<Option<&'static str>> {
        if self.dsl.stopped.lock().contains_key(&self.id()) {
            return Ok(Some("changes that could not be written"));
        }
        if let Some(record) = self.directory().key_record()?
            && record.is_old()?
        {
            return Ok(Some("encryption from before OpenZFS 0.8"));
        }
        Ok(None)
    }

    /// What the root block says, as last synced, without the object set being opened; none before there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn root(&self) -> Result<Option<ObjectSetPhys>> {
        let root = self.phys()?.block_pointer;
        if root.is_hole() {
            return Ok(None);
        }
        let set = ObjectSetId(self.id().0);
        Ok(ObjectSet::read_root(&*self.dsl.mos.store, set, &root).map(Some)?)
    }

    /// The object set; of a writable pool's head it can be written.
    ///
    /// # Errors
    /// It cannot be read, or its key is not loaded.
    pub fn object_set(self: &Arc<Self>) -> Result<Arc<ObjectSet>> {
        let set = ObjectSetId(self.id().0);
        // It may be open for its root block alone.
        let is_locked = || matches!(self.dsl.keys.key(set), Key::Locked);
        if let Some(open) = self.open_object_set().filter(|_| !is_locked()) {
            return Ok(open);
        }
        match self.key()? {
            Key::None | Key::Loaded(_) => self.object_set_with(Need::Blocks),
            Key::Locked => Err(DslError::KeyUnloaded { name: self.name()? }),
        }
    }

    /// The object set, for what its root block says and no key covers: the anchor of the intent log. Nothing else of it
    /// is to be touched.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn root_object_set(self: &Arc<Self>) -> Result<Arc<ObjectSet>> {
        // Whoever writes the root is to know whether it takes a key.
        self.key()?;
        self.object_set_with(Need::Root)
    }

    /// The object set, whose key is not asked for.
    fn sealed_root(self: &Arc<Self>) -> Result<Arc<ObjectSet>> {
        self.object_set_with(Need::Root)
    }

    fn object_set_with(self: &Arc<Self>, need: Need) -> Result<Arc<ObjectSet>> {
        loop {
            if let Some(open) = self.open_object_set() {
                self.dsl.keys.note_open(ObjectSetId(self.id().0), &open);
                return Ok(open);
            }
            let writable = !self.is_snapshot
                && self.dsl.services().is_writable()
                && self.unwritable()?.is_none();
            let options = self.open_options(writable);
            let root = self.phys()?.block_pointer;
            let opened = match ObjectSet::open(options, &root) {
                // The block may be another's by now.
                Err(_) if self.phys()?.block_pointer != root => continue,
                opened => opened?,
            };
            if let Some(entered) = self.enter_opened(opened, &root, (writable, need))? {
                self.enter_primary_cache();
                return Ok(entered);
            }
        }
    }

    /// Makes an object set that was opened from `root` the dataset's, unless another was faster: then that one. None:
    /// the dataset has come to have other contents, or out of service, since the root was looked up.
    fn enter_opened(
        self: &Arc<Self>,
        opened: Arc<ObjectSet>,
        root: &BlockPointer,
        (writable, need): (bool, Need),
    ) -> Result<Option<Arc<ObjectSet>>> {
        let mut current = self.object_set.lock();
        if let Some(open) = &*current {
            return Ok(Some(Arc::clone(open)));
        }
        let is_stopped = || self.dsl.stopped.lock().contains_key(&self.id());
        let set = ObjectSetId(self.id().0);
        let is_locked = || need == Need::Blocks && matches!(self.dsl.keys.key(set), Key::Locked);
        if self.phys()?.block_pointer != *root || (writable && is_stopped()) || is_locked() {
            return Ok(None);
        }
        self.allow_large_micro_zaps(&opened);
        *current = Some(Arc::clone(&opened));
        self.dsl.keys.note_open(set, &opened);
        if writable {
            // Under the lock: nobody gets an object set to write to that sync does not know.
            self.dsl.heads.lock().insert(self.id(), Arc::clone(self));
        }
        Ok(Some(opened))
    }

    /// Refuses what puts these contents into another dataset, when their root cannot be read.
    pub(crate) fn check_root(&self) -> Result<()> {
        let root = self.phys()?.block_pointer;
        if self.open_object_set().is_none() && !root.is_hole() {
            ObjectSet::open(self.open_options(false), &root)?;
        }
        Ok(())
    }

    pub(crate) fn open_options(&self, writable: bool) -> OpenObjectSet {
        OpenObjectSet {
            store: Arc::clone(&self.dsl.mos.store),
            id: ObjectSetId(self.id().0),
            writable,
            objects_max: self.dsl.objects_max,
        }
    }

    /// Makes the object set of a new head that head's.
    pub(crate) fn enter_new(self: &Arc<Self>, created: &Arc<ObjectSet>) {
        *self.object_set.lock() = Some(Arc::clone(created));
        self.dsl.heads.lock().insert(self.id(), Arc::clone(self));
        self.enter_primary_cache();
    }

    /// Closes the object set when it is clean and nobody else uses it. `txg` has synced.
    pub(crate) fn close_if_idle(&self, txg: Txg) {
        let mut current = self.object_set.lock();
        if let Some(open) = &*current {
            // It is known nowhere else that it is one.
            let is_used = || Arc::strong_count(open) > 1 || open.is_sealed();
            let is_dirty = || (1..Txg::SLOTS as u64).any(|ahead| open.is_dirty(Txg(txg.0 + ahead)));
            if !may_close(is_used, is_dirty) {
                return;
            }
        }
        *current = None;
        self.dsl.heads.lock().remove(&self.id());
    }

    /// Closes the object set, unless others use it, or there is something to be written of it.
    pub(crate) fn close_unless_used(&self) {
        let mut current = self.object_set.lock();
        let Some(open) = &*current else {
            return;
        };
        let is_used = || Arc::strong_count(open) > 1 || open.is_sealed();
        let is_dirty = || (0..Txg::SLOTS as u64).any(|slot| open.is_dirty(Txg(slot)));
        if may_close(is_used, is_dirty) {
            *current = None;
            self.dsl.heads.lock().remove(&self.id());
        }
    }

    /// Whether the object set is open.
    pub(crate) fn is_open(&self) -> bool {
        self.object_set.lock().is_some()
    }

    /// The object set, if it is open.
    pub(crate) fn open_object_set(&self) -> Option<Arc<ObjectSet>> {
        self.object_set.lock().clone()
    }

    /// Forgets the object set; what was not synced in it is lost.
    pub(crate) fn close_object_set(&self) {
        *self.object_set.lock() = None;
    }

    /// A task replaces the contents: whoever opens the object set from now on sees the new ones, unless the task is
    /// undone.
    pub(crate) fn replace_object_set(self: &Arc<Self>, tx: &Tx) {
        let before = self.object_set.lock().take();
        let stopped = self.dsl.stopped.lock().get(&self.id()).cloned();
        self.new_epoch();
        let dataset = Arc::clone(self);
        tx.on_undo(move || {
            let is_open = before.is_some();
            let mut current = dataset.object_set.lock();
            *current = before;
            let mut heads = dataset.dsl.heads.lock();
            if is_open && !dataset.is_snapshot {
                heads.insert(dataset.id(), Arc::clone(&dataset));
            } else {
                heads.remove(&dataset.id());
            }
            drop(heads);
            drop(current);
            dataset.new_epoch();
            let id = dataset.id();
            dataset
                .dsl
                .stopped
                .lock()
                .extend(stopped.map(|stopped| (id, stopped)));
        });
    }

    /// A task destroys the dataset: its object set closes, and its live copy is forgotten, once the task is done.
    pub(crate) fn leave_memory(self: &Arc<Self>, tx: &Tx) {
        let dataset = Arc::clone(self);
        tx.on_success(move || dataset.forget());
    }

    /// A task makes the dataset: the same, if that is undone.
    pub(crate) fn leave_memory_if_undone(self: &Arc<Self>, tx: &Tx) {
        let dataset = Arc::clone(self);
        tx.on_undo(move || dataset.forget());
    }

    fn forget(&self) {
        self.close_object_set();
        self.dsl.heads.lock().remove(&self.id());
        self.dsl.stopped.lock().remove(&self.id());
        self.dsl.datasets.forget(self.id());
        self.dsl.keys.forget(ObjectSetId(self.id().0));
        self.dsl.primary_cache.forget(ObjectSetId(self.id().0));
    }

    /// Changes when the dataset's contents are replaced (rollback, receive): an object set that was
    /// opened under another epoch is stale.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn new_epoch(&self) {
        self.dsl.stopped.lock().remove(&self.id());
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the dataset has bookmarks.
    pub(crate) fn bookmark_zap(&self) -> Result<Option<Zap>> {
        match self.extra_word(key::BOOKMARKS)? {
            Some(id) => self.dsl.mos.zap(ObjectId(id)).map(Some),
            None => Ok(None),
        }
    }

    /// The txg of the previous snapshot: blocks born later are not shared with it.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn previous_snapshot_txg(&self) -> Result<Txg> {
        Ok(self.phys()?.previous_snapshot_txg)
    }
}

/// What an object set is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// All of it.
    Blocks,
    /// What its root block says.
    Root,
}

/// Why the keys of a dataset cannot be had.
enum Opening {
    Dsl(DslError),
    Key(KeyError),
}

impl From<KeyError> for Opening {
    fn from(source: KeyError) -> Self {
        Self::Key(source)
    }
}

/// Whether an object set may be closed of which nobody gets hold meanwhile. First whether it is used: a user may make
/// it dirty and leave between the two looks.
fn may_close(is_used: impl FnOnce() -> bool, is_dirty: impl FnOnce() -> bool) -> bool {
    if is_used() {
        return false;
    }
    // What the last user did before it left is to be seen.
    fence(Ordering::Acquire);
    !is_dirty()
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({} of {:?})", self.id(), self.directory())
    }
}

#[cfg(test)]
mod tests;
