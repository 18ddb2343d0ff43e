//! Bars of fsync under load, on a simulated disk in virtual time: how long a commit takes against
//! F (8 KiB written into allocated space, and a flush), how many a flush serves, what waits for
//! locks, and what goes into the log. Threads, file systems and logs are the real ones.

use base::metrics::{Value, registry};
use device::BlockDevice;
use millpond_torture::random::Random;
use millpond_torture::real::new_node;
use millpond_torture::test_pool::{POOL, TestPool, mount};
use pool::NewDevice;
use posix::{Credentials, FileSystem, FileType, OpenFile, OpenOptions, WriteOptions};
use sim::{DeviceModel, PacedDisk, SimulatedDisk, VirtualClock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The clock stands still while any thread runs, and the registry is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Devices, and what their flushes take: of a flash drive that has no capacitor, and of a disk that
/// has to wait for a turn.
const FLASH: (DeviceModel, u64) = (DeviceModel::FLASH, 2_000_000);
const DISK: (DeviceModel, u64) = (DeviceModel::DISK, 8_300_000);
const FILE_BYTES: u64 = 256 << 10;

struct Pond {
    clock: Arc<VirtualClock>,
    disk: Arc<PacedDisk>,
    test_pool: TestPool,
    system: Arc<FileSystem>,
}

impl Pond {
    fn new((model, flush_ns): (DeviceModel, u64)) -> Self {
        let clock = VirtualClock::new(model);
        let memory = Arc::new(SimulatedDisk::new(1 << 30, 1));
        let disk = Arc::new(PacedDisk::new(memory, &clock, flush_ns));
        let device = Arc::clone(&disk) as Arc<dyn BlockDevice>;
        let device = NewDevice::Open("/simulated/disk".into(), device);
        let test_pool = TestPool::create(vec![device]).unwrap();
        let system = mount(&test_pool.pool, POOL, false);
        let pond = Self {
            clock,
            disk,
            test_pool,
            system,
        };
        // The first commit begins the chain, which waits for a txg.
        let file = pond.file("first");
        file.fsync().unwrap();
        pond
    }

    /// A new file whose blocks have synced.
    fn file(&self, name: &str) -> OpenFile {
        let options = OpenOptions {
            read: true,
            write: true,
            ..OpenOptions::default()
        };
        let node = new_node(FileType::Regular, 0o644);
        let (system, name) = (&self.system, name.as_bytes());
        let created = system.create(&Credentials::root(), system.root(), name, &node, options);
        let (file, _) = created.unwrap();
        write(&file, 0, &vec![1; FILE_BYTES as usize]);
        file
    }

    fn files(&self, count: u64) -> Vec<OpenFile> {
        let files = (0..count).map(|number| self.file(&number.to_string()));
        let files = files.collect();
        self.test_pool.pool.sync().unwrap();
        files
    }

    /// F, on the clock.
    fn probe_ns(&self) -> u64 {
        let left = AtomicUsize::new(1);
        let start_ns = self.clock.now_ns();
        let (clock, disk) = (&self.clock, &self.disk);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !clock.is_running() {
                    std::thread::yield_now();
                }
                // Between the labels and the first metaslab: nobody's.
                disk.write(1 << 20, &[0; 8 << 10]).unwrap();
                disk.flush().unwrap();
                left.store(0, Ordering::SeqCst);
            });
            self.clock.run(|| left.load(Ordering::SeqCst) == 0);
        });
        self.clock.now_ns() - start_ns
    }

    fn export(self) {
        self.system.unmount().unwrap();
        self.test_pool.export().unwrap();
    }
}

fn write(file: &OpenFile, offset: u64, bytes: &[u8]) {
    let written = file.write(offset, bytes, WriteOptions::default());
    assert_eq!(written.unwrap(), bytes.len());
}

/// Counters of the registry that have moved since.
struct Moved(BTreeMap<String, u64>);

fn counters() -> BTreeMap<String, u64> {
    let samples = registry().snapshot().into_iter();
    let counters = samples.filter_map(|sample| match sample.value {
        Value::Counter(count) => Some((sample.name, count)),
        _ => None,
    });
    counters.collect()
}

impl Moved {
    fn since(before: &BTreeMap<String, u64>) -> Self {
        let after = counters().into_iter();
        let moved = after.map(|(name, count)| {
            let known = before.get(&name).copied().unwrap_or(0);
            (name, count - known)
        });
        Self(moved.filter(|(_, count)| *count > 0).collect())
    }

    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// What many threads saw that write and fsync without a pause, each its own file.
struct Outcome {
    /// Of all commits, sorted.
    latencies_ns: Vec<u64>,
    took_ns: u64,
    moved: Moved,
}

impl Outcome {
    fn quantile(&self, per_mille: usize) -> u64 {
        self.latencies_ns[(self.latencies_ns.len() - 1) * per_mille / 1000]
    }

    /// Commits that a device flush completes, as a share of those that are under way on average.
    fn group_factor(&self) -> f64 {
        let outstanding = self.latencies_ns.iter().sum::<u64>() as f64 / self.took_ns as f64;
        let a_flush = self.latencies_ns.len() as f64 / self.moved.of("log.flushes") as f64;
        a_flush / outstanding
    }

