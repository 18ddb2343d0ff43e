//! Reads of what lies on devices that are away, by front ends that can ask again: they wait, as `failmode` says, and
//! for nothing else.

use base::random::{Rng, SeededRng};
use dsl::property::PropertyValue;
use millpond_torture::test_pool::{POOL, TestPool};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{
    AwaitedDevices, Credentials, Errno, FileType, NewNode, OpenFile, OpenOptions, PosixError,
    WriteOptions,
};
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = 96 << 20;
/// Labels and what is between them.
const LABELS: u64 = 4 << 20;

/// A pool that caches nothing, and an open file on it.
struct Rig {
    disk: Arc<SimulatedDisk>,
    test_pool: TestPool,
    file: OpenFile,
    content: Vec<u8>,
}

fn options() -> OpenOptions {
    OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    }
}

impl Rig {
    fn new() -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, 1));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        let mut create = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
        create.root.populate = Some(millpond_torture::pool_model::real::populate());
        create.cache_bytes = 1;
        let test_pool = TestPool::create_as(create).unwrap();
        let mut content = vec![0; 1 << 20];
        SeededRng::new(1).fill(&mut content);
        let node = NewNode {
            file_type: FileType::Regular,
            permissions: 0o644,
            umask: 0,
            device: (0, 0),
        };
        let (system, root) = (test_pool.root(), Credentials::root());
        let made = system.create(&root, system.root(), b"file", &node, options());
        let (file, _) = made.unwrap();
        file.write(0, &content, WriteOptions::default()).unwrap();
        drop(system);
        test_pool.pool.sync().unwrap();
        Self {
            disk,
            test_pool,
            file,
            content,
        }
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.test_pool.pool
    }

    /// Reads the file as a front end does that can do it again.
    fn read(&self) -> (Result<Vec<u8>, PosixError>, Option<AwaitedDevices>) {
        posix::repeatable(|| self.read_once())
    }

    fn read_once(&self) -> Result<Vec<u8>, PosixError> {
        let mut bytes = vec![0; self.content.len()];
        self.file.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn reads_well(&self) -> bool {
        let (read, awaited) = self.read();
        read.is_ok_and(|bytes| bytes == self.content) && awaited.is_none()
    }
}

fn is_io_error(read: &Result<Vec<u8>, PosixError>) -> bool {
    read.as_ref()
        .is_err_and(|error| error.errno() == Errno::EIO)
}

#[test]
fn what_lies_on_a_disk_that_is_away_is_waited_for() {
    let rig = Rig::new();
    assert!(rig.reads_well());
    // Without a front end that asks again, nobody waits, and nothing is suspended.
    let away = Fault::everywhere(FaultKind::ReadError, Times::Always);
    rig.disk.inject(away);
    for _ in 0..3 {
        assert!(is_io_error(&rig.read_once()));
    }
    assert!(rig.pool().suspended().is_none());
    let (read, awaited) = rig.read();
    assert!(is_io_error(&read));
    let called = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&called);
    let awaited = awaited.expect("it is waited for");
    awaited.leave(1, move || own.store(true, Ordering::SeqCst));
    assert!(rig.pool().suspended().is_some());
    assert!(rig.pool().check_running().is_err());
    let refused = rig.pool().clear(&|_| true);
    assert!(refused.is_err(), "it is away still");
    assert!(!called.load(Ordering::SeqCst));
    rig.disk.heal();
    rig.pool().clear(&|_| true).unwrap();
    assert!(called.load(Ordering::SeqCst));
    assert!(rig.pool().suspended().is_none());
    assert!(rig.reads_well());
    let Rig {
        test_pool, file, ..
    } = rig;
    drop(file);
    test_pool.close_all();
    test_pool.export().unwrap();
}

/// A place that cannot be read, or gives other bytes, on a disk that is there is an error at once.
#[test]
fn what_a_disk_cannot_give_that_is_there_is_not_waited_for() {
    for kind in [FaultKind::ReadError, FaultKind::RottenRead] {
        let rig = Rig::new();
        rig.disk.inject(Fault {
            kind: kind.clone(),
            range: LABELS..SIZE - LABELS,
            times: Times::Always,
        });
        for _ in 0..3 {
            let (read, awaited) = rig.read();
            assert!(is_io_error(&read), "{kind:?}");
            assert!(awaited.is_none(), "{kind:?}");
        }
        assert!(rig.pool().suspended().is_none(), "{kind:?}");
        rig.disk.heal();
        assert!(rig.reads_well(), "{kind:?}");
    }
}

#[test]
fn nothing_is_waited_for_where_failmode_says_so() {
    let rig = Rig::new();
    let failmode = |value| vec![("failmode".to_owned(), PropertyValue::Number(value))];
    rig.pool().set_properties(failmode(1)).unwrap();
    rig.disk
        .inject(Fault::everywhere(FaultKind::ReadError, Times::Always));
    for _ in 0..3 {
        let (read, awaited) = rig.read();
        assert!(is_io_error(&read) && awaited.is_none());
    }
    assert!(rig.pool().suspended().is_none());
    rig.disk.heal();
    rig.pool().clear(&|_| true).unwrap();
    assert!(rig.reads_well());
    // As `panic` counts as `wait`.
    rig.pool().set_properties(failmode(2)).unwrap();
    rig.disk
        .inject(Fault::everywhere(FaultKind::ReadError, Times::Always));
    assert!((0..3).any(|_| rig.read().1.is_some()));
    assert!(rig.pool().suspended().is_some());
    assert!(rig.pool().abandon().is_some());
    let (read, awaited) = rig.read();
    assert!(is_io_error(&read) && awaited.is_none(), "it is given up");
}
