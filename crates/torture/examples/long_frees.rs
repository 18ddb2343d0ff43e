//! What removing costs when it is much: the memory and the longest txg while a file of millions of blocks goes that a
//! snapshot has as well, and how the destruction of snapshots grows with their number.
//!
//! The snapshots' blocks are of 512 bytes, and their contents are kept nowhere: what is destroyed is never read, and it
//! is the pointers that count. A gigabyte in records of 128 KiB is 8,192 of them. Each has another checksum, so that
//! lists of them are as large on the disk as those of other data.
//!
//! `cargo run --profile fast -p millpond-torture --example long_frees -- write BLOCKS FOLDER`
//! `cargo run --profile fast -p millpond-torture --example long_frees -- remove FOLDER`
//! `cargo run --profile fast -p millpond-torture --example long_frees -- snapshots COUNT BLOCKS FOLDER`
//! `… -- make COUNT BLOCKS FOLDER` and `… -- destroy FOLDER` do its halves; a copy of the image serves several times.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::metrics::{Value, registry};
use device::{BlockDevice, DeviceError, DeviceKind, FileDevice};
use dsl::tasks::{DestroySnapshots, Snapshot};
use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::random::Random;
use millpond_torture::real::new_file;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{ImportOptions, NewDevice, Pool, Selection};
use posix::{Credentials, FileSystem, OpenFile, OpenOptions, WriteOptions};

const BLOCK: usize = 8192;
/// Bytes of each block that are not zero: too many to be kept in a pointer, few on the disk.
const FILLED: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match words.as_slice() {
        ["write", blocks, folder] => write_file(number(blocks), Path::new(folder)),
        ["remove", folder] => remove_file(Path::new(folder)),
        ["snapshots", count, blocks, folder] => {
            make_snapshots(number(count), number(blocks), Path::new(folder));
            destroy_snapshots(Path::new(folder));
        }
        ["make", count, blocks, folder] => {
            make_snapshots(number(count), number(blocks), Path::new(folder));
        }
        ["destroy", folder] => destroy_snapshots(Path::new(folder)),
        _ => println!(
            "usage: long_frees write BLOCKS FOLDER | remove FOLDER | snapshots COUNT BLOCKS FOLDER | \
             make COUNT BLOCKS FOLDER | destroy FOLDER"
        ),
    }
}

const SECTOR: usize = 512;
/// What a sector begins with whose contents nobody will read.
const FORGET: [u8; 16] = *b"not to be stored";

/// A sparse file that keeps no sector which begins with [`FORGET`].
struct Forgetful(Arc<dyn BlockDevice>);

impl BlockDevice for Forgetful {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut offset = offset;
        let forget = |sector: &[u8]| sector.starts_with(&FORGET);
        let sectors: Vec<&[u8]> = bytes.chunks(SECTOR).collect();
        for run in sectors.chunk_by(|one, other| forget(one) == forget(other)) {
            let length: usize = run.iter().map(|sector| sector.len()).sum();
            if !forget(run[0]) {
                self.0.write(offset, &run.concat())?;
            }
            offset += length as u64;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len)
    }

    fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    fn sector_size(&self) -> u32 {
        SECTOR as u32
    }

    fn kind(&self) -> DeviceKind {
        self.0.kind()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn failure(&self) -> Option<DeviceError> {
        self.0.failure()
    }

    fn clear_failure(&self) {
        self.0.clear_failure();
    }
}

/// A pool on a device, with numeric properties.
fn create(device: NewDevice, properties: &[(&str, u64)]) -> TestPool {
    let test_pool = TestPool::create(vec![device]).expect("the pool is made");
    let name = POOL.to_owned();
    let change = |&(name, value): &(&str, u64)| {
        let value = PropertyValue::Number(value);
        (name.to_owned(), PropertyChange::Set(value))
    };
    let changes = properties.iter().map(change).collect();
    let set = SetProperties { name, changes };
    test_pool
        .pool
        .dsl()
        .run(set)
        .expect("the properties are set");
    test_pool.renew_properties().expect("properties are read");
    test_pool
}

fn file(system: &FileSystem, name: &[u8]) -> OpenFile {
    new_file(system, system.root(), name)
}

/// Writes blocks `0..count` whose contents are not to be kept, no two the same.
fn fill_forgotten(file: &OpenFile, count: usize, random: &mut Random) {
    const AT_ONCE: usize = 2048;
    let mut bytes = vec![0; AT_ONCE.min(count) * SECTOR];
    for first in (0..count).step_by(AT_ONCE) {
        for sector in bytes.chunks_exact_mut(SECTOR) {
            let (begin, rest) = sector.split_at_mut(FORGET.len());
            begin.copy_from_slice(&FORGET);
            for word in rest[..FILLED].chunks_exact_mut(8) {
                word.copy_from_slice(&random.draw().to_ne_bytes());
            }
        }
        let some = &bytes[..AT_ONCE.min(count - first) * SECTOR];
        let at = (first * SECTOR) as u64;
        let written = file.write(at, some, WriteOptions::default());
        assert_eq!(written.expect("it is written"), some.len());
    }
}

