//! What reading ahead brings to those who read in sequence, and costs the others.

use base::metrics::{Value, registry};
use base::random::{Rng, SeededRng};
use device::BlockDevice;
use millpond_torture::pool_model::real::populate;
use millpond_torture::test_pool::{POOL, TestPool, mount};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::WriteOptions;
use posix::{Credentials, DatasetProperties, FileSystem, FileType, NewNode, OpenFile, OpenOptions};
use sim::{DeviceModel, MemoryDisk, WatchedDevice};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The counters are the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Files pass through a quarter of it.
const CACHE_BYTES: usize = 128 << 20;
const RECORD: u64 = 128 << 10;

fn pond(model: Option<DeviceModel>) -> TestPool {
    const BYTES: u64 = 512 << 20;
    let disk = model.map_or_else(
        || MemoryDisk::new(BYTES),
        |model| MemoryDisk::paced(BYTES, model),
    );
    pond_on(Arc::new(disk))
}

fn pond_on(device: Arc<dyn BlockDevice>) -> TestPool {
    let device = NewDevice::Open("/simulated/disk".into(), device);
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(populate());
    options.cache_bytes = CACHE_BYTES;
    TestPool::open(Pool::create(options).unwrap(), false)
}

fn file(system: &Arc<FileSystem>, name: &[u8], bytes: u64) -> OpenFile {
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
    let root = system.root();
    let created = system.create(&Credentials::root(), root, name, &node, options);
    let (file, _) = created.unwrap();
    let random = SeededRng::new(bytes);
    let mut piece = vec![0; 1 << 20];
    for offset in (0..bytes).step_by(piece.len()) {
        random.fill(&mut piece);
        file.write(offset, &piece, WriteOptions::default()).unwrap();
    }
    file
}

fn sync(pond: &TestPool) {
    pond.pool.engine().unwrap().wait_synced(None).unwrap();
}

fn read_ahead(system: &Arc<FileSystem>, on: bool) {
    system.set_properties(DatasetProperties {
        read_ahead: on,
        ..system.properties()
    });
}

/// Blocks requested so far.
fn issued() -> u64 {
    counted("prefetch.issued")
}

fn counted(name: &str) -> u64 {
    let samples = registry().snapshot();
    let sample = samples.iter().find(|sample| sample.name == name);
    match sample.map(|sample| &sample.value) {
        Some(Value::Counter(count)) => *count,
        _ => 0,
    }
}

/// P3: what reading in sequence gains on a device that takes a while to answer.
#[test]
fn a_cold_sequential_read_is_three_times_as_fast() {
    const BYTES: u64 = 48 << 20;
    let _alone = ALONE.lock();
    let model = DeviceModel::SolidState {
        channels: 8,
        latency_ns: 2_000_000,
        bytes_per_second: 2_000_000_000,
    };
    let pond = pond(Some(model));
    let system = mount(&pond.pool, POOL, false);
    let files = [b"off", b"on "].map(|name| file(&system, name, BYTES));
    // Writing this pushes both out of the cache.
    let filler = file(&system, b"filler", BYTES);
    sync(&pond);
    let seconds = |file: &OpenFile, on: bool| {
        read_ahead(&system, on);
        let start = Instant::now();
        let mut record = vec![0; RECORD as usize];
        for offset in (0..BYTES).step_by(record.len()) {
            assert_eq!(file.read(offset, &mut record).unwrap(), record.len());
        }
        start.elapsed().as_secs_f64()
    };
    let (off, on) = (seconds(&files[0], false), seconds(&files[1], true));
    println!("off {off:.3} s, on {on:.3} s: {:.1} times", off / on);
    assert!(off >= 0.7, "the reads were cold");
    assert!(off / on >= 3.0, "{:.2}", off / on);
    drop((files, filler));
    system.unmount().unwrap();
    pond.export().unwrap();
}

