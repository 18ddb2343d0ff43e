//! A pool in this process, its file systems, and the models that go along.

use crate::model::Tree;
use crate::operation::{Chooser, Operation};
use crate::pool_model::choose::ChangeChooser;
use crate::pool_model::{Change, PoolModel};
use crate::random::Random;
use crate::real;
use crate::tunables::{self, Kept};
use dsl::PropertyValue;
use dsl::property::dataset::{DEDUP, DNODESIZE, RECORDSIZE, SPECIAL_SMALL_BLOCKS, SYNC, XATTR};
use dsl::property::{SyncPolicy, XattrPolicy};
use format::uberblock::VERSION_LAST_NUMBERED;
use pool::{
    CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, PoolError, Selection, VdevRole,
};
use posix::{FileSystem, IntentLog, MountOptions, PosixError, Source};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open pool, and the file systems of it that are open.
pub struct TestPool {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Open file systems by path.
    systems: RefCell<BTreeMap<String, Arc<FileSystem>>>,
    /// Records of intent logs that were applied, and those that were passed over, when they were opened.
    replayed: Cell<(u64, usize)>,
    read_only: bool,
    /// The last to go: it was under these limits.
    _limits: Kept,
}

/// What draws that must not go together begin from.
const OTHER_CLASS: u64 = 0x5EC1;
const SMALL: u64 = 0x5A11;

/// How the file systems of a new pool are deduplicated: one in three is.
fn deduplication(seed: u64) -> Option<(String, PropertyValue)> {
    /// `on`, `verify`, and kinds of their own.
    const KINDS: [u64; 5] = [1, 257, 11, 13 | 256, 14];
    let mut random = Random::new(seed ^ 0xDED0);
    let kind = random.one_in(3).then(|| KINDS[random.below(KINDS.len())])?;
    println!("dedup: {kind}");
    Some((DEDUP.name.to_owned(), PropertyValue::Number(kind)))
}

/// The class of a vdev beside those for data that a new pool is to have: one in three has one for metadata, or for
/// dedup tables.
#[must_use]
pub fn other_class(seed: u64) -> Option<VdevRole> {
    let mut random = Random::new(seed ^ OTHER_CLASS);
    let wanted = random.one_in(3) && old_version(seed).is_none();
    let class = *random.pick(&[VdevRole::Special, VdevRole::Special, VdevRole::Dedup]);
    wanted.then(|| {
        println!("class of a vdev: {class:?}");
        class
    })
}

/// The version of a new pool, if it is not to have features: one in eight has none. `MILLPOND_POOL_VERSION` says it for
/// all.
fn old_version(seed: u64) -> Option<u64> {
    if let Ok(version) = std::env::var("MILLPOND_POOL_VERSION") {
        let version = version.parse();
        return Some(version.expect("MILLPOND_POOL_VERSION is a version"));
    }
    let mut random = Random::new(seed ^ 0x01D_F0E5);
    let drawn = 1 + random.below(VERSION_LAST_NUMBERED as usize) as u64;
    random.one_in(8).then(|| {
        println!("pool version: {drawn}");
        drawn
    })
}

/// The name of every pool made here.
pub const POOL: &str = "torture";

