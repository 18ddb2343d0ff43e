//! Bars of behaviour under load that are counted rather than timed: rolling back and listing, and
//! many readers of one file.

use base::metrics::{Value, flow, registry};
use device::BlockDevice;
use dsl::tasks::{CreateDataset, Rollback, Snapshot};
use format::ObjectSetKind;
use millpond_torture::forest::real::populate;
use millpond_torture::laboratory::{Laboratory, POOL, mount};
use pool::{NewDevice, Pool};
use posix::{Credentials, FileType, NewNode, OpenOptions, WriteOptions};
use sim::SimulatedDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The registry is the process's: these tests must not run beside each other.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct Pond {
    disk: Arc<SimulatedDisk>,
    laboratory: Laboratory,
}

fn pond(bytes: u64) -> Pond {
    let disk = Arc::new(SimulatedDisk::new(bytes, 1));
    let device = Arc::clone(&disk) as Arc<dyn BlockDevice>;
    let device = NewDevice::Open("/simulated/disk".into(), device);
    let laboratory = Laboratory::create(vec![device]).unwrap();
    Pond { disk, laboratory }
}

/// Heads, each with a snapshot `@start`.
fn heads(pool: &Arc<Pool>, count: usize) -> Vec<String> {
    let paths: Vec<String> = (0..count).map(|at| format!("{POOL}/head-{at}")).collect();
    for path in &paths {
        let create = CreateDataset {
            path: path.clone(),
            kind: ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: Some(populate()),
        };
        pool.dsl().run(create).unwrap();
    }
    let names = paths.iter().map(|path| format!("{path}@start")).collect();
    let snapshot = Snapshot {
        names,
        properties: Vec::new(),
    };
    pool.dsl().run(snapshot).unwrap();
    paths
}

fn file(name: &str) -> (NewNode, OpenOptions, Vec<u8>) {
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    (node, options, name.as_bytes().to_vec())
}

/// Changes a head and rolls it back.
fn roll_back(pool: &Arc<Pool>, path: &str) {
    let system = mount(pool, path, false);
    let (node, options, name) = file("passing");
    let root = system.root();
    let created = system.create(&Credentials::root(), root, &name, &node, options);
    drop(created.unwrap());
    system.unmount().unwrap();
    let rollback = Rollback {
        path: path.to_owned(),
        snapshot: Some("start".to_owned()),
    };
    pool.dsl().run(rollback).unwrap();
}

/// What `zfs list` and `zfs get` ask for.
fn list(pool: &Arc<Pool>, paths: &[String]) {
    for path in paths {
        let Ok(head) = pool.dsl().head(path) else {
            continue;
        };
        // A head that is being rolled back may refuse; it is listed the next time.
        let _size = head.number_property("recordsize", true, 0);
        let _snapshots = head.snapshots().map(|found| found.len());
        let _used = head.phys();
    }
}

/// Every queue of the process: name, capacity, highest depth, and the sum of all pushes.
fn queues() -> (Vec<(String, i64, i64)>, u64) {
    let samples = registry().snapshot();
    let level = |name: &str| {
        let sample = samples.iter().find(|sample| sample.name == name);
        match sample.map(|sample| &sample.value) {
            Some(Value::Gauge { high_water, .. }) => *high_water,
            _ => 0,
        }
    };
    let mut found = Vec::new();
    let mut pushes = 0;
    for sample in samples
        .iter()
        .filter(|sample| sample.name.starts_with("queue."))
    {
        if let Some(queue) = sample.name.strip_suffix(".capacity") {
            let depth = level(&format!("{queue}.depth"));
            found.push((queue.to_owned(), level(&sample.name), depth));
        }
        if let Value::Counter(count) = sample.value
            && sample.name.ends_with(".pushed")
        {
            pushes += count;
        }
    }
    (found, pushes)
}

fn count(name: &str) -> u64 {
    let samples = registry().snapshot();
    let sample = samples.into_iter().find(|sample| sample.name == name);
    match sample.map(|sample| sample.value) {
        Some(Value::Counter(count)) => count,
        _ => 0,
    }
}

fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let word = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok());
    word.unwrap_or(0)
}

/// One tenth of a storm.
#[derive(Clone, Copy, Debug, Default)]
struct Tenth {
    seconds: f64,
    txg_bytes: u64,
    resident_pages: u64,
}

/// Rolls heads back, one after the other, while another thread lists all of them without end.
fn storm(pond: &Pond, paths: &[String], rollbacks: usize) -> (Vec<Tenth>, usize) {
    let pool = &pond.laboratory.pool;
    let over = AtomicBool::new(false);
    let listings = AtomicU64::new(0);
    let mut tenths = Vec::new();
    let mut most = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                list(pool, paths);
                listings.fetch_add(1, Ordering::Relaxed);
            }
        });
        for tenth in 0..10 {
            let (start, bytes) = (Instant::now(), flow().txg.get());
            for at in 0..rollbacks / 10 {
                let number = tenth * (rollbacks / 10) + at;
                roll_back(pool, &paths[number % paths.len()]);
                most = most.max(pool.dsl().datasets_in_core());
            }
            pond.disk.forget_log();
            tenths.push(Tenth {
                seconds: start.elapsed().as_secs_f64(),
                txg_bytes: flow().txg.get() - bytes,
                resident_pages: resident_pages(),
            });
        }
        over.store(true, Ordering::Relaxed);
    });
    println!(
        "{} listings, at most {most} datasets in the core",
        listings.into_inner()
    );
    (tenths, most)
}

