//! Crash points of the intent log: what a commit has acknowledged is there after any crash, whole,
//! and the pool is sound. Works on objects below the POSIX layer.

mod asynchronous;
mod bench;
mod copies;
mod cut_short;
mod devices;
mod out_of_use;
mod overtaken;
mod replay;
mod sides;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{ByteOrder, ObjectId};
use dmu::Object;
use dsl::tasks::{CreateDataset, DestroyHead, DestroySnapshots, Rollback, Snapshot};
use format::BlockPointer;
use format::intent_log::{Body, CloneRangeFields, Record, encode_record, kind};
use intent::{Completion, Entry, Replay, Scope};
use millpond_torture::random::Random;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{NewDevice, Pool};
use sim::{Fault, FaultKind, MemoryDisk, SimulatedDisk, Timeline, Times};
use vdev::VdevState;

use bench::*;
use devices::logged_object;

#[test]
fn what_one_thread_committed_survives() {
    explore(seed(1), 1, 40, 16);
}

#[test]
fn what_many_threads_committed_survives() {
    explore(seed(2), 6, 12, 16);
}

/// A log whose dataset is destroyed, or rolled back, before anybody replayed it, leaks nothing.
#[test]
fn a_log_that_is_never_replayed_is_freed() {
    let bench = Bench::new(7, 0);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    bench.write(&object, 1, false);
    bench.commit(object.id(), 1);
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 3, folder.path());
    // Imported and exported without a replay: it stays owed.
    for _ in 0..2 {
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let log = open_log(&test_pool);
        assert!(log.is_owed());
        let header = log.objects().intent_log_header();
        assert_ne!(header.log, BlockPointer::HOLE);
        drop(log);
        test_pool.export().unwrap();
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), POOL);
        }
    }
}

/// An export leaves no log, and loses nothing of it.
#[test]
fn an_export_ends_a_live_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "exported");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let devices = vec![NewDevice::Path(path)];
    let bench = Bench::on(devices, Vec::new(), Vec::new(), Timeline::new());
    let (object, version) = logged_object(&bench);
    bench.pool.export().unwrap();
    let (id, length) = (object.id(), LENGTHS[object.id().0 as usize % LENGTHS.len()]);
    drop((object, bench));
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let log = open_log(&test_pool);
    assert!(!log.is_owed());
    assert_eq!(log.objects().intent_log_header().log, BlockPointer::HOLE);
    let mut bytes = vec![0; length];
    let object = log.objects().object(id).unwrap();
    object.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, content(version, length));
    drop((object, log));
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

/// A head with a live log is rolled back or destroyed: nothing of the log is left, at any crash point.
#[test]
fn a_live_log_goes_with_its_head() {
    for destroys in [false, true] {
        let bench = Bench::new(16 + u64::from(destroys), 1);
        let dsl = bench.pool.dsl();
        let path = format!("{POOL}/child");
        let create = CreateDataset {
            path: path.clone(),
            kind: format::ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: Some(millpond_torture::pool_model::real::populate()),
        };
        dsl.run(create).unwrap();
        let names = vec![format!("{path}@before")];
        let properties = Vec::new();
        dsl.run(Snapshot { names, properties }).unwrap();
        let head = dsl.dataset(&path).unwrap();
        let log = bench.pool.intent_log(&head).unwrap().unwrap();
        let child = Bench {
            timeline: bench.timeline.clone(),
            disks: bench.disks.clone(),
            pool: Arc::clone(&bench.pool),
            test_pool: Mutex::new(TestPool::open(Arc::clone(&bench.pool), false)),
            log,
            acknowledged: Mutex::default(),
            synced: Mutex::default(),
        };
        let (object, mut version) = logged_object(&child);
        for _ in 0..5 {
            version += 1;
            child.write(&object, version, version % 2 == 0);
            child.commit(object.id(), version);
        }
        let first = bench.timeline.now();
        drop((object, head, child));
        if destroys {
            let names = vec![format!("{path}@before")];
            let defer = false;
            dsl.run(DestroySnapshots { names, defer }).unwrap();
            dsl.run(DestroyHead { path }).unwrap();
        } else {
            let snapshot = None;
            dsl.run(Rollback { path, snapshot }).unwrap();
        }
        for _ in 0..3 {
            bench.pool.sync().unwrap();
        }
        let last = bench.timeline.now();
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random::new(16);
        for point in 0..3 {
            let moment = match point {
                0 => u64::MAX,
                _ => first + random.draw() % (last - first + 1),
            };
            bench.crash(moment, random.draw(), folder.path());
            let test_pool = TestPool::import(folder.path(), false).unwrap();
            test_pool.export().unwrap();
            if let Some(zdb) = golden::Zdb::from_environment() {
                zdb.assert_clean(folder.path(), POOL);
            }
        }
    }
}

/// Commits of many threads share batches, and so flushes.
#[test]
fn commits_that_meet_share_flushes() {
    const THREADS: u64 = 16;
    const COMMITS: u64 = 30;
    // Those share a flush who come while one is under way: how long it takes must not be the machine's affair.
    let disk: Arc<dyn device::BlockDevice> =
        Arc::new(MemoryDisk::slow_to_flush(SIZE, Duration::from_millis(1)));
    let device = NewDevice::Open("/simulated/disk".into(), disk);
    let bench = Bench::on(vec![device], Vec::new(), Vec::new(), Timeline::new());
    bench.log.commit_all().unwrap();
    let objects: Vec<_> = (0..THREADS).map(|_| bench.create()).collect();
    let before = bench.log.statistics();
    std::thread::scope(|scope| {
        for object in &objects {
            let bench = &bench;
            scope.spawn(move || {
                for version in 1..=COMMITS {
                    bench.write(object, version, true);
                    bench.log.commit(object.id()).unwrap();
                }
            });
        }
    });
    let after = bench.log.statistics();
    println!("{before:?}\n{after:?}");
    let flushes = after.flushes - before.flushes;
    assert!(flushes < THREADS * COMMITS / 2, "{flushes} flushes");
    assert_eq!(after.fallbacks, before.fallbacks);
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        // Two halves, side by side.
        #[test]
        #[ignore = "sim: 400 crash points"]
        fn four_hundred_crash_points() {
            for run in 0..5 {
                explore(seed(1000) + run, 1 + run % 8, 60, 80);
            }
        }

        #[test]
        #[ignore = "sim: 400 crash points"]
        fn as_many_of_other_histories() {
            for run in 5..10 {
                explore(seed(1000) + run, 1 + run % 8, 60, 80);
            }
        }
    }
}
