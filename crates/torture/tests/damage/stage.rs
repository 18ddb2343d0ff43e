//! The pool that is damaged, block by block, and what is done to it.

use crate::walk::{Block, Walk};
use base::ObjectId;
use dsl::tasks::{CreateDataset, Snapshot};
use dsl::{Dsl, PropertyValue};
use format::{ObjectSetKind, ObjectType};
use millpond_torture::pool_model::real::populate;
use millpond_torture::random::Random;
use millpond_torture::real::new_node;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{ImportOptions, NewDevice, Pool, Selection};
use posix::{
    AllocateMode, Credentials, FileSystem, FileType, OpenFile, OpenOptions, SetAttributes,
    WriteOptions,
};
use sim::WatchedDevice;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const DISK_BYTES: u64 = 256 << 20;
/// Where the allocatable space of a device begins.
const SPACE_START: u64 = 4 << 20;
/// Bytes of a large file: with records of 512 bytes, three level 1 blocks under one of level 2.
pub(crate) const LARGE: u64 = 1_200_000;
/// Bytes of a small file: one level 1 block.
pub(crate) const SMALL: u64 = 5_000;
/// Files of each kind in the file system that everything is done to.
pub(crate) const NAMES: [&str; 8] = [
    "remove",
    "shrink",
    "empty",
    "overwrite",
    "punch",
    "hole",
    "append",
    "keep",
];

pub(crate) const OPEN: OpenOptions = OpenOptions {
    read: true,
    write: true,
    append: false,
    truncate: false,
    sync: false,
    keep_access_time: false,
    execute: false,
};

/// A file of the stage.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) dataset: String,
    pub(crate) name: String,
    pub(crate) object: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The pool as it was before any damage.
pub(crate) struct Stage {
    /// Another for each damage: a pool that stopped may not have let its devices go.
    folder: RefCell<tempfile::TempDir>,
    /// Not where an import looks for devices.
    _kept: tempfile::TempDir,
    original: PathBuf,
    pub(crate) blocks: Vec<Block>,
    pub(crate) files: Vec<File>,
    kinds: BTreeMap<(String, u64), ObjectType>,
}

/// The path of a dataset of the stage.
pub(crate) fn path(name: &str) -> String {
    format!("{POOL}/{name}")
}

pub(crate) fn contents(seed: u64, length: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = usize::try_from(length.div_ceil(8)).unwrap();
    let mut bytes: Vec<u8> = (0..words)
        .flat_map(|_| random.draw().to_ne_bytes())
        .collect();
    bytes.truncate(usize::try_from(length).unwrap());
    bytes
}

pub(crate) fn look_up(system: &FileSystem, name: &str) -> posix::Result<ObjectId> {
    let who = Credentials::root();
    let mut found = system.root();
    for part in name.split('/') {
        found = system.lookup(&who, found, part.as_bytes())?.object;
    }
    Ok(found)
}

pub(crate) fn open(
    system: &FileSystem,
    name: &str,
    options: OpenOptions,
) -> posix::Result<OpenFile> {
    system.open(&Credentials::root(), look_up(system, name)?, options)
}

pub(crate) fn write(file: &OpenFile, offset: u64, bytes: &[u8]) -> posix::Result<()> {
    for (index, piece) in (0..).zip(bytes.chunks(64 << 10)) {
        file.write(offset + index * (64 << 10), piece, WriteOptions::default())?;
    }
    Ok(())
}

pub(crate) fn read(system: &FileSystem, name: &str) -> posix::Result<Vec<u8>> {
    read_object(system, look_up(system, name)?)
}

