//! What is left of destroyed file systems while it is freed in the background: a resilver does not forget it, and a
//! device that does not answer makes it wait, not the pool.

use dsl::PropertyValue;
use dsl::tasks::CreateDataset;
use millpond_torture::operation::{Operation, Place};
use millpond_torture::real;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{AttachOptions, ImportOptions, NewDevice, Selection};
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SIZE: u64 = 160 << 20;
const BLOCK: usize = 4096;
const DOOMED: &str = "torture/doomed";
/// Offset 0 of a vdev on its device.
const DATA_START: u64 = 4 << 20;

/// Tunables are the process's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Each txg frees next to nothing while it lives.
struct Slowly(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Slowly {
    fn begin() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        dsl::tunables::BACKGROUND_BLOCKS.set(1);
        Self(turn)
    }
}

impl Drop for Slowly {
    fn drop(&mut self) {
        dsl::tunables::BACKGROUND_BLOCKS.reset();
    }
}

fn named(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// A pool with a file system that was destroyed and of which most is still to be freed; where its root was on the
/// device.
fn with_a_destroyed_one(disk: &Arc<SimulatedDisk>) -> (TestPool, Vec<Range<u64>>) {
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let dsl = test_pool.pool.dsl();
    let create = CreateDataset {
        path: DOOMED.to_owned(),
        kind: format::ObjectSetKind::FileSystem,
        properties: vec![("recordsize".to_owned(), PropertyValue::Number(BLOCK as u64))],
        case_insensitive: false,
        populate: Some(millpond_torture::pool_model::real::populate()),
    };
    dsl.run(create).unwrap();
    let system = test_pool.system(DOOMED);
    let place = || named("file");
    real::apply(&system, &Operation::Create(place(), 0o644)).unwrap();
    let bytes: Vec<u8> = (0..60 * BLOCK).map(|at| (at / 7) as u8).collect();
    real::apply(&system, &Operation::Write(place(), 0, bytes, false)).unwrap();
    drop(system);
    test_pool.pool.sync().unwrap();
    test_pool.close_all();
    let root = dsl.head(DOOMED).unwrap().phys().unwrap().block_pointer;
    let on_device = |dva: format::Dva| {
        let start = DATA_START + dva.offset;
        start..start + dva.asize
    };
    let places = root.dvas().map(on_device).collect();
    dsl.destroy_head(DOOMED).unwrap();
    (test_pool, places)
}

fn is_queued(test_pool: &TestPool) -> bool {
    test_pool.pool.dsl().queued_trees().unwrap().is_some()
}

/// All that waits is freed, and nothing is lost by it.
fn end(test_pool: TestPool) {
    for _ in 0..1000 {
        if !is_queued(&test_pool) {
            break;
        }
        test_pool.pool.sync().unwrap();
    }
    assert!(!is_queued(&test_pool) && test_pool.pool.suspended().is_none());
    test_pool.export().unwrap();
}

fn judge(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

#[test]
fn a_resilver_does_not_end_before_what_was_destroyed_meanwhile_is_freed() {
    let slowly = Slowly::begin();
    let disks = [7, 8].map(|seed| Arc::new(SimulatedDisk::new(SIZE, seed)));
    let (test_pool, _) = with_a_destroyed_one(&disks[0]);
    assert!(is_queued(&test_pool));
    let pool = &test_pool.pool;
    let first = pool.config().root.leaves()[0].guid();
    let second = NewDevice::Open("/simulated/second".into(), Arc::clone(&disks[1]) as _);
    pool.attach_device(first, &second, &AttachOptions::default())
        .unwrap();
    pool.wait_scrub().unwrap();
    // The new device has everything now, so the other one may go.
    pool.detach_device(first).unwrap();
    test_pool.export().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disks[1].write_to_file(&image(folder.path(), "0")).unwrap();
    end(TestPool::import(folder.path(), false).unwrap());
    judge(folder.path());
    drop(slowly);
}

#[test]
fn what_is_to_be_freed_waits_for_its_device_and_nobody_else_does() {
    let slowly = Slowly::begin();
    let disk = Arc::new(SimulatedDisk::new(SIZE, 9));
    let (test_pool, places) = with_a_destroyed_one(&disk);
    assert!(is_queued(&test_pool));
    test_pool.export().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disk.write_to_file(&image(folder.path(), "0")).unwrap();
    for range in places {
        disk.inject(Fault {
            kind: FaultKind::ReadError,
            range,
            times: Times::Always,
        });
    }
    let mut options = ImportOptions::new(
        vec![folder.path().to_owned()],
        Selection::Name(POOL.to_owned()),
    );
    let inner = Arc::clone(&disk);
    options.between = Some(Arc::new(move |_| Arc::clone(&inner) as _));
    let test_pool = TestPool::import_as(&options).unwrap();
    let root = test_pool.root();
    real::apply(&root, &Operation::Create(named("other"), 0o644)).unwrap();
    drop(root);
    for _ in 0..3 {
        test_pool.pool.sync().unwrap();
    }
    assert!(is_queued(&test_pool) && test_pool.pool.dsl().waits_for_devices());
    assert_eq!(test_pool.pool.suspended(), None);
    disk.heal();
    end(test_pool);
    let folder = tempfile::tempdir().unwrap();
    disk.write_to_file(&image(folder.path(), "0")).unwrap();
    judge(folder.path());
    drop(slowly);
}