impl TestPool {
    /// Makes a pool on these devices: several are sides of one mirror.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create(devices: Vec<NewDevice>) -> Result<Self, PoolError> {
        Self::create_with_logs(devices, Vec::new())
    }

    /// [`TestPool::create`] of a pool whose file systems are encrypted, or deduplicated, if the seed says so; or which
    /// is of an older version, without what that lacks.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_drawn(devices: Vec<NewDevice>, seed: u64) -> Result<Self, PoolError> {
        Self::create_drawn_with(devices, None, seed)
    }

    /// The same, with a vdev of another class, as [`other_class`] draws it: metadata lie there, or dedup tables, and
    /// with some seeds small blocks of files.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_drawn_with(
        devices: Vec<NewDevice>,
        other: Option<(VdevRole, NewDevice)>,
        seed: u64,
    ) -> Result<Self, PoolError> {
        let mut options = CreateOptions::new(POOL, vec![vdev(devices)]);
        if let Some((class, device)) = other {
            options.others.push((class, vdev(vec![device])));
            let name = SPECIAL_SMALL_BLOCKS.name.to_owned();
            let small = Random::new(seed ^ SMALL).below(3) as u64 * 4096;
            options
                .root
                .properties
                .push((name, PropertyValue::Number(small)));
        }
        if let Some(version) = old_version(seed) {
            options.version = version;
            options.root.populate = Some(crate::pool_model::real::populate_in(version));
            return Self::create_as(options);
        }
        options.root.populate = Some(crate::pool_model::real::populate());
        options.root.encryption = crate::encryption::draw(seed);
        options.root.properties.extend(deduplication(seed));
        Self::create_as(options)
    }

    /// [`TestPool::create`]; the root file system and all below it are encrypted, with a cipher that the seed draws.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_encrypted(devices: Vec<NewDevice>, seed: u64) -> Result<Self, PoolError> {
        let mut options = CreateOptions::new(POOL, vec![vdev(devices)]);
        options.root.populate = Some(crate::pool_model::real::populate());
        options.root.encryption = crate::encryption::some(seed);
        Self::create_as(options)
    }

    /// Makes a pool on one vdev.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_of(vdev: NewVdev) -> Result<Self, PoolError> {
        let mut options = CreateOptions::new(POOL, vec![vdev]);
        options.root.populate = Some(crate::pool_model::real::populate());
        Self::create_as(options)
    }

    /// [`TestPool::create`] with devices for its intent logs: several are sides of one mirror.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_with_logs(
        devices: Vec<NewDevice>,
        logs: Vec<NewDevice>,
    ) -> Result<Self, PoolError> {
        let mut options = CreateOptions::new(POOL, vec![vdev(devices)]);
        if !logs.is_empty() {
            options.others.push((VdevRole::Log, vdev(logs)));
        }
        options.root.populate = Some(crate::pool_model::real::populate());
        Self::create_as(options)
    }

    /// Makes a pool as the options say.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create_as(options: CreateOptions) -> Result<Self, PoolError> {
        let limits = tunables::keep();
        Ok(Self::of(Pool::create(options)?, false, limits))
    }

    /// Imports the pool from images in a folder.
    ///
    /// # Errors
    /// The pool cannot be imported.
    pub fn import(folder: &Path, read_only: bool) -> Result<Self, PoolError> {
        let mut options =
            ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.to_owned()));
        options.read_only = read_only;
        options.force = true;
        Self::import_as(&options)
    }

    /// Imports a pool as the options say.
    ///
    /// # Errors
    /// The pool cannot be imported.
    pub fn import_as(options: &ImportOptions) -> Result<Self, PoolError> {
        let test_pool = Self::import_locked(options)?;
        crate::encryption::load(&test_pool.pool);
        Ok(test_pool)
    }

    /// The same without the keys of its file systems.
    ///
    /// # Errors
    /// The pool cannot be imported.
    pub fn import_locked(options: &ImportOptions) -> Result<Self, PoolError> {
        let limits = tunables::keep();
        let pool = Pool::import(options)?;
        Ok(Self::of(pool, options.read_only, limits))
    }

    /// A test pool around a pool. It was made under the limits of that moment: where others draw limits,
    /// [`Self::create_as`] and [`Self::import_as`] do both.
    #[must_use]
    pub fn open(pool: Arc<Pool>, read_only: bool) -> Self {
        Self::of(pool, read_only, tunables::keep())
    }

    const fn of(pool: Arc<Pool>, read_only: bool, limits: Kept) -> Self {
        let systems = RefCell::new(BTreeMap::new());
        Self {
            pool,
            systems,
            replayed: Cell::new((0, 0)),
            read_only,
            _limits: limits,
        }
    }

    /// Gives the root file system properties of storage that a seed draws, and prints them. What of them are changes of
    /// a pool model is done there, too. With `verified`, checksums find damage.
    ///
    /// # Panics
    /// If they cannot be set.
    pub fn draw_storage(&self, seed: u64, verified: bool, pool_model: Option<&mut PoolModel>) {
        let mut changes = crate::pool_model::choose::storage(POOL, seed, verified);
        changes.retain(|change| crate::pool_model::real::is_known(self, change));
        let made_with = self.own_deduplication();
        for change in &changes {
            crate::pool_model::real::apply(self, change).expect("a property is set");
        }
        if let Some(pool_model) = pool_model {
            for change in made_with.iter().chain(&changes) {
                pool_model.apply(change).expect("a property is set");
            }
        }
        println!("storage: {changes:?}");
    }

    /// What the root file system was made with, as a model is told.
    fn own_deduplication(&self) -> Option<Change> {
        let root = self.pool.dsl().head(POOL).expect("the root file system");
        let row = dsl::property::dataset::find(DEDUP.name).expect("a property");
        let own = root.effective(row).expect("its properties are read");
        own.map(|(value, _)| Change::Set(POOL.to_owned(), DEDUP.name.to_owned(), value))
    }

    /// The pool's root file system.
    pub fn root(&self) -> Arc<FileSystem> {
        self.system(POOL)
    }

    /// A file system that frees what is long by a thread of its own, opened for the caller alone.
    ///
    /// # Panics
    /// If it cannot be: the test has failed then.
    #[must_use]
    pub fn in_background(&self, path: &str) -> Arc<FileSystem> {
        let options = MountOptions {
            read_only: self.read_only,
            frees_in_background: true,
            ..MountOptions::default()
        };
        let mounted = mount_with(&self.pool, path, options);
        mounted.expect("the file system mounts").0
    }

    /// The file system of a head, opened when it is not yet.
    pub fn system(&self, path: &str) -> Arc<FileSystem> {
        let system = self.try_system(path);
        system.expect("the file system mounts")
    }

    /// The same, where a failure is no surprise.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn try_system(&self, path: &str) -> Result<Arc<FileSystem>, String> {
        let mut systems = self.systems.borrow_mut();
        if let Some(system) = systems.get(path) {
            return Ok(Arc::clone(system));
        }
        let (system, (applied, lost)) = try_mount(&self.pool, path, self.read_only)?;
        let (earlier, lost_earlier) = self.replayed.get();
        self.replayed.set((earlier + applied, lost_earlier + lost));
        systems.insert(path.to_owned(), Arc::clone(&system));
        Ok(system)
    }

    /// How many records of intent logs were applied when file systems were opened.
    #[must_use]
    pub const fn replayed_records(&self) -> u64 {
        self.replayed.get().0
    }

    /// How many could not be, for damage.
    #[must_use]
    pub const fn lost_records(&self) -> usize {
        self.replayed.get().1
    }

    /// Closes the file system of a head.
    ///
    /// # Panics
    /// If it cannot be: the test has failed then.
    pub fn close(&self, path: &str) {
        let system = self.systems.borrow_mut().remove(path);
        if let Some(system) = system {
            system.unmount().expect("the file system closes");
        }
    }

    /// Closes all file systems.
    pub fn close_all(&self) {
        let paths: Vec<String> = self.systems.borrow().keys().cloned().collect();
        for path in paths {
            self.close(&path);
        }
    }

    /// Closes all file systems; those of a pool that stopped cannot be.
    ///
    /// # Errors
    /// Why the first of them cannot be closed. All are let go.
    pub fn try_close_all(&self) -> Result<(), PosixError> {
        let systems = std::mem::take(&mut *self.systems.borrow_mut());
        let ended: Vec<_> = systems.into_values().map(|it| it.unmount()).collect();
        ended.into_iter().collect()
    }

    /// Tells the open file systems the properties that hold now.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn renew_properties(&self) -> dsl::Result<()> {
        for (path, system) in &*self.systems.borrow() {
            system.set_properties(properties(&*self.pool.dsl().head(path)?)?);
        }
        Ok(())
    }

    /// Exports the pool.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn export(self) -> Result<(), PoolError> {
        self.close_all();
        self.pool.export()
    }
}