pub(crate) fn read_object(system: &FileSystem, object: ObjectId) -> posix::Result<Vec<u8>> {
    let file = system.open(&Credentials::root(), object, OPEN)?;
    let length = file.attributes()?.size;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    let mut at = 0;
    while at < bytes.len() {
        match file.read(at as u64, &mut bytes[at..])? {
            0 => break,
            count => at += count,
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}

pub(crate) fn create(
    system: &FileSystem,
    directory: ObjectId,
    name: &str,
    bytes: &[u8],
) -> posix::Result<u64> {
    let node = new_node(FileType::Regular, 0o644);
    let (file, _) = system.create(
        &Credentials::root(),
        directory,
        name.as_bytes(),
        &node,
        OPEN,
    )?;
    write(&file, 0, bytes)?;
    Ok(file.object().0)
}

pub(crate) fn make_dataset(dsl: &Arc<Dsl>, path: String) -> dsl::Result<()> {
    let records = ("recordsize".to_owned(), PropertyValue::Number(512));
    let create = CreateDataset {
        path,
        kind: ObjectSetKind::FileSystem,
        properties: vec![records],
        case_insensitive: false,
        populate: Some(populate()),
    };
    dsl.run(create).map(drop)
}

pub(crate) fn snapshot(dsl: &Arc<Dsl>, name: String) -> dsl::Result<()> {
    let task = Snapshot {
        names: vec![name],
        properties: Vec::new(),
    };
    dsl.run(task).map(drop)
}

impl Stage {
    /// A pool with four file systems: `work` with files and a snapshot, some of the files younger than it; `doomed`
    /// and `back` with a snapshot and changes after it; `calm`, that nobody touches.
    pub(crate) fn new() -> Self {
        Self::with_blocks_up_to(None)
    }

    /// The same, with blocks that are larger than this in pieces.
    pub(crate) fn with_blocks_up_to(whole_block_max: Option<u64>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = image(folder.path(), "disk");
        std::fs::File::create(&disk)
            .unwrap()
            .set_len(DISK_BYTES)
            .unwrap();
        let test_pool = TestPool::create(vec![NewDevice::Path(disk.clone())]).unwrap();
        if let Some(bytes) = whole_block_max {
            test_pool.pool.set_whole_block_max(bytes);
        }
        let kept = tempfile::tempdir().unwrap();
        let mut stage = Self {
            original: kept.path().join("original"),
            _kept: kept,
            folder: RefCell::new(folder),
            blocks: Vec::new(),
            files: Vec::new(),
            kinds: BTreeMap::new(),
        };
        let dsl = Arc::clone(test_pool.pool.dsl());
        for name in ["work", "doomed", "back", "calm"] {
            make_dataset(&dsl, path(name)).unwrap();
        }
        for prefix in ["old", "new"] {
            for name in NAMES {
                stage.add(&test_pool, "work", &format!("{prefix}-{name}"), LARGE);
                stage.add(&test_pool, "work", &format!("{prefix}-{name}-small"), SMALL);
            }
            stage.fill_directory(&test_pool, prefix);
            if prefix == "old" {
                snapshot(&dsl, path("work@old")).unwrap();
            }
        }
        for name in ["doomed", "back", "calm"] {
            stage.add(&test_pool, name, "first", LARGE);
        }
        snapshot(&dsl, path("back@s")).unwrap();
        let back = test_pool.system(&path("back"));
        let overwritten = open(&back, "first", OPEN).unwrap();
        write(&overwritten, 0, &contents(99, LARGE)).unwrap();
        drop(overwritten);
        drop(back);
        test_pool.pool.sync().unwrap();
        test_pool.export().unwrap();
        stage.keep();
        stage.walk();
        stage
    }

    /// The same, gone down after everything was done to the files of `work`, in its log and not yet in a txg.
    pub(crate) fn with_log() -> Self {
        let stage = Self::new();
        let test_pool = stage.import_with_log();
        let system = test_pool.system(&path("work"));
        for file in stage
            .files
            .iter()
            .filter(|file| file.dataset == path("work"))
        {
            change(&system, &file.name, file.bytes.len() as u64).unwrap();
        }
        let directory = look_up(&system, "new-many").unwrap();
        system.fsync_directory(directory).unwrap();
        for file in stage
            .files
            .iter()
            .filter(|file| file.dataset == path("work"))
        {
            if let Ok(file) = open(&system, &file.name, OPEN) {
                file.fsync().unwrap();
            }
        }
        // As at a crash.
        stage.keep();
        stage
    }

    /// The pool with the log of `work` begun: the first commit of an import is a txg.
    pub(crate) fn import_with_log(&self) -> TestPool {
        let test_pool = self.import(false).unwrap();
        let system = test_pool.system(&path("work"));
        create(&system, system.root(), "begins", b"the log").unwrap();
        open(&system, "begins", OPEN).unwrap().fsync().unwrap();
        test_pool.pool.sync().unwrap();
        test_pool
    }

    /// Finds the blocks, in the state of the last txg.
    pub(crate) fn walk(&mut self) {
        let stage = self;
        let test_pool = stage.import(true).unwrap();
        let walk = Walk::new(&test_pool.pool);
        stage.blocks = walk.blocks();
        stage.kinds = walk.kinds;
    }

    pub(crate) fn add(&mut self, test_pool: &TestPool, dataset: &str, name: &str, length: u64) {
        let dataset = path(dataset);
        let system = test_pool.system(&dataset);
        let bytes = contents(self.files.len() as u64, length);
        let object = create(&system, system.root(), name, &bytes).unwrap();
        let name = name.to_owned();
        self.files.push(File {
            dataset,
            name,
            object,
            bytes,
        });
    }

    /// A directory of so many names that it has a table, with files in blocks of dnodes of their own.
    fn fill_directory(&mut self, test_pool: &TestPool, prefix: &str) {
        let system = test_pool.system(&path("work"));
        let node = new_node(FileType::Directory, 0o755);
        let name = format!("{prefix}-many");
        let made = system.mkdir(&Credentials::root(), system.root(), name.as_bytes(), &node);
        let directory = made.unwrap().object;
        for number in 0..80 {
            let name = format!("{number:02}-{}", "x".repeat(60));
            create(&system, directory, &name, b"a few bytes").unwrap();
        }
    }

    /// Keeps the image as it is now as the original.
    pub(crate) fn keep(&self) {
        copy(&self.disk(), &self.original);
    }

    /// The image of the pool.
    pub(crate) fn image(&self) -> PathBuf {
        self.disk()
    }

    fn disk(&self) -> PathBuf {
        image(self.folder.borrow().path(), "disk")
    }

    /// The original again.
    pub(crate) fn restore(&self) {
        self.folder.replace(tempfile::tempdir().unwrap());
        copy(&self.original, &self.disk());
    }

    /// The original again, without any copy of `block`.
    pub(crate) fn damage(&self, block: &Block) {
        self.restore();
        self.flip(block);
    }

    /// Turns over every byte of all copies of a block, of one in pieces those of the header that names them; done
    /// twice, the block is as it was.
    pub(crate) fn flip(&self, block: &Block) {
        let disk = std::fs::File::options()
            .read(true)
            .write(true)
            .open(self.disk())
            .unwrap();
        for dva in block.pointer.dvas() {
            let length = if dva.gang {
                format::gang::SIZE as u64
            } else {
                block.pointer.psize()
            };
            let mut bytes = vec![0; usize::try_from(length).unwrap()];
            disk.read_exact_at(&mut bytes, SPACE_START + dva.offset)
                .unwrap();
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            disk.write_all_at(&bytes, SPACE_START + dva.offset).unwrap();
        }
    }

    /// The pool, with a block cache of so many bytes.
    pub(crate) fn import_with_cache(&self, bytes: usize) -> Result<TestPool, pool::PoolError> {
        let folder = self.folder.borrow().path().to_owned();
        let mut options = ImportOptions::new(vec![folder], Selection::Only);
        options.cache_bytes = bytes;
        Ok(TestPool::open(Pool::import(&options)?, false))
    }

    pub(crate) fn import(&self, read_only: bool) -> Result<TestPool, pool::PoolError> {
        TestPool::import(self.folder.borrow().path(), read_only)
    }

    /// The pool, and images of it as of each beginning of a txg's uberblocks from now on.
    pub(crate) fn import_and_keep(&self, into: &Path) -> (TestPool, Arc<Mutex<Vec<PathBuf>>>) {
        const LABELS: u64 = 512 << 10;
        let folder = self.folder.borrow().path().to_owned();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (disk, into, list) = (self.disk(), into.to_owned(), Arc::clone(&kept));
        let mut options = ImportOptions::new(vec![folder], Selection::Only);
        options.between = Some(Arc::new(move |inner| {
            let (disk, list, into) = (disk.clone(), Arc::clone(&list), into.clone());
            let watch = move |offset, _| {
                let mut list = list.lock().unwrap();
                if offset < LABELS {
                    let to = into.join(format!("cut{}", list.len()));
                    copy(&disk, &to);
                    list.push(to);
                }
            };
            Arc::new(WatchedDevice::writes(inner, watch))
        }));
        (TestPool::open(Pool::import(&options).unwrap(), false), kept)
    }

    /// Makes an image the pool.
    pub(crate) fn set(&self, image: &Path) {
        self.folder.replace(tempfile::tempdir().unwrap());
        copy(image, &self.disk());
    }

    /// Whether an operation on these objects of a dataset may fail when `block` is gone: it describes one of them, or
    /// one that every operation in the dataset needs.
    pub(crate) fn may_fail(&self, block: &Block, dataset: &str, objects: &[u64]) -> bool {
        let every = self.kinds.iter().filter(|((of, _), kind)| {
            of == dataset && **kind != ObjectType::PLAIN_FILE && **kind != ObjectType::DIRECTORY
        });
        let root = every.clone().map(|((_, object), _)| *object);
        root.chain(objects.iter().copied())
            .any(|object| block.describes(dataset, object))
    }

    /// The object of the root directory.
    pub(crate) fn root_of(&self, dataset: &str) -> u64 {
        let mut kinds = self.kinds.iter();
        let found = kinds.find(|((of, _), kind)| of == dataset && **kind == ObjectType::DIRECTORY);
        found.map_or(0, |((_, object), _)| *object)
    }

    pub(crate) fn file(&self, dataset: &str, name: &str) -> &File {
        let mut files = self.files.iter();
        let found = files.find(|file| file.dataset == dataset && file.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {dataset}"))
    }
}

/// What is done to one file; the name says what.
pub(crate) fn change(system: &FileSystem, name: &str, length: u64) -> posix::Result<()> {
    let root = Credentials::root();
    match name.split('-').nth(1).unwrap() {
        "remove" => system
            .unlink(&root, system.root(), name.as_bytes())
            .map(drop),
        "shrink" => set_size(system, name, length / 2 + 100),
        "empty" => set_size(system, name, 0),
        "overwrite" => {
            let file = open(system, name, OPEN)?;
            write(&file, 512, &contents(7, length - 1024))
        }
        "punch" => {
            let file = open(system, name, OPEN)?;
            file.allocate(AllocateMode::PunchHole, 700..length - 700)
        }
        // Whole records: nothing of the file but its indirect blocks is needed.
        "hole" => {
            let file = open(system, name, OPEN)?;
            let end = (length - 1024).next_multiple_of(512);
            file.allocate(AllocateMode::PunchHole, 1024..end)
        }
        "append" => write(&open(system, name, OPEN)?, length, &contents(8, 2000)),
        _ => Ok(()),
    }
}

fn set_size(system: &FileSystem, name: &str, size: u64) -> posix::Result<()> {
    let change = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let object = look_up(system, name)?;
    system
        .setattr(&Credentials::root(), object, &change)
        .map(drop)
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .arg("--sparse=always")
        .args([from, to])
        .status();
    assert!(status.unwrap().success());
}
