//! A pool of a hundred terabytes on sparse files whose free space is in many million pieces: what it takes to have it
//! open. And scattered writes into a huge sparse file.
//!
//! The pieces come to be by taking space out of use as an allocator would, with nothing that owns it (so a check of
//! the pool calls it leaked); a txg writes it to the logs and space maps like any other allocation.
//!
//! `cargo run --profile fast -p millpond-torture --example huge_pool -- make TERABYTES SEGMENTS METASLABS FOLDER`
//! `cargo run --profile fast -p millpond-torture --example huge_pool -- open FOLDER`
//! `cargo run --profile fast -p millpond-torture --example huge_pool -- scattered WRITES RECORD FOLDER`
//!
//! METASLABS: so many of each vdev's have the segments, in equal parts; 0: all. RECORD: the record size, bytes.
//! `MILLPOND_TUNABLES` sets limits, as for the daemon.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::Path;
use std::time::{Duration, Instant};

use base::metrics::{Value, registry};
use dsl::PropertyValue;
use millpond_torture::fragments;
use millpond_torture::random::Random;
use millpond_torture::real::new_file;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{Credentials, FileSystem, OpenFile, WriteOptions};

/// The daemon's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TERABYTE: u64 = 1_000_000_000_000;
/// What common file systems allow as the size of a file.
const FILE_MAX: u64 = 15 << 40;
/// Segments made in one txg.
const SEGMENTS_PER_TXG: u64 = 1 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let _limits = millpond_torture::tunables::given();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match words.as_slice() {
        ["make", terabytes, segments, metaslabs, folder] => {
            let shape = Shape {
                bytes: number(terabytes) * TERABYTE,
                segments: number(segments),
                metaslabs: number(metaslabs),
            };
            shape.make(Path::new(folder));
        }
        ["open", folder] => open(Path::new(folder)),
        ["scattered", writes, record, folder] => {
            scattered(number(writes), number(record), Path::new(folder));
        }
        _ => println!(
            "usage: huge_pool make TERABYTES SEGMENTS METASLABS FOLDER | open FOLDER | scattered WRITES RECORD FOLDER"
        ),
    }
}

/// What this process takes, as the kernel says: at most so far, and now, in MiB.
fn memory() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) >> 10
    };
    format!("memory {} MiB, at most {} MiB", of("VmRSS"), of("VmHWM"))
}

fn loaded(pool: &Pool) -> String {
    let loaded = pool.loaded_space();
    format!(
        "{} metaslabs loaded with {} segments in {} KiB, {} loads",
        loaded.metaslabs,
        loaded.segments,
        loaded.bytes >> 10,
        loaded.loads
    )
}

fn sample(name: &str) -> Option<Value> {
    let samples = registry().snapshot();
    let found = samples.into_iter().find(|sample| sample.name == name);
    found.map(|sample| sample.value)
}

/// A count or a level.
fn count(name: &str) -> i64 {
    match sample(name) {
        Some(Value::Gauge { level, .. }) => level,
        Some(Value::Counter(count)) => count.cast_signed(),
        Some(Value::Histogram(_)) | None => 0,
    }
}

/// The same, in MiB.
fn mib(name: &str) -> i64 {
    count(name) >> 20
}

/// The longest sync of an engine that is there, in seconds.
fn longest_sync() -> f64 {
    match sample("txg.sync_ns") {
        Some(Value::Histogram(times)) => times.max as f64 / 1e9,
        Some(Value::Counter(_) | Value::Gauge { .. }) | None => 0.0,
    }
}

fn say(pool: &Pool, what: &str, began: Instant) {
    let buffers = sys::buffer_pool_stats();
    println!(
        "{what}: {:.1?}; {}, of these {} in the cache, {} in buffers, {} kept for others; {} dirty; {} ranges in logs \
         only; {}; longest sync {:.2} s",
        began.elapsed(),
        memory(),
        mib("cache.bytes"),
        buffers.live_bytes >> 20,
        buffers.kept_bytes >> 20,
        mib("dirty.bytes"),
        count("space.unflushed_ranges"),
        loaded(pool),
        longest_sync()
    );
}

/// What is made.
struct Shape {
    bytes: u64,
    segments: u64,
    /// Metaslabs of a vdev that have them; 0: all.
    metaslabs: u64,
}