/// The properties that file semantics need.
fn properties(dataset: &dsl::Dataset) -> dsl::Result<posix::DatasetProperties> {
    let default = posix::DatasetProperties::default();
    let record_size = dataset.get(RECORDSIZE)?.value;
    Ok(posix::DatasetProperties {
        record_size: u32::try_from(record_size).unwrap_or(default.record_size),
        dnode_slots: match dataset.get(DNODESIZE)?.value {
            0 => 1,
            1 => 2,
            bytes => u8::try_from(bytes / 512).unwrap_or(1),
        },
        xattr: match dataset.get(XATTR)?.value {
            XattrPolicy::Directory => posix::XattrStore::Directory,
            XattrPolicy::SystemAttribute | XattrPolicy::Off => posix::XattrStore::SystemAttribute,
        },
        sync_always: dataset.get(SYNC)?.value == SyncPolicy::Always,
        ..default
    })
}

/// Mounts a dataset, a head or a snapshot, without FUSE.
///
/// # Panics
/// If it cannot be mounted: the test has failed then.
#[must_use]
pub fn mount(pool: &Arc<Pool>, dataset: &str, read_only: bool) -> Arc<FileSystem> {
    let mounted = try_mount(pool, dataset, read_only);
    mounted.expect("the file system mounts").0
}

