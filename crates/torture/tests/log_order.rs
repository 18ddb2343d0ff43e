//! What one commit may carry to the medium, and what it may not leave behind.

use millpond_torture::operation::{Operation, Place};
use millpond_torture::real;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::NewDevice;
use posix::{
    AllocateMode, Credentials, FileSystem, FileType, OpenFile, OpenOptions, WriteOptions, XattrMode,
};
use sim::SimulatedDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SIZE: u64 = 96 << 20;

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

fn create(system: &FileSystem, name: &str) {
    real::apply(system, &Operation::Create(place(name), 0o644)).unwrap();
}

fn open(system: &FileSystem, name: &str) -> OpenFile {
    let root = Credentials::root();
    let found = system
        .lookup(&root, system.root(), name.as_bytes())
        .unwrap();
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    system.open(&root, found.object, options).unwrap()
}

/// A pool whose log is under way.
fn pond(disk: &SimulatedDisk) -> (TestPool, Arc<FileSystem>) {
    let device = NewDevice::Open("/simulated/disk".into(), Arc::new(disk.clone()));
    let test_pool = TestPool::create(vec![device]).unwrap();
    let system = test_pool.root();
    create(&system, "first");
    open(&system, "first").fsync().unwrap();
    test_pool.pool.sync().unwrap();
    (test_pool, system)
}

/// The file system after a power loss now.
fn after_power_loss(disk: &SimulatedDisk, check: impl FnOnce(&FileSystem)) {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    disk.crash(1).write_to_file(&path).unwrap();
    let crashed = TestPool::import(folder.path(), false).unwrap();
    check(&crashed.system(POOL));
    crashed.export().unwrap();
}

/// Naming a file that had no name is in no record. Commits that asked before it, and are written after it, must not
/// bring later names without it.
#[test]
fn names_after_one_that_is_not_in_the_log_wait_for_it() {
    const THREADS: usize = 8;
    let disk = SimulatedDisk::new(SIZE, 5);
    let (test_pool, system) = pond(&disk);
    let files: Vec<OpenFile> = (0..THREADS)
        .map(|number| {
            create(&system, &format!("file{number}"));
            open(&system, &format!("file{number}"))
        })
        .collect();
    test_pool.pool.sync().unwrap();
    disk.hold_flushes(true);
    std::thread::scope(|scope| {
        for file in &files {
            let commit = || {
                file.write(0, b"something", WriteOptions::default())
                    .unwrap();
                file.fsync().unwrap();
            };
            scope.spawn(commit);
            // One after the other: the first are under way when the last ask.
            std::thread::sleep(Duration::from_millis(20));
        }
        let (root, top) = (Credentials::root(), system.root());
        let node = real::new_node(FileType::Regular, 0o644);
        let unnamed = system.create_unnamed(&root, top, &node, OpenOptions::default());
        let (unnamed, _) = unnamed.unwrap();
        let linked = system.link(&root, unnamed.object(), top, b"unlogged");
        linked.unwrap();
        create(&system, "later");
        disk.hold_flushes(false);
    });
    after_power_loss(&disk, |system| {
        let root = Credentials::root();
        let is_there = |name: &[u8]| system.lookup(&root, system.root(), name).is_ok();
        assert!(is_there(b"unlogged") || !is_there(b"later"), "later alone");
    });
    drop(files);
}

/// A value that goes from a file of its own into the attributes is never in neither: another file's commit takes the
/// removal along.
#[test]
fn an_attribute_that_moves_is_always_somewhere() {
    let disk = SimulatedDisk::new(SIZE, 5);
    let (_test_pool, system) = pond(&disk);
    let root = Credentials::root();
    create(&system, "holder");
    let holder = open(&system, "holder");
    let set = |value: &[u8]| {
        let object = holder.object();
        system.setxattr(&root, object, b"user.name", value, XattrMode::Either)
    };
    set(&[7; 60_000]).unwrap();
    holder.fsync().unwrap();
    set(b"small").unwrap();
    create(&system, "other");
    open(&system, "other").fsync().unwrap();
    after_power_loss(&disk, |system| {
        let holder = open(system, "holder").object();
        let value = system.getxattr(&root, holder, b"user.name");
        let value = value.expect("it was durable, and never removed");
        assert!(
            value == [7; 60_000] || value == b"small",
            "{} bytes",
            value.len()
        );
    });
}

/// Bytes that are appended while a range before them is freed or the file extended stay.
#[test]
fn appended_bytes_survive_allocations_beside_them() {
    let disk = SimulatedDisk::new(SIZE, 5);
    let (_test_pool, system) = pond(&disk);
    let (appender, other) = (open(&system, "first"), open(&system, "first"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = WriteOptions {
                append: true,
                ..WriteOptions::default()
            };
            for _ in 0..3000 {
                appender.write(0, &[0xFF; 700], options).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let size = || other.attributes().unwrap().size;
        while !done.load(Ordering::SeqCst) {
            let before = size();
            if before == 0 {
                continue;
            }
            other.allocate(AllocateMode::PunchHole, 0..before).unwrap();
            let mut byte = [0xFF];
            other.read(before, &mut byte).unwrap();
            assert_eq!(byte, [0xFF], "a byte behind the hole");
            let before = size();
            other.allocate(AllocateMode::Extend, 0..before + 1).unwrap();
            let after = size();
            assert!(after > before, "{after} bytes, not more than {before}");
        }
    });
}
