//! How long a scrub of a fragmented pool keeps a hard disk busy, in virtual time, beside reading the same bytes in
//! sequence. The clock stands still while any thread runs: what is measured is what the disk has to do, and whether it
//! is left waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use device::BlockDevice;
use millpond_torture::at_best::at_best_ns;
use millpond_torture::pool_model::real::populate;
use millpond_torture::random::Random;
use millpond_torture::real::new_file;
use millpond_torture::test_pool::{POOL, mount};
use millpond_torture::tunables::by_default;
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{Credentials, FileSystem, WriteOptions};
use sim::{DeviceModel, DeviceWork, MemoryDisk, PacedDisk, VirtualClock, WatchedDevice};

/// A fragmented pool with some room left: what was freed is filled again.
const FULL_BYTES: u64 = 640 << 20;
/// Far more than is needed: what was freed is mostly left as it is.
const ROOMY_BYTES: u64 = 2 << 30;
const BYTES_PER_SECOND: u64 = 150_000_000;
const SEEK_NS: u64 = 8_000_000;
const FLUSH_NS: u64 = 8_300_000;
/// Far less than what the pool holds.
const CACHE_BYTES: usize = 32 << 20;

/// Reads of a device: offset and length in bytes.
type Reads = Arc<Mutex<Vec<(u64, u64)>>>;

fn pond(clock: &Arc<VirtualClock>, disk_bytes: u64) -> Arc<Pool> {
    watched_pond(clock, disk_bytes).0
}

/// A pool, and what is read of its disk.
fn watched_pond(clock: &Arc<VirtualClock>, disk_bytes: u64) -> (Arc<Pool>, Reads) {
    let reads = Reads::default();
    let watch = {
        let reads = Arc::clone(&reads);
        move |offset, len| reads.lock().unwrap().push((offset, len as u64))
    };
    let memory = Arc::new(MemoryDisk::new(disk_bytes));
    let paced = Arc::new(PacedDisk::new(memory, clock, FLUSH_NS).with_reads());
    let disk: Arc<dyn BlockDevice> = Arc::new(WatchedDevice::reads(paced, watch));
    let device = NewDevice::Open("/simulated/disk".into(), disk);
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(populate());
    options.cache_bytes = CACHE_BYTES;
    (Pool::create(options).unwrap(), reads)
}

/// Block by block in the order of the trees.
fn narrow_scrub(pool: &Arc<Pool>, clock: &VirtualClock) -> Taken {
    let narrow = [
        (&pool::tunables::SCAN_AHEAD_BYTES, 0),
        (&pool::tunables::SCAN_MEMORY_BYTES, 1),
        (&pool::tunables::SCAN_RUN_BYTES, 1),
        (&pool::tunables::SCAN_GAP_BYTES, 0),
    ];
    narrow
        .iter()
        .for_each(|(tunable, value)| tunable.set(*value));
    let taken = scrub(pool, clock);
    narrow.iter().for_each(|(tunable, _)| tunable.reset());
    taken
}

fn write(system: &Arc<FileSystem>, name: &str, bytes: usize, random: &mut Random) {
    let file = new_file(system, system.root(), name.as_bytes());
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend(random.draw().to_le_bytes());
    }
    content.truncate(bytes);
    file.write(0, &content, WriteOptions::default()).unwrap();
}

/// Files of all sizes, a third of them removed, and others in the gaps, several times.
fn fragment(pool: &Arc<Pool>, rounds: usize, files: usize) {
    let system = mount(pool, POOL, false);
    let mut random = Random::new(7);
    let mut names: Vec<String> = Vec::new();
    for round in 0..rounds {
        for number in 0..files {
            let name = format!("{round}.{number}");
            let bytes = 4096 << random.below(9);
            write(&system, &name, bytes + random.below(bytes), &mut random);
            names.push(name);
        }
        pool.sync().unwrap();
        if round + 1 < rounds {
            for _ in 0..names.len() / 3 {
                let name = names.swap_remove(random.below(names.len()));
                let root = Credentials::root();
                system
                    .unlink(&root, system.root(), name.as_bytes())
                    .unwrap();
            }
            pool.sync().unwrap();
        }
    }
    system.unmount().unwrap();
    pool.sync().unwrap();
}