/// Writes blocks `0..count`, each stored on its own.
fn fill(file: &OpenFile, count: usize, random: &mut Random) {
    const AT_ONCE: usize = 128;
    let mut bytes = vec![0; AT_ONCE * BLOCK];
    for first in (0..count).step_by(AT_ONCE) {
        let some = AT_ONCE.min(count - first);
        for block in bytes.chunks_exact_mut(BLOCK) {
            for word in block[..FILLED].chunks_exact_mut(8) {
                word.copy_from_slice(&random.draw().to_ne_bytes());
            }
        }
        let at = (first * BLOCK) as u64;
        let written = file.write(at, &bytes[..some * BLOCK], WriteOptions::default());
        assert_eq!(written.expect("it is written"), some * BLOCK);
    }
}

fn snapshot(pool: &Pool, name: &str) -> String {
    let full = format!("{POOL}@{name}");
    let names = vec![full.clone()];
    let properties = Vec::new();
    pool.dsl()
        .run(Snapshot { names, properties })
        .expect("a snapshot is taken");
    full
}

/// Bytes of memory that this process has now.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// CPU time that this process has used: what other programs take beside it does not count.
fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32)
}

/// What a gauge says now; the sum, where there are several.
fn gauge(name: &str) -> i64 {
    let samples = registry().snapshot();
    let found = samples.into_iter().filter(|sample| sample.name == name);
    found
        .map(|sample| match sample.value {
            Value::Gauge { level, .. } => level,
            Value::Counter(_) | Value::Histogram(_) => 0,
        })
        .sum()
}

/// The longest sync of an engine that is there, in seconds.
fn longest_sync() -> f64 {
    let samples = registry().snapshot();
    let found = samples
        .into_iter()
        .find(|sample| sample.name == "txg.sync_ns");
    match found.map(|sample| sample.value) {
        Some(Value::Histogram(times)) => times.max as f64 / 1e9,
        _ => 0.0,
    }
}

/// Watches the memory while `work` is done: idle before, the most while it lasted.
fn watched(work: impl FnOnce()) -> (u64, u64) {
    let idle = resident();
    let max = AtomicU64::new(idle);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                max.fetch_max(resident(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        work();
        over.store(true, Ordering::Relaxed);
    });
    (idle, max.into_inner())
}

/// Makes a pool with one file that a snapshot has as well.
fn write_file(blocks: usize, folder: &Path) {
    const SIZE: u64 = 256 << 30;
    let path = image(folder, "0");
    let image = std::fs::File::create(&path).expect("the image is made");
    image.set_len(SIZE).expect("the image has its length");
    let test_pool = create(NewDevice::Path(path), &[("recordsize", BLOCK as u64)]);
    let began = Instant::now();
    fill(
        &file(&test_pool.root(), b"large"),
        blocks,
        &mut Random::new(1),
    );
    snapshot(&test_pool.pool, "kept");
    println!("{blocks} blocks written in {:.0?}", began.elapsed());
    test_pool.export().expect("the pool is exported");
}

/// Removes the file and then the snapshot, in a process that has done nothing else: what it has when idle is not memory
/// that is left from writing.
fn remove_file(folder: &Path) {
    let test_pool = TestPool::import(folder, false).expect("the pool is imported");
    let pool = Arc::clone(&test_pool.pool);
    let system = test_pool.in_background(POOL);
    pool.sync().expect("it syncs");
    let root = Credentials::root();
    reported("the file removed", &pool, || {
        let began = Instant::now();
        let removed = system.unlink(&root, system.root(), b"large");
        drop(removed.expect("it is removed"));
        println!("unlink answered after {:.1?}", began.elapsed());
        while system.unlinked().expect("the list is read") != 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        pool.sync().expect("it syncs");
    });
    reported("the snapshot destroyed", &pool, || {
        let (names, defer) = (vec![format!("{POOL}@kept")], false);
        let destroyed = pool.dsl().run(DestroySnapshots { names, defer });
        destroyed.expect("it is destroyed");
        while pool.dsl().has_background_frees().expect("lists are read") {
            pool.sync().expect("it syncs");
        }
    });
    system.unmount().expect("it is unmounted");
    drop((system, pool));
    test_pool.export().expect("the pool is exported");
}

