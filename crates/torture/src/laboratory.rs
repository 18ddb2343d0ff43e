//! A pool in this process, its root file system, and the model that goes along.

use crate::model::Tree;
use crate::operation::{Chooser, Operation};
use crate::real;
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, PoolError, Selection};
use posix::{FileSystem, MountOptions, NewFileSystem, NoLog, PosixError, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// There is always room: the pool itself says when there is none.
struct Room;

impl dmu::Admission for Room {
    fn admit(&self, _: u64, _: bool) -> Result<(), dmu::Refusal> {
        Ok(())
    }
}

impl posix::Space for Room {
    fn numbers(&self) -> posix::SpaceNumbers {
        posix::SpaceNumbers {
            referenced: 0,
            available: 1 << 30,
        }
    }
}

/// An open pool and its root file system.
pub struct Laboratory {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Its root file system.
    pub system: Arc<FileSystem>,
}

/// The name of every pool made here.
pub const POOL: &str = "torture";

impl Laboratory {
    /// Makes a pool on these devices: several are sides of one mirror.
    ///
    /// # Errors
    /// The pool cannot be made.
    pub fn create(devices: Vec<NewDevice>) -> Result<Self, PoolError> {
        let vdev = match <[NewDevice; 1]>::try_from(devices) {
            Ok([single]) => NewVdev::Single(single),
            Err(several) => NewVdev::Mirror(several),
        };
        let mut options = CreateOptions::new(POOL, vec![vdev]);
        options.root.populate = Some(Box::new(|objects, tx| {
            let new = NewFileSystem::default();
            posix::create_file_system(tx, objects, &base::clock::SystemClock, &new)
                .map(|_| ())
                .map_err(|error| error.to_string())
        }));
        Ok(Self::open(Pool::create(options)?, false))
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
        Ok(Self::open(Pool::import(&options)?, read_only))
    }

    fn open(pool: Arc<Pool>, read_only: bool) -> Self {
        let system = mount(&pool, POOL, read_only);
        Self { pool, system }
    }

    /// Exports the pool.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn export(self) -> Result<(), PoolError> {
        let Self { pool, system } = self;
        drop(system);
        pool.export()
    }
}

/// Mounts the head of a dataset, without FUSE.
///
/// # Panics
/// If it cannot be mounted: the test has failed then.
#[must_use]
pub fn mount(pool: &Arc<Pool>, dataset: &str, read_only: bool) -> Arc<FileSystem> {
    let head = pool.dsl().dataset(dataset).expect("the dataset is there");
    let objects = head.object_set().expect("its object set opens");
    let engine = pool.engine().cloned();
    let log = engine.clone().map(NoLog::new);
    let source = Source {
        objects,
        engine,
        log: log.map(|log| Arc::new(log) as Arc<dyn posix::OperationLog>),
        space: (!read_only).then(|| Arc::new(Room) as Arc<dyn posix::Space>),
        clock: Arc::new(base::clock::SystemClock),
        identity: 1,
        properties: posix::DatasetProperties::default(),
    };
    let options = MountOptions {
        read_only,
        ..MountOptions::default()
    };
    FileSystem::mount(source, options).expect("the file system mounts")
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

fn outcome(found: &Result<(), PosixError>) -> String {
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

/// The images in a folder.
#[must_use]
pub fn image(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.img"))
}