/// What a scrub took.
struct Taken {
    /// How many times as long as a sequential read of what was examined.
    ratio: f64,
    taken_ns: u64,
    work: DeviceWork,
}

fn scrub(pool: &Arc<Pool>, clock: &VirtualClock) -> Taken {
    let over = AtomicBool::new(false);
    let (before_ns, before) = (clock.now_ns(), clock.work());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !clock.is_running() {
                std::thread::yield_now();
            }
            pool.start_scrub().unwrap();
            while pool.scan().unwrap().unwrap().is_running() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            over.store(true, Ordering::SeqCst);
        });
        clock.run(|| over.load(Ordering::SeqCst));
    });
    let taken_ns = clock.now_ns() - before_ns;
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!(scan.errors, 0);
    let sequential_ns = scan.examined * 1_000_000_000 / BYTES_PER_SECOND;
    let ratio = taken_ns as f64 / sequential_ns as f64;
    let work = clock.work() - before;
    println!(
        "{} MiB: {:.2} s, in sequence {:.2} s: {ratio:.2} ({work:?})",
        scan.examined >> 20,
        taken_ns as f64 / 1e9,
        sequential_ns as f64 / 1e9
    );
    Taken {
        ratio,
        taken_ns,
        work,
    }
}

/// The walk goes from file to file, all over the disk; what it needs is read ahead in the order of places.
#[test]
fn a_walk_over_many_files_does_not_seek_for_each() {
    // Time moves when all threads wait, those of other tests too.
    let _turn = by_default();
    let clock = VirtualClock::new(DeviceModel::DISK);
    let pool = pond(&clock, 512 << 20);
    fragment(&pool, 3, 240);
    let ahead = scrub(&pool, &clock).work;
    pool::tunables::SCAN_AHEAD_BYTES.set(0);
    let in_order = scrub(&pool, &clock).work;
    pool::tunables::SCAN_AHEAD_BYTES.reset();
    pool.export().unwrap();
    assert!(2 * ahead.seeks < in_order.seeks, "{ahead:?} {in_order:?}");
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::*;

        #[test]
        #[ignore = "sim: a minute"]
        fn a_scrub_of_a_fragmented_pool_follows_the_disk() {
            // Time moves when all threads wait, those of other tests too.
            let _turn = by_default();
            let clock = VirtualClock::new(DeviceModel::DISK);
            let pool = pond(&clock, FULL_BYTES);
            fragment(&pool, 6, 400);
            let sorted = scrub(&pool, &clock).ratio;
            let unsorted = narrow_scrub(&pool, &clock).ratio;
            pool.export().unwrap();
            assert!(sorted <= 1.5, "{sorted:.2}");
            assert!(
                unsorted > 2.0 * sorted,
                "{unsorted:.2}: the pool is not fragmented"
            );
        }

        #[test]
        #[ignore = "sim: a minute"]
        fn a_scrub_of_a_pool_full_of_holes_passes_over_them() {
            // Time moves when all threads wait, those of other tests too.
            let _turn = by_default();
            let clock = VirtualClock::new(DeviceModel::DISK);
            let (pool, reads) = watched_pond(&clock, ROOMY_BYTES);
            fragment(&pool, 6, 400);
            let scrubbed = scrub(&pool, &clock);
            // What is there, block by block.
            reads.lock().unwrap().clear();
            narrow_scrub(&pool, &clock);
            let at_best_ns = at_best_ns(&reads.lock().unwrap(), BYTES_PER_SECOND, SEEK_NS);
            println!("at best {:.2} s", at_best_ns as f64 / 1e9);
            pool.export().unwrap();
            // Between the blocks is nearly as much again: reading along, or seeking, takes more than half as long as
            // reading them. No order does better, and the walk has to find them first.
            assert!(scrubbed.taken_ns as f64 <= 1.1 * at_best_ns as f64);
            assert!(scrubbed.ratio <= 1.8, "{:.2}", scrubbed.ratio);
        }
    }
}
