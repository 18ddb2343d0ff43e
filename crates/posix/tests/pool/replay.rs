//! What was made durable is there after a crash: the log is claimed at import and replayed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ObjectId;
use millpond_posix::{
    AclKind, Credentials, DatasetProperties, FileSystem, FileType, NewFileSystem, NewNode,
    OpenOptions, RenameMode, SetAttributes, SetTime, Timestamp, WriteOptions, XattrMode,
    XattrStore,
};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use sim::SimulatedDisk;
use torture::model::Tree;
use torture::operation::Chooser;
use torture::real;

use crate::{mount, mount_replayed, populate, walk};

/// A pool on a disk whose power can be cut.
struct Machine {
    disk: Arc<SimulatedDisk>,
    _pool: Arc<Pool>,
    system: Arc<FileSystem>,
}

impl Machine {
    fn new(seed: u64, new: NewFileSystem, properties: DatasetProperties) -> Self {
        let disk = Arc::new(SimulatedDisk::new(128 << 20, seed));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        let mut options = CreateOptions::new("pond", vec![NewVdev::Single(device)]);
        options.root.populate = Some(populate(new));
        let pool = Pool::create(options).unwrap();
        let system = mount(&pool, "pond", properties);
        Self {
            disk,
            _pool: pool,
            system,
        }
    }

    /// The image that is left if the power goes now: what is not flushed may be there or not.
    fn cut_power(&self, folder: &Path, survivors: u64) {
        let crashed = self.disk.crash_at(self.disk.log_len(), survivors);
        let _ = std::fs::remove_file(folder.join("pond.img"));
        crashed.write_to_file(&folder.join("pond.img")).unwrap();
    }
}

fn import(folder: &Path) -> Arc<Pool> {
    let mut options = ImportOptions::new(vec![PathBuf::from(folder)], Selection::Only);
    options.force = true;
    Pool::import(&options).unwrap()
}

fn check_with_zdb(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, "pond");
    }
}

/// What an import after a crash finds must be the model's tree. Says how many records were
/// replayed.
fn assert_replayed(
    machine: &Machine,
    tree: &Tree,
    properties: DatasetProperties,
    (case, survivors): (&str, u64),
) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    machine.cut_power(folder.path(), survivors);
    let pool = import(folder.path());
    let (system, records) = mount_replayed(&pool, "pond", properties);
    let differences = real::differences(tree, &system);
    assert_eq!(differences, Vec::<String>::new(), "{case}");
    system.unmount().unwrap();
    drop(system);
    pool.export().unwrap();
    drop(pool);
    check_with_zdb(folder.path());
    records
}

fn plain() -> DatasetProperties {
    DatasetProperties {
        acl: AclKind::Posix,
        ..DatasetProperties::default()
    }
}

/// With `sync=always` everything that was answered is there.
fn every_operation(seed: u64, new: NewFileSystem, properties: DatasetProperties) {
    const STEPS: usize = 100;
    let properties = DatasetProperties {
        sync_always: true,
        ..properties
    };
    let machine = Machine::new(seed, new, properties);
    let mut chooser = Chooser::new(seed);
    let (mut tree, mut replayed) = (Tree::new(), 0);
    for step in 0..STEPS {
        let operation = chooser.next(&tree);
        let wanted = tree.apply(&operation);
        let found = real::apply(&machine.system, &operation);
        assert_eq!(wanted.is_ok(), found.is_ok(), "seed {seed}: {operation:?}");
        if step % 50 == 49 {
            let case = format!("seed {seed}, step {step}");
            let survivors = seed + step as u64;
            replayed += assert_replayed(&machine, &tree, properties, (&case, survivors));
        }
    }
    assert_ne!(replayed, 0, "seed {seed}: nothing was replayed");
}

#[test]
fn with_sync_always_nothing_is_lost() {
    for seed in 0..2 {
        every_operation(seed, NewFileSystem::default(), plain());
    }
}

#[test]
fn nor_with_attributes_in_directories() {
    let properties = DatasetProperties {
        xattr: XattrStore::Directory,
        ..plain()
    };
    every_operation(10, NewFileSystem::default(), properties);
}

#[test]
fn nor_with_large_dnodes_and_small_records() {
    let properties = DatasetProperties {
        dnode_slots: 2,
        record_size: 4096,
        ..plain()
    };
    every_operation(20, NewFileSystem::default(), properties);
}

#[test]
fn nor_in_old_file_systems() {
    let new = NewFileSystem {
        version: 3,
        ..NewFileSystem::default()
    };
    every_operation(30, new, plain());
}

fn fsync_all(system: &FileSystem, directory: ObjectId) {
    let root = Credentials::root();
    let mut below = Vec::new();
    system
        .readdir(&root, directory, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                below.push((entry.object, entry.file_type));
            }
            millpond_posix::Visit::Continue
        })
        .unwrap();
    system.fsync_directory(directory).unwrap();
    for (object, file_type) in below {
        if file_type == Some(FileType::Directory) {
            fsync_all(system, object);
        } else {
            system.fsync_directory(object).unwrap();
        }
    }
}

