//! The dataset layer of an open pool: the root of names, the tables of live datasets, the stamp
//! of properties.
//!
//! Invariants: one live copy per dataset and directory; what tasks change is visible to readers at
//! once, and on disk with the txg. Nothing registers callbacks: who caches something that a task
//! may change keeps the stamp with it and looks again when it differs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base::ObjectId;
use base::lock::{LockClass, Mutex, RwLock, RwLockReadGuard, rank};
use dmu::{ObjectSet, Zap};
use format::config::directory as keys;
use format::dsl::hidden;
use format::version;
use txg::Engine;

use crate::admission::PoolAccount;
use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::free::PartInHand;
use crate::keys::Keys;
use crate::mos::Mos;
use crate::name::{self, Target};
use crate::primary_cache::PrimaryCache;
use crate::registry::Registry;
use crate::services::{Services, StoppedHead};
use crate::sizes::Sizes;
use crate::task::TaskQueue;

/// How often something is looked up that tasks change meanwhile.
pub(crate) const LOOKS_MAX: usize = 16;

static DIRECTORIES: LockClass = LockClass::new("dsl.directories", rank::DSL + 20);
static DATASETS: LockClass = LockClass::new("dsl.datasets", rank::DSL + 21);
static STOPPED: LockClass = LockClass::new("dsl.stopped", rank::DSL + 29);
static HEADS: LockClass = LockClass::new("dsl.heads", rank::DSL + 26);
/// Taken before all that a task takes: one that fills a new file system takes locks of that layer.
static TREE: LockClass = LockClass::new("dsl.tree", rank::POSIX - 5);
static ROOT_NAME: LockClass = LockClass::new("dsl.root_name", rank::DSL + 40);
/// Taken by whoever writes deadlists and their like beside others who sync.
static LISTS: LockClass = LockClass::new("dsl.lists", rank::DSL + 10);
static DESTROYING: LockClass = LockClass::new("dsl.destroying", rank::LAST + 6);
static LIVELIST_PART: LockClass = LockClass::new("dsl.livelist_part", rank::LAST + 8);
pub(crate) static MOS_CHARGE: LockClass = LockClass::new("dsl.mos_charge", rank::LAST + 1);

/// What an open pool gives this layer.
pub struct OpenDsl {
    /// The pool's own object set.
    pub mos: Arc<ObjectSet>,
    /// The pool.
    pub services: Arc<dyn Services>,
    /// The transaction engine; without one nothing can be changed.
    pub engine: Option<Arc<Engine>>,
    /// The pool's name.
    pub name: String,
    /// How many clean objects of a dataset stay in memory.
    pub objects_max: usize,
}

/// The dataset layer of an open pool.
pub struct Dsl {
    pub(crate) mos: Mos,
    pub(crate) engine: Option<Arc<Engine>>,
    pub(crate) objects_max: usize,
    pub(crate) root: ObjectId,
    pub(crate) directories: Registry<Directory>,
    pub(crate) datasets: Registry<Dataset>,
    /// Heads whose object sets are open: they may be dirty.
    pub(crate) heads: Mutex<BTreeMap<ObjectId, Arc<Dataset>>>,
    pub(crate) tasks: TaskQueue<Self>,
    /// The space that is promised to transactions.
    pub(crate) account: Arc<PoolAccount>,
    /// Held for writing while a task runs.
    pub(crate) tree: RwLock<()>,
    /// Held while heads that sync write to deadlists, the list of later frees and livelists.
    pub(crate) lists: Mutex<()>,
    /// Space of the pool's own object set that is not charged yet.
    pub(crate) mos_charge: Mutex<Sizes>,
    /// What is known of the keys of encrypted datasets.
    pub(crate) keys: Arc<Keys>,
    /// Of which object sets the cache in memory does not keep all.
    pub(crate) primary_cache: Arc<PrimaryCache>,
    /// Heads that could not be written, and why: they stay as they are on disk until the pool is imported again, or a
    /// rollback gives them a state that can be written.
    pub(crate) stopped: Mutex<BTreeMap<ObjectId, StoppedHead>>,
    /// The txg in which snapshots were destroyed last, and the time up to which more of them may be.
    pub(crate) destroying: Mutex<(base::Txg, u64)>,
    /// Of a destroyed clone's livelist: what is being freed.
    pub(crate) livelist_part: Mutex<Option<PartInHand>>,
    /// The tree that is being freed waits for a device.
    pub(crate) trees_wait: AtomicBool,
    pub(crate) myself: Weak<Self>,
    root_name: Mutex<String>,
    stamp: AtomicU64,
}