/// Prints what some work cost.
fn reported(what: &str, pool: &Pool, work: impl FnOnce()) {
    const MIB: u64 = 1 << 20;
    let engine = pool.engine().expect("it is open for writing");
    let (before, cached) = (engine.synced_txg().0, gauge("cache.bytes"));
    let began = Instant::now();
    let (idle, max) = watched(work);
    println!(
        "{what} in {:.1?} and {} txgs; longest sync {:.2} s so far; memory {} MiB before, at most {} MiB above; \
         the cache of blocks grew by {} MiB",
        began.elapsed(),
        engine.synced_txg().0 - before,
        longest_sync(),
        idle / MIB,
        (max - idle) / MIB,
        (gauge("cache.bytes") - cached) / MIB as i64,
    );
}

/// What the pools with many snapshots may keep of blocks: otherwise what is measured is how large the machine is.
const CACHE: usize = 512 << 20;

/// Imports the pool of a folder.
fn import(folder: &Path) -> TestPool {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.to_owned()));
    options.force = true;
    options.cache_bytes = CACHE;
    options.between = Some(Arc::new(|device| Arc::new(Forgetful(device))));
    TestPool::import_as(&options).expect("the pool is imported")
}

fn snapshot_names(pool: &Pool) -> Vec<String> {
    let head = pool.dsl().head(POOL).expect("the file system is there");
    let snapshots = head.snapshots().expect("the snapshots are listed");
    let name = |snapshot: &Arc<dsl::Dataset>| snapshot.name().expect("its name is read");
    snapshots.iter().map(name).collect()
}

/// Makes a pool with snapshots that have so many blocks each of their own, or goes on with one that was left; it is
/// exported.
fn make_snapshots(count: usize, blocks: usize, folder: &Path) {
    const SIZE: u64 = 64 << 30;
    const OFF: u64 = 2;
    let path = image(folder, "0");
    if !path.exists() {
        let device = FileDevice::create(&path, SIZE).expect("the image is made");
        let properties = [("recordsize", SECTOR as u64), ("compression", OFF)];
        let test_pool = create(NewDevice::Open(path, Arc::new(device)), &properties);
        let system = test_pool.root();
        drop(file(&system, b"file"));
        drop(system);
        test_pool.export().expect("the pool is exported");
    }
    let test_pool = import(folder);
    let system = test_pool.root();
    let root = Credentials::root();
    let found = system.lookup(&root, system.root(), b"file");
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let file = system.open(&root, found.expect("it is there").object, options);
    let file = file.expect("it is opened");
    let made = snapshot_names(&test_pool.pool).len();
    let mut random = Random::new(made as u64 + 1);
    let (began, cpu) = (Instant::now(), cpu_time());
    for index in made..count {
        fill_forgotten(&file, blocks, &mut random);
        snapshot(&test_pool.pool, &format!("s{index:05}"));
    }
    fill_forgotten(&file, blocks, &mut random);
    test_pool.pool.sync().expect("it syncs");
    println!(
        "{} snapshots of {blocks} blocks each made in {:.0?}, {:.0?} of CPU time; longest sync {:.2} s",
        count - made,
        began.elapsed(),
        cpu_time() - cpu,
        longest_sync(),
    );
    drop((file, system));
    test_pool.export().expect("the pool is exported");
}

/// Destroys all snapshots of the pool in a folder at once.
fn destroy_snapshots(folder: &Path) {
    const MIB: u64 = 1 << 20;
    let test_pool = import(folder);
    let pool = Arc::clone(&test_pool.pool);
    pool.sync().expect("it syncs");
    let names = snapshot_names(&pool);
    let count = names.len();
    let txg = || pool.engine().map_or(0, |engine| engine.synced_txg().0);
    let (began, cpu, before) = (Instant::now(), cpu_time(), txg());
    let mut answered = (Duration::ZERO, Duration::ZERO);
    let (idle, max) = watched(|| {
        let defer = false;
        let destroyed = pool.dsl().run(DestroySnapshots { names, defer });
        destroyed.expect("they are destroyed");
        answered = (began.elapsed(), cpu_time() - cpu);
        let waits = || pool.dsl().has_background_frees();
        while waits().expect("the lists are read") {
            pool.sync().expect("it syncs");
        }
    });
    println!(
        "{count} snapshots destroyed in {:.2?} ({:.2?} of CPU time), all blocks free after {:.2?} ({:.2?}) and \
         {} txgs; longest sync {:.2} s; memory {} MiB idle, at most {} MiB above",
        answered.0,
        answered.1,
        began.elapsed(),
        cpu_time() - cpu,
        txg() - before,
        longest_sync(),
        idle / MIB,
        (max - idle) / MIB,
    );
    drop(pool);
    test_pool.export().expect("the pool is exported");
}