    /// Waits for locks, a commit.
    fn lock_waits(&self) -> BTreeMap<&str, f64> {
        let commits = self.latencies_ns.len() as f64;
        let waits = self.moved.0.iter().filter_map(|(name, count)| {
            let class = name.strip_prefix("lock.")?.strip_suffix(".contended")?;
            Some((class, *count as f64 / commits))
        });
        waits.collect()
    }
}

fn storm(pond: &Pond, threads: u64, rounds: usize, bytes: usize) -> Outcome {
    let files = pond.files(threads);
    let latencies_ns = Mutex::new(Vec::new());
    let left = AtomicUsize::new(files.len());
    let start_ns = pond.clock.now_ns();
    let before = counters();
    std::thread::scope(|scope| {
        for (number, file) in files.iter().enumerate() {
            let (clock, latencies_ns, left) = (&pond.clock, &latencies_ns, &left);
            scope.spawn(move || {
                let mut random = Random::new(number as u64);
                while !clock.is_running() {
                    std::thread::yield_now();
                }
                let mut own = Vec::with_capacity(rounds);
                for round in 0..rounds {
                    let offset = random.below(FILE_BYTES as usize - bytes) as u64;
                    write(file, offset, &vec![round as u8; bytes]);
                    let begun_ns = clock.now_ns();
                    file.fsync().unwrap();
                    own.push(clock.now_ns() - begun_ns);
                }
                latencies_ns.lock().unwrap().extend(own);
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        pond.clock.run(|| left.load(Ordering::SeqCst) == 0);
    });
    let mut latencies_ns = latencies_ns.into_inner().unwrap();
    latencies_ns.sort_unstable();
    Outcome {
        latencies_ns,
        took_ns: pond.clock.now_ns() - start_ns,
        moved: Moved::since(&before),
    }
}

/// Z1 to Z3: locks, the group factor, and the latency of 64 threads.
fn sixty_four_threads(device: (DeviceModel, u64)) {
    let _alone = ALONE.lock();
    let pond = Pond::new(device);
    let f_ns = pond.probe_ns();
    let outcome = storm(&pond, 64, 48, 1024);
    let in_f = |per_mille| outcome.quantile(per_mille) as f64 / f_ns as f64;
    let (p50, p99, max) = (in_f(500), in_f(990), in_f(1000));
    let factor = outcome.group_factor();
    println!("F {f_ns} ns: p50 {p50:.2} F, p99 {p99:.2} F, max {max:.2} F; factor {factor:.3}");
    let waits = outcome.lock_waits();
    println!("lock waits a commit: {waits:?}");
    assert_eq!(outcome.moved.of("log.fallbacks"), 0);
    assert!(p50 <= 1.5, "p50 {p50}");
    assert!(p99 <= 2.2, "p99 {p99}");
    assert!(max <= 4.0, "max {max}");
    assert!(factor >= 0.45, "group factor {factor}");
    pond.export();
}

#[test]
fn sixty_four_threads_share_flushes_of_a_flash_drive() {
    sixty_four_threads(FLASH);
}

#[test]
fn sixty_four_threads_share_flushes_of_a_disk() {
    sixty_four_threads(DISK);
}

/// One that is alone waits for its own write and flush and nothing else.
#[test]
fn one_thread_waits_for_one_write_and_one_flush() {
    let _alone = ALONE.lock();
    let pond = Pond::new(FLASH);
    let f_ns = pond.probe_ns();
    let outcome = storm(&pond, 1, 50, 4096);
    let p50 = outcome.quantile(500) as f64 / f_ns as f64;
    println!("F {f_ns} ns: p50 {p50:.2} F");
    assert!(p50 <= 1.05, "p50 {p50}");
    pond.export();
}

/// What one commit puts into the log does not depend on what else is dirty.
#[test]
fn a_commit_writes_nothing_of_its_neighbours() {
    const COMMITS: u64 = 50;
    let _alone = ALONE.lock();
    let pond = Pond::new(FLASH);
    let files = pond.files(2);
    let [own, neighbour] = &files[..] else {
        panic!("two files")
    };
    for dirt in [0, 32 << 20, 128 << 20] {
        let piece = vec![3; 1 << 20];
        let before = counters();
        for commit in 0..COMMITS {
            for offset in (0..dirt / COMMITS).step_by(piece.len()) {
                let length = (dirt / COMMITS - offset).min(piece.len() as u64) as usize;
                write(
                    neighbour,
                    commit * (dirt / COMMITS) + offset,
                    &piece[..length],
                );
            }
            write(own, commit * 4096, &[commit as u8; 4096]);
            own.fsync().unwrap();
        }
        let moved = Moved::since(&before);
        let written = moved.of("log.record_bytes") + moved.of("log.data_bytes");
        let share = written as f64 / (COMMITS * 4096) as f64;
        println!("{dirt} bytes of dirt beside: {share:.3} log bytes for each byte committed");
        assert!(share <= 1.25, "{dirt} bytes of dirt: {share}");
        assert_eq!(moved.of("log.fallbacks"), 0);
    }
    drop(files);
    pond.export();
}