/// Blocks are requested, then freed and their places given to others, then read.
#[test]
fn what_is_read_ahead_too_late_blames_no_device() {
    const BYTES: u64 = 2 << 20;
    const FILLER: u64 = 16 << 20;
    let _alone = ALONE.lock();
    let gate = Arc::new((Mutex::new(true), Condvar::new()));
    let watched = Arc::clone(&gate);
    let watch = move |_, _| {
        let name = std::thread::current().name().map(str::to_owned);
        if name.is_some_and(|name| name.starts_with("prefetch")) {
            let (is_open, opened) = &*watched;
            let is_open = is_open.lock().unwrap();
            drop(opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
    };
    let disk = MemoryDisk::new(64 << 20);
    let pond = pond_on(Arc::new(WatchedDevice::reads(Arc::new(disk), watch)));
    let system = mount(&pond.pool, POOL, false);
    let old = file(&system, b"old", BYTES);
    sync(&pond);
    let head = pond.pool.dsl().dataset(POOL).unwrap();
    let object = head.object_set().unwrap().object(old.object()).unwrap();
    (0..BYTES / RECORD).for_each(|block| object.forget_block(block));
    *gate.0.lock().unwrap() = false;
    let before = (issued(), counted("prefetch.failed"));
    object.prefetch(0, BYTES);
    assert_eq!(issued() - before.0, BYTES / RECORD);
    let filler = file(&system, b"filler", FILLER);
    for round in 0..8_u8 {
        let data = vec![round; 1 << 20];
        let random = SeededRng::new(u64::from(round));
        let mut piece = data.clone();
        for offset in (0..FILLER).step_by(piece.len()) {
            random.fill(&mut piece);
            filler
                .write(offset, &piece, WriteOptions::default())
                .unwrap();
        }
        for offset in (0..BYTES).step_by(data.len()) {
            old.write(offset, &data, WriteOptions::default()).unwrap();
        }
        sync(&pond);
    }
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let until = Instant::now() + Duration::from_secs(20);
    let failed = || counted("prefetch.failed") - before.1;
    while failed() < BYTES / RECORD && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(failed(), BYTES / RECORD, "their places are others' by now");
    let root = pond.pool.status().unwrap().root;
    assert_eq!(root.errors.checksum, 0);
    assert!(pond.pool.status().unwrap().errors.is_empty());
    drop((old, filler, object, head));
    system.unmount().unwrap();
    pond.export().unwrap();
}

/// How a thread moves through a file of so many records: the place of its read.
type Pattern = fn(thread: u64, number: u64, records: u64) -> u64;

const PATTERNS: [(&str, u64, Pattern); 3] = [
    ("random", 1, |_, number, records| {
        (number * 7919 + number / 13) % records
    }),
    ("strided", 1, |_, number, records| number * 8 % records),
    ("64 readers", 64, |thread, number, records| {
        (number * 17 + thread * 1021) % records
    }),
];

/// Reads 4 KiB records of one handle; how long that took.
fn read_in(file: &OpenFile, bytes: u64, reads: u64, threads: u64, pattern: Pattern) -> Duration {
    const LEN: u64 = 4096;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut record = [0; LEN as usize];
                for number in 0..reads / threads {
                    let place = pattern(thread, number, bytes / LEN);
                    file.read(place * LEN, &mut record).unwrap();
                }
            });
        }
    });
    start.elapsed()
}

const SHARED_BYTES: u64 = 24 << 20;

/// Has `read` look at a cached file of a pool in memory.
fn with_shared_file(read: impl FnOnce(&Arc<FileSystem>, &OpenFile)) {
    let _alone = ALONE.lock();
    let pond = pond(None);
    let system = mount(&pond.pool, POOL, false);
    let file = file(&system, b"shared", SHARED_BYTES);
    sync(&pond);
    read(&system, &file);
    drop(file);
    system.unmount().unwrap();
    pond.export().unwrap();
}

/// P2 by counts: nothing is read ahead for those who do not read in sequence.
#[test]
fn other_readers_cause_no_reading_ahead() {
    with_shared_file(|_, file| {
        for (name, threads, pattern) in PATTERNS {
            let before = issued();
            read_in(file, SHARED_BYTES, 20_000, threads, pattern);
            let found = issued() - before;
            assert!(found <= 20_000 / 64, "{name}: {found} blocks");
        }
    });
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        use super::super::*;

        /// P2 by time, which means something on an idle machine only.
        #[test]
        #[ignore = "torture: times of cached reads"]
        fn other_readers_pay_nothing_for_it() {
            with_shared_file(|system, file| {
                for (name, threads, pattern) in PATTERNS {
                    let mut times = [Vec::new(), Vec::new()];
                    for round in 0..60 {
                        let on = round % 2;
                        read_ahead(system, on == 1);
                        times[on].push(read_in(file, SHARED_BYTES, 64_000, threads, pattern));
                    }
                    let [off, on] = times.map(|mut times| {
                        times.sort_unstable();
                        times[times.len() / 2].as_secs_f64()
                    });
                    println!("{name}: off {off:.4} s, on {on:.4} s, rate {:.3}", off / on);
                    assert!(off / on >= 0.98, "{name}: {:.3}", off / on);
                }
            });
        }
    }
}