/// While it lives, no task changes the tree of datasets: syncing waits for it.
pub struct QuietTree<'a> {
    _held: RwLockReadGuard<'a, ()>,
}

impl Dsl {
    /// Keeps tasks from changing the tree, for a short look at several datasets of one moment.
    #[must_use]
    pub fn quiet(&self) -> QuietTree<'_> {
        QuietTree {
            _held: self.tree.read(),
        }
    }

    /// Opens the dataset layer.
    ///
    /// # Errors
    /// The pool directory names no root directory.
    pub fn open(options: OpenDsl) -> Result<Arc<Self>> {
        let mos = Mos::new(options.mos, Arc::clone(&options.services));
        let root = mos
            .directory_word(keys::ROOT_DATASET)?
            .ok_or_else(|| DslError::damaged(keys::OBJECT, "no root dataset"))?;
        let objects_max = options.objects_max;
        Ok(Self::assemble(
            mos,
            ObjectId(root),
            options.engine,
            options.name,
            objects_max,
        ))
    }

    pub(crate) fn assemble(
        mos: Mos,
        root: ObjectId,
        engine: Option<Arc<Engine>>,
        name: String,
        objects_max: usize,
    ) -> Arc<Self> {
        Arc::new_cyclic(|myself| Self {
            mos,
            engine,
            objects_max,
            root,
            directories: Registry::new(&DIRECTORIES),
            datasets: Registry::new(&DATASETS),
            heads: Mutex::new(&HEADS, BTreeMap::new()),
            tasks: TaskQueue::new(),
            account: PoolAccount::new(),
            tree: RwLock::new(&TREE, ()),
            lists: Mutex::new(&LISTS, ()),
            mos_charge: Mutex::new(&MOS_CHARGE, Sizes::ZERO),
            keys: Arc::default(),
            primary_cache: Arc::default(),
            stopped: Mutex::new(&STOPPED, BTreeMap::new()),
            destroying: Mutex::new(&DESTROYING, (base::Txg(0), 0)),
            livelist_part: Mutex::new(&LIVELIST_PART, None),
            trees_wait: AtomicBool::new(false),
            myself: Weak::clone(myself),
            root_name: Mutex::new(&ROOT_NAME, name),
            stamp: AtomicU64::new(1),
        })
    }

    /// What is known of the keys of encrypted datasets, for who reads blocks.
    #[must_use]
    pub const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Forgets all open heads: their object sets close when nobody else uses them.
    pub fn close(&self) {
        let heads = std::mem::take(&mut *self.heads.lock());
        for head in heads.into_values() {
            head.close_object_set();
        }
    }

    /// The pool's own object set and its services.
    #[must_use]
    pub fn mos(&self) -> &Mos {
        &self.mos
    }

    pub(crate) fn services(&self) -> &dyn Services {
        self.mos.services.as_ref()
    }

    /// Changes with every change of properties or of the tree: what was looked up under another
    /// stamp must be looked up again.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// How many datasets have a live copy in the core, snapshots included: at most one each.
    #[must_use]
    pub fn datasets_in_memory(&self) -> usize {
        self.datasets.alive()
    }

    pub(crate) fn new_stamp(&self) {
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    /// The pool's name.
    #[must_use]
    pub fn pool_name(&self) -> String {
        self.root_name.lock().clone()
    }

    pub(crate) fn arc(&self) -> Result<Arc<Self>> {
        self.myself.upgrade().ok_or(DslError::ReadOnly)
    }

    /// Refuses what pools of older versions do not know.
    pub(crate) fn require_version(&self, version: u64) -> Result<()> {
        if self.services().version() < version {
            return Err(DslError::PoolVersion { version });
        }
        Ok(())
    }

    /// The root directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn root_directory(&self) -> Result<Arc<Directory>> {
        self.directory_by_id(self.root)
    }

    /// A directory by its object.
    ///
    /// # Errors
    /// There is none there, or it cannot be read.
    pub fn directory_by_id(&self, id: ObjectId) -> Result<Arc<Directory>> {
        self.load_directory(id, 0)
    }

    pub(crate) fn load_directory(&self, id: ObjectId, depth: usize) -> Result<Arc<Directory>> {
        if depth > 2 * name::DEPTH_MAX {
            return Err(DslError::damaged(id, "directories are nested too deep"));
        }
        let load = || Directory::load(self, id, depth, None);
        self.live(&self.directories, id, load)
    }

    /// The live copy of what an object is, which is loaded if there is none. What a task may have changed meanwhile is
    /// loaded again: the object may have become another dataset.
    fn live<T>(
        &self,
        table: &Registry<T>,
        id: ObjectId,
        load: impl Fn() -> Result<T>,
    ) -> Result<Arc<T>> {
        loop {
            if let Some(live) = table.get(id) {
                return Ok(live);
            }
            let stamp = self.stamp();
            let fresh = Arc::new(load()?);
            if let Some(live) = table.enter(id, fresh, || self.stamp() == stamp) {
                return Ok(live);
            }
        }
    }

    /// A directory that was just found as a child, under that name.
    pub(crate) fn load_child(&self, id: ObjectId, hangs: &str) -> Result<Arc<Directory>> {
        let load = || Directory::load(self, id, 0, Some(hangs));
        self.live(&self.directories, id, load)
    }

    /// A directory by its path, `pool/a/b`.
    ///
    /// # Errors
    /// There is none, or one on the way cannot be read.
    pub fn directory(&self, path: &str) -> Result<Arc<Directory>> {
        self.unless_changed(|| self.find_directory(path))
    }

    /// What fails is looked at again if a task has ended meanwhile: then it may not be there any more. Not for ever, as
    /// what is damaged may take longer to be read than tasks are apart.
    fn unless_changed<T>(&self, look: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 1..LOOKS_MAX {
            let stamp = self.stamp();
            let found = look();
            let is_told = matches!(
                found,
                Ok(_) | Err(DslError::NotFound { .. } | DslError::BadName { .. })
            );
            if is_told || self.stamp() == stamp {
                return found;
            }
        }
        look()
    }

    fn find_directory(&self, path: &str) -> Result<Arc<Directory>> {
        let mut components = path.split('/');
        if components.next() != Some(self.pool_name().as_str()) {
            return Err(DslError::not_found(path));
        }
        let mut directory = self.root_directory()?;
        for component in components {
            directory = directory
                .child(component)?
                .ok_or_else(|| DslError::not_found(path))?;
        }
        Ok(directory)
    }

    /// A hidden directory under the root.
    pub(crate) fn hidden_directory(&self, name: &str) -> Result<Option<Arc<Directory>>> {
        self.root_directory()?.child(name)
    }

    pub(crate) fn required_hidden(&self, name: &'static str) -> Result<Arc<Directory>> {
        self.hidden_directory(name)?
            .ok_or_else(|| DslError::not_found(name))
    }

    /// The snapshot that file systems and volumes descend from that are no clones; none in pools
    /// before version 11.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn origin_snapshot(&self) -> Result<Option<ObjectId>> {
        let Some(directory) = self.hidden_directory(hidden::ORIGIN)? else {
            return Ok(None);
        };
        let Some(head) = directory.head()? else {
            return Ok(None);
        };
        let previous = head.phys()?.previous_snapshot;
        Ok((previous.0 != 0).then_some(previous))
    }

    /// Every directory, hidden ones too: the root first, others after that which they are in.
    pub(crate) fn every_directory(&self) -> Result<Vec<Arc<Directory>>> {
        let mut found = vec![self.root_directory()?];
        let mut next = 0;
        while let Some(directory) = found.get(next).cloned() {
            found.extend(directory.all_children()?);
            next += 1;
        }
        Ok(found)
    }

    /// Where the datasets begin: the snapshot that all descend from, or in pools before version 11, which have none,
    /// the oldest of each chain.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn first_datasets(&self) -> Result<Vec<ObjectId>> {
        if self.services().version() >= version::ORIGIN {
            return Ok(self.origin_snapshot()?.into_iter().collect());
        }
        let mut found = Vec::new();
        for directory in self.every_directory()? {
            if directory.phys()?.origin.0 == 0
                && let Some(head) = directory.head()?
            {
                found.push(head.oldest_own()?.id());
            }
        }
        Ok(found)
    }

    /// A dataset by its object.
    ///
    /// # Errors
    /// There is none there, or it cannot be read.
    pub fn dataset_by_id(&self, id: ObjectId) -> Result<Arc<Dataset>> {
        self.live(&self.datasets, id, || Dataset::load(self, id, None))
    }

    /// A snapshot by its object, to which a name among its head's names led under a stamp. If a task has ended since,
    /// the names are asked again, so that the copy that becomes the live one has its name beside it.
    pub(crate) fn snapshot_by_id(
        &self,
        id: ObjectId,
        (name, names): (&str, &Zap),
        stamp: u64,
    ) -> Result<Arc<Dataset>> {
        self.live(&self.datasets, id, || {
            // Names that cannot be read any more are their head's matter; who asks for the name looks for it.
            let leads_there = self.stamp() == stamp
                || matches!(names.lookup(name.as_bytes()), Ok(Some(found)) if found == id.0);
            Dataset::load(self, id, leads_there.then(|| name.to_owned()))
        })
    }

    /// Looks at several things that belong together while tasks may change them. What fails is looked at once more
    /// while none does: only then it is a failure, and not a dataset that went meanwhile. Not for tasks, nor with locks
    /// that tasks take.
    ///
    /// # Errors
    /// Those of the second look.
    pub fn settled<T, E>(
        &self,
        look: impl Fn() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        look().or_else(|_| {
            let _quiet = self.quiet();
            look()
        })
    }

    /// A head or snapshot by its full name.
    ///
    /// # Errors
    /// The name is malformed, there is no such dataset, or it cannot be read.
    pub fn dataset(&self, full_name: &str) -> Result<Arc<Dataset>> {
        let target = parse(full_name)?;
        self.unless_changed(|| match target {
            Target::Head { dataset } => self.find_head(dataset),
            Target::Snapshot { dataset, snapshot } => self
                .find_head(dataset)?
                .snapshot(snapshot)?
                .ok_or_else(|| DslError::not_found(full_name)),
            Target::Bookmark { .. } => Err(DslError::not_found(full_name)),
        })
    }

    /// A head by its path.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn head(&self, path: &str) -> Result<Arc<Dataset>> {
        self.unless_changed(|| self.find_head(path))
    }

    fn find_head(&self, path: &str) -> Result<Arc<Dataset>> {
        let directory = self.find_directory(path)?;
        directory.head()?.ok_or_else(|| DslError::not_found(path))
    }

    /// The head with that number, if it is open.
    #[must_use]
    pub fn open_head(&self, id: ObjectId) -> Option<Arc<Dataset>> {
        self.heads.lock().get(&id).cloned()
    }

    /// All heads under a directory, itself included, parents before children, in the order of
    /// names.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn heads_under(&self, directory: &Arc<Directory>) -> Result<Vec<Arc<Dataset>>> {
        let mut heads = Vec::new();
        let mut pending = vec![Arc::clone(directory)];
        while let Some(directory) = pending.pop() {
            heads.extend(directory.head()?);
            let mut children = directory.children()?;
            children.reverse();
            pending.extend(children);
        }
        Ok(heads)
    }

    /// The same, but for what is damaged: nobody can open it either.
    ///
    /// # Errors
    /// A device does not answer.
    pub fn readable_heads_under(&self, directory: &Arc<Directory>) -> Result<Vec<Arc<Dataset>>> {
        let mut heads = Vec::new();
        let mut pending = vec![Arc::clone(directory)];
        while let Some(directory) = pending.pop() {
            heads.extend(unless_damaged(directory.head())?.flatten());
            let children = unless_damaged(directory.children())?.unwrap_or_default();
            pending.extend(children.into_iter().rev());
        }
        Ok(heads)
    }
}

fn unless_damaged<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.is_damage() => Ok(None),
        found => found.map(Some),
    }
}

pub(crate) fn parse(full_name: &str) -> Result<Target<'_>> {
    name::parse(full_name).map_err(|problem| DslError::BadName {
        name: full_name.to_owned(),
        problem,
    })
}

impl std::fmt::Debug for Dsl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dsl({})", self.pool_name())
    }
}