fn storm_holds_its_bars(heads_count: usize, rollbacks: usize) {
    let _alone = ALONE.lock();
    let pond = pond(1 << 30);
    let pool = &pond.laboratory.pool;
    let paths = heads(pool, heads_count);
    let before = queues().1;
    let (tenths, most) = storm(&pond, &paths, rollbacks);
    for Tenth {
        seconds,
        txg_bytes,
        resident_pages,
    } in &tenths
    {
        println!("{seconds:.3} s, {txg_bytes} bytes in txgs, {resident_pages} resident pages");
    }
    // E1: no queue was ever deeper than it says.
    for (queue, capacity, depth) in queues().0 {
        assert!(depth <= capacity, "{queue}: {depth} of {capacity}");
    }
    println!("{} entries were queued", queues().1 - before);
    // E3: one live copy of each head and snapshot; the pool's own; and as many again that a reader
    // or the txg in flight may still hold.
    let identities = 2 * heads_count + 8;
    assert!(
        most <= 2 * identities,
        "{most} datasets for {identities} identities"
    );
    // E4 wants the last rollbacks to cost what the first did. Logs of space maps grow until they are
    // flushed, so the bytes swing; what must not be is growth without end.
    let (early, late) = (tenths[1], tenths[9]);
    let ratio = late.txg_bytes as f64 / early.txg_bytes as f64;
    assert!(
        ratio <= 3.0,
        "bytes of late rollbacks: {ratio:.2} of early ones"
    );
    // E7: listing leaves nothing behind.
    pool.engine().unwrap().wait_synced(None).unwrap();
    let before = (
        queues().1,
        count("dmu.dirty_entries"),
        pool.dsl().datasets_in_core(),
    );
    for _ in 0..50 {
        list(pool, &paths);
    }
    let after = (
        queues().1,
        count("dmu.dirty_entries"),
        pool.dsl().datasets_in_core(),
    );
    assert_eq!(before, after, "what listing left behind");
    pond.laboratory.export().unwrap();
}

#[test]
fn rolling_back_under_listings_holds_its_bars() {
    storm_holds_its_bars(8, 200);
}

/// Waits of all lock classes for which threads stood in line, by class.
fn waits() -> Vec<(String, u64)> {
    let samples = registry().snapshot();
    let contended = samples.into_iter().filter_map(|sample| {
        let class = sample.name.strip_suffix(".contended")?.to_owned();
        match sample.value {
            Value::Counter(count) => Some((class, count)),
            _ => None,
        }
    });
    contended.collect()
}

/// So many threads read records of one file that is in the cache; answers waits a read by class.
fn readers_of_one_file(threads: u64, reads: u64) -> Vec<(String, f64)> {
    const BYTES: u64 = 8 << 20;
    let _alone = ALONE.lock();
    let pond = pond(512 << 20);
    let system = mount(&pond.laboratory.pool, POOL, false);
    let (node, options, name) = file("shared");
    let root = system.root();
    let (opened, _) = system
        .create(&Credentials::root(), root, &name, &node, options)
        .unwrap();
    let piece = vec![7; 1 << 20];
    for offset in (0..BYTES).step_by(piece.len()) {
        opened
            .write(offset, &piece, WriteOptions::default())
            .unwrap();
    }
    pond.laboratory
        .pool
        .engine()
        .unwrap()
        .wait_synced(None)
        .unwrap();
    let mut warm = vec![0; BYTES as usize];
    assert_eq!(opened.read(0, &mut warm).unwrap() as u64, BYTES);
    let before = waits();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let opened = &opened;
            scope.spawn(move || {
                let mut record = [0; 512];
                for number in 0..reads {
                    let place = (number * 17 + thread * 1021) % (BYTES / 512);
                    opened.read(place * 512, &mut record).unwrap();
                }
            });
        }
    });
    let all = (threads * reads) as f64;
    let change = waits().into_iter().map(|(class, after)| {
        let known = before.iter().find(|(name, _)| *name == class);
        let waited = after - known.map_or(0, |(_, before)| *before);
        (class, waited as f64 / all)
    });
    let found: Vec<_> = change.filter(|(_, rate)| *rate > 0.0).collect();
    drop(opened);
    system.unmount().unwrap();
    pond.laboratory.export().unwrap();
    found
}

/// No lock that belongs to the file, its dataset or the pool may make a reader wait, ever. The cache
/// still takes a lock a lookup, one of several by block, and a thread that loses the processor
/// while it holds one makes others wait: how often is printed, for it depends on the machine.
#[test]
fn readers_of_one_file_wait_for_no_lock_of_the_file() {
    let mut found = readers_of_one_file(64, 2_000);
    println!("waits a read: {found:?}");
    found.retain(|(class, _)| class != "lock.cache shard");
    assert_eq!(found, []);
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        #[test]
        #[ignore = "torture: 100,000 rollbacks"]
        fn a_hundred_thousand_rollbacks() {
            let count = std::env::var("MILLPOND_ROLLBACKS").ok();
            let count = count.and_then(|text| text.parse().ok());
            super::super::storm_holds_its_bars(128, count.unwrap_or(100_000));
        }
    }
}