/// The same; what its intent log owes is replayed first. Says how many of its records were applied and
/// lost, too.
fn try_mount(
    pool: &Arc<Pool>,
    dataset: &str,
    read_only: bool,
) -> Result<(Arc<FileSystem>, (u64, usize)), String> {
    let options = MountOptions {
        read_only,
        ..MountOptions::default()
    };
    mount_with(pool, dataset, options)
}

fn mount_with(
    pool: &Arc<Pool>,
    dataset: &str,
    options: MountOptions,
) -> Result<(Arc<FileSystem>, (u64, usize)), String> {
    let read_only = options.read_only;
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let dataset = pool.dsl().dataset(dataset).map_err(|error| text(&error))?;
    let engine = pool.engine().filter(|_| !read_only).cloned();
    let log = match &engine {
        Some(_) if !dataset.is_snapshot() => pool.intent_log(&dataset),
        _ => Ok(None),
    };
    let log = log.map_err(|error| text(&error))?;
    let source = || -> Result<Source, String> {
        Ok(Source {
            objects: dataset.object_set().map_err(|error| text(&error))?,
            engine: engine.clone(),
            log: log
                .clone()
                .map(|log| Arc::new(IntentLog::new(log)) as Arc<dyn posix::OperationLog>),
            space: Some(dataset.admission()),
            clock: Arc::new(base::clock::SystemClock),
            identity: 1,
            properties: properties(&dataset).map_err(|error| text(&error))?,
        })
    };
    let mut records = (0, 0);
    if let Some(log) = log.as_ref().filter(|log| log.is_owed()) {
        let replayed = posix::replay(source()?, log).map_err(|error| text(&error))?;
        if let Some((record, problem)) = replayed.failed {
            return Err(format!("record {record} cannot be replayed: {problem}"));
        }
        records = (replayed.records, replayed.lost.len());
    }
    let system = FileSystem::mount(source()?, options).map_err(|error| text(&error))?;
    Ok((system, records))
}

/// Does one random change of datasets to the pool and the model; both must agree on the outcome.
///
/// # Panics
/// If they do not; the message names the change.
pub fn run_change(test_pool: &TestPool, pool_model: &mut PoolModel, chooser: &mut ChangeChooser) {
    let change = chooser.next(pool_model);
    if !crate::pool_model::real::is_known(test_pool, &change) {
        return;
    }
    let wanted = pool_model.apply(&change);
    let found = crate::pool_model::real::apply(test_pool, &change);
    assert!(
        wanted.is_ok() == found.is_ok(),
        "{change:?}: the model says {wanted:?}, the pool {found:?}"
    );
}

/// Does random operations to a file system and its model; both must agree on every outcome.
///
/// # Panics
/// If they do not; the message names the operation.
pub fn run_operations(system: &FileSystem, tree: &mut Tree, chooser: &mut Chooser, count: usize) {
    for index in 0..count {
        let operation = chooser.next(tree);
        let wanted = tree.apply(&operation);
        let found = real::apply(system, &operation);
        match (&wanted, &found) {
            (Ok(()), Ok(())) => {}
            (Err(refusal), Err(error)) if real::errno(*refusal) == error.errno() => {}
            _ => panic!(
                "operation {index}: {}: the model says {wanted:?}, the file system {}",
                short(&operation),
                outcome(&found)
            ),
        }
    }
}

/// What a real operation ended with, for a message.
pub(crate) fn outcome(found: &Result<(), PosixError>) -> String {
    match found {
        Ok(()) => "Ok".to_owned(),
        Err(error) => format!("{error} ({:?})", error.errno()),
    }
}

fn short(operation: &Operation) -> String {
    let mut text = format!("{operation:?}");
    text.truncate(300);
    text
}

fn vdev(devices: Vec<NewDevice>) -> NewVdev {
    match <[NewDevice; 1]>::try_from(devices) {
        Ok([single]) => NewVdev::Single(single),
        Err(several) => NewVdev::Mirror(several),
    }
}

/// The size of a pool's devices in files, which are sparse: the usual, or up to 32 TiB, as a seed draws.
#[must_use]
pub fn size(usual: u64, seed: u64) -> u64 {
    let mut random = Random::new(seed ^ 0x512E);
    if random.one_in(4) {
        (1 << 40) << random.below(6)
    } else {
        usual
    }
}

/// The images in a folder.
#[must_use]
pub fn image(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.img"))
}