/// Data are looked up when files are made durable, in any order, after all that happened.
#[test]
fn what_was_made_durable_in_the_end_is_there() {
    for seed in 40..42 {
        let machine = Machine::new(seed, NewFileSystem::default(), plain());
        let mut chooser = Chooser::new(seed);
        let (mut tree, mut replayed) = (Tree::new(), 0);
        for round in 0..2 {
            for _ in 0..100 {
                let operation = chooser.next(&tree);
                let wanted = tree.apply(&operation);
                let found = real::apply(&machine.system, &operation);
                assert_eq!(wanted.is_ok(), found.is_ok(), "seed {seed}: {operation:?}");
            }
            fsync_all(&machine.system, machine.system.root());
            let case = format!("seed {seed}, round {round}");
            replayed += assert_replayed(&machine, &tree, plain(), (&case, seed));
        }
        assert_ne!(replayed, 0, "seed {seed}: nothing was replayed");
    }
}

fn node(file_type: FileType) -> NewNode {
    NewNode {
        file_type,
        permissions: 0o640,
        umask: 0,
        device: (0, 0),
    }
}

/// Operations that random histories do not do, and attributes that they do not compare.
#[test]
fn attributes_and_rare_operations_are_replayed() {
    let root = Credentials::root();
    let machine = Machine::new(50, NewFileSystem::default(), plain());
    let system = &machine.system;
    let top = system.root();
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    let make = |name: &[u8]| {
        let (file, made) = system
            .create(&root, top, name, &node(FileType::Regular), options)
            .unwrap();
        file.write(0, name, WriteOptions::default()).unwrap();
        made
    };
    let (one, two, three) = (make(b"one"), make(b"two"), make(b"three"));
    let at = |seconds| {
        SetTime::At(Timestamp {
            seconds,
            nanoseconds: 5,
        })
    };
    let change = SetAttributes {
        uid: Some(7),
        gid: Some(8),
        atime: Some(at(1_000_000_000)),
        mtime: Some(at(1_100_000_000)),
        flags: Some((millpond_posix::flags::NO_DUMP, 0)),
        ..SetAttributes::default()
    };
    system.setattr(&root, one.object, &change).unwrap();
    let (from, to) = ((top, &b"one"[..]), (top, &b"two"[..]));
    system
        .rename(&root, from, to, RenameMode::Exchange)
        .unwrap();
    let to = (top, &b"moved"[..]);
    let whiteout = RenameMode::Whiteout;
    system.rename(&root, (top, b"three"), to, whiteout).unwrap();
    system
        .setxattr(&root, two.object, b"user.empty", b"", XattrMode::Either)
        .unwrap();
    let (unnamed, _) = system
        .create_unnamed(&root, top, &node(FileType::Regular), options)
        .unwrap();
    unnamed.write(0, b"late", WriteOptions::default()).unwrap();
    system.link(&root, unnamed.object(), top, b"late").unwrap();
    for object in [one.object, two.object, three.object] {
        system.fsync_directory(object).unwrap();
    }
    let found = assert_same_after_crash(&machine, &[b"one", b"two", b"three", b"moved", b"late"]);
    let empty = found.getxattr(&root, two.object, b"user.empty").unwrap();
    assert_eq!(empty, b"");
    let (found, wanted) = (
        found.getattr(one.object).unwrap(),
        system.getattr(one.object).unwrap(),
    );
    assert_eq!((found.atime, found.mtime), (wanted.atime, wanted.mtime));
}

/// Cuts the power and looks whether these files are what they were.
fn assert_same_after_crash(machine: &Machine, names: &[&[u8]]) -> Arc<FileSystem> {
    let root = Credentials::root();
    let folder = tempfile::tempdir().unwrap();
    machine.cut_power(folder.path(), 1);
    let system = mount(&import(folder.path()), "pond", plain());
    for name in names {
        let top = system.root();
        let wanted = machine.system.lookup(&root, top, name).unwrap();
        let found = system.lookup(&root, top, name).unwrap();
        let shown = |it: &millpond_posix::Attributes| {
            let who = (it.object, it.generation, it.mode(), it.links, it.size);
            (who, it.uid, it.gid, it.flags, it.crtime)
        };
        assert_eq!(shown(&found), shown(&wanted), "{}", name.escape_ascii());
    }
    system
}

/// The log of a pool that OpenZFS left in the middle of its work.
#[test]
fn the_log_that_openzfs_left_is_replayed() {
    let Some(golden) = golden::pool("zil") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("zil.img");
    std::fs::copy(&golden.images()[0], &copy).unwrap();
    let pool = import(folder.path());
    for (name, wanted) in golden.manifests() {
        let system = mount(&pool, &name, plain());
        let mut differences = wanted.differences(&walk::describe(&system));
        // Where the child is mounted the manifest shows that one's root.
        differences.retain(|line| name.contains('/') || !line.starts_with("d: "));
        assert_eq!(differences, Vec::<String>::new(), "{name}");
        system.unmount().unwrap();
    }
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "gzil");
    }
}