impl Shape {
    fn make(&self, folder: &Path) {
        let began = Instant::now();
        // Nothing is in a hurry here; what waits in the logs takes memory.
        space::tunables::FLUSHED_PER_TXG_COUNT.set(1 << 20);
        let files = self.bytes.div_ceil(FILE_MAX);
        let vdevs = (0..files).map(|index| {
            let path = image(folder, &index.to_string());
            let file = std::fs::File::create(&path).expect("the image is made");
            file.set_len(self.bytes / files / (1 << 20) * (1 << 20))
                .expect("the image has its length");
            NewVdev::Single(NewDevice::Path(path))
        });
        let mut options = CreateOptions::new(POOL, vdevs.collect());
        options.ashift = Some(12);
        options.root.populate = Some(millpond_torture::pool_model::real::populate());
        let test_pool = TestPool::open(Pool::create(options).expect("the pool is made"), false);
        let pool = &test_pool.pool;
        let mut extents = fragments::extents(pool, self.segments, self.metaslabs).peekable();
        // What changes space only does not bring maps up to date, and then the logs keep it all in memory.
        let written = file(&test_pool.root(), b"written");
        let mut made = 0_u64;
        while extents.peek().is_some() {
            let piece = written.write(0, &made.to_ne_bytes(), WriteOptions::default());
            piece.expect("it is written");
            let some = extents.by_ref().take(SEGMENTS_PER_TXG as usize);
            made += pool.take_space(some).expect("space is taken");
            pool.sync().expect("it syncs");
            say(pool, &format!("{made} made"), began);
        }
        drop((extents, written));
        test_pool.export().expect("the pool is exported");
        println!("exported after {:.1?}; {}", began.elapsed(), memory());
    }
}

fn file(system: &FileSystem, name: &[u8]) -> OpenFile {
    new_file(system, system.root(), name)
}

fn fill(random: &mut Random, bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.draw().to_ne_bytes());
    }
}

/// Opens the pool, leaves it alone, and then works with it: files made and removed, as long as it takes for what is
/// freed to be free again.
fn open(folder: &Path) {
    println!("at first {}", memory());
    let began = Instant::now();
    let test_pool = TestPool::import(folder, false).expect("the pool is imported");
    let system = test_pool.root();
    let pool = &test_pool.pool;
    say(pool, "imported", began);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(12));
    say(pool, "idle", began);
    let root = Credentials::root();
    let mut random = Random::new(3);
    let mut bytes = vec![0; 128 << 10];
    let began = Instant::now();
    for round in 0..20 {
        for index in 0..500 {
            let name = format!("{round}-{index}");
            fill(&mut random, &mut bytes);
            let file = file(&system, name.as_bytes());
            let written = file.write(0, &bytes, WriteOptions::default());
            written.expect("it is written");
        }
        for index in (0..500).filter(|index| index % 3 != 0) {
            let name = format!("{round}-{index}");
            let removed = system.unlink(&root, system.root(), name.as_bytes());
            drop(removed.expect("it is removed"));
        }
        pool.sync().expect("it syncs");
    }
    say(
        pool,
        "10,000 files written, 6,660 removed, in 20 txgs",
        began,
    );
    let began = Instant::now();
    drop(system);
    test_pool.close_all();
    test_pool.export().expect("the pool is exported");
    println!("exported: {:.1?}; {}", began.elapsed(), memory());
}

/// Pieces of 4 KiB all over a sparse file of a terabyte.
fn scattered(writes: u64, record: u64, folder: &Path) {
    let path = image(folder, "0");
    let image = std::fs::File::create(&path).expect("the image is made");
    image.set_len(64 << 30).expect("the image has its length");
    let vdev = NewVdev::Single(NewDevice::Path(path));
    let mut options = CreateOptions::new(POOL, vec![vdev]);
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    options.root.properties = vec![("recordsize".to_owned(), PropertyValue::Number(record))];
    let test_pool = TestPool::open(Pool::create(options).expect("the pool is made"), false);
    let system = test_pool.root();
    let file = file(&system, b"sparse");
    let pool = &test_pool.pool;
    pool.sync().expect("it syncs");
    let mut random = Random::new(4);
    let mut bytes = vec![0; 4096];
    let began = Instant::now();
    say(pool, "before", began);
    for _ in 0..writes {
        fill(&mut random, &mut bytes);
        let place = random.draw() % (TERABYTE / 4096) * 4096;
        let written = file.write(place, &bytes, WriteOptions::default());
        written.expect("it is written");
    }
    say(pool, "written", began);
    pool.sync().expect("it syncs");
    say(pool, "synced", began);
    std::thread::sleep(Duration::from_secs(30));
    say(pool, "half a minute later", began);
    drop((file, system));
    test_pool.export().expect("the pool is exported");
    println!("exported: {}", memory());
}
