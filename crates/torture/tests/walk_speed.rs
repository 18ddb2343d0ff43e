//! How long `ls -lR` of a cold, fragmented tree keeps a hard disk busy, in virtual time, beside reading the same bytes
//! in sequence. The clock stands still while any thread runs: what is measured is what the disk has to do, and whether
//! it is left waiting.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::ObjectId;
use device::BlockDevice;
use millpond_torture::at_best::at_best_ns;
use millpond_torture::counters::counter;
use millpond_torture::pool_model::real::populate;
use millpond_torture::random::Random;
use millpond_torture::real::{new_file, new_node};
use millpond_torture::test_pool::{POOL, mount};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use posix::{Credentials, FileSystem, FileType, Visit, WriteOptions};
use sim::{DeviceModel, MemoryDisk, PacedDisk, VirtualClock, WatchedDevice};

const DISK_BYTES: u64 = 2 << 30;
const BYTES_PER_SECOND: u64 = 150_000_000;
const SEEK_NS: u64 = 8_000_000;
const FLUSH_NS: u64 = 8_300_000;
const CACHE_BYTES: usize = 1 << 30;

/// A tree of two levels of directories with files below.
#[derive(Clone, Copy)]
struct Shape {
    tops: usize,
    subs: usize,
    files: usize,
    rounds: usize,
    /// A file has less data than that, and at least its name.
    bytes: usize,
    /// Changes a txg.
    batch: usize,
}

fn make(system: &Arc<FileSystem>, directory: ObjectId, name: &str, content: &[u8]) {
    let file = new_file(system, directory, name.as_bytes());
    file.write(0, content, WriteOptions::default()).unwrap();
}

/// A name, and what cannot be compressed.
fn content(name: &str, bytes_max: usize, number: usize) -> Vec<u8> {
    let mut random = Random::new(number as u64 + 1);
    let mut content = name.as_bytes().to_vec();
    let bytes = random.below(bytes_max.max(1));
    while content.len() < bytes {
        content.extend(random.draw().to_le_bytes());
    }
    content
}

/// Files of a few bytes that came and went in all directories at once: what belongs together lies apart.
fn fragment(pool: &Arc<Pool>, shape: Shape) {
    let root = Credentials::root();
    let system = mount(pool, POOL, false);
    let mut random = Random::new(11);
    let node = new_node(FileType::Directory, 0o755);
    let mut directories = Vec::new();
    for top in 0..shape.tops {
        let name = format!("top-{top:03}");
        let made = system.mkdir(&root, system.root(), name.as_bytes(), &node);
        let top = made.unwrap().object;
        for sub in 0..shape.subs {
            let name = format!("sub-{sub:03}");
            let made = system.mkdir(&root, top, name.as_bytes(), &node);
            directories.push(made.unwrap().object);
        }
    }
    let mut files: Vec<(ObjectId, String)> = Vec::new();
    let mut changes = 0;
    let mut change = |pool: &Arc<Pool>| {
        changes += 1;
        if changes % shape.batch == 0 {
            pool.sync().unwrap();
        }
    };
    for round in 0..shape.rounds {
        for number in 0..shape.tops * shape.subs * shape.files - files.len() {
            let directory = directories[random.below(directories.len())];
            let name = format!("file-{:016x}-{round}-{number}", random.draw());
            make(
                &system,
                directory,
                &name,
                &content(&name, shape.bytes, number),
            );
            files.push((directory, name));
            change(pool);
        }
        for _ in 0..files.len() / 2 * usize::from(round + 1 < shape.rounds) {
            let (directory, name) = files.swap_remove(random.below(files.len()));
            let gone = system.unlink(&root, directory, name.as_bytes());
            drop(gone.unwrap());
            change(pool);
        }
    }
    system.unmount().unwrap();
    pool.sync().unwrap();
}

/// Makes a pool of that shape in an image.
fn pond(image: &Path, shape: Shape) {
    std::fs::File::create(image)
        .and_then(|file| file.set_len(DISK_BYTES))
        .unwrap();
    let device = NewDevice::Path(image.to_owned());
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(populate());
    let pool = Pool::create(options).unwrap();
    fragment(&pool, shape);
    pool.export().unwrap();
}

/// What a directory lists, sorted by name.
fn list(system: &FileSystem, directory: ObjectId) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let root = Credentials::root();
    let mut visit = |entry: &posix::DirectoryEntry<'_>| {
        if entry.name != b"." && entry.name != b".." {
            names.push(entry.name.to_vec());
        }
        Visit::Continue
    };
    system.readdir(&root, directory, 0, &mut visit).unwrap();
    names.sort_unstable();
    names
}

/// As `ls -lR` does it; how many files there were.
fn walk(system: &FileSystem, directory: ObjectId, stage: &dyn Fn(usize)) -> usize {
    stage(0);
    let names = list(system, directory);
    stage(1);
    let root = Credentials::root();
    let mut below = Vec::new();
    for name in &names {
        let found = system.lookup(&root, directory, name).unwrap();
        if found.file_type == FileType::Directory {
            below.push(found.object);
        }
    }
    let files = names.len() - below.len();
    let deeper = below.into_iter().map(|below| walk(system, below, stage));
    files + deeper.sum::<usize>()
}

/// What a walk cost.
struct Cost {
    files: usize,
    seconds: f64,
    seeks: usize,
    bytes: u64,
    /// At best for these reads, in seconds.
    at_best: f64,
    issued: u64,
    hit: u64,
    refused: u64,
    failed: u64,
}

/// Reads of a device: offset and length in bytes.
type Reads = Arc<Mutex<Vec<(u64, u64)>>>;

/// Imports the pool of an image cold, on a disk that takes its time by `clock`, and writes down what is read.
fn import(image: &Path, clock: &Arc<VirtualClock>) -> (Arc<Pool>, Reads) {
    let reads = Reads::default();
    let mut options = ImportOptions::new(vec![image.to_owned()], Selection::Only).read_only();
    options.cache_bytes = CACHE_BYTES;
    let (paced, recorded) = (Arc::clone(clock), Arc::clone(&reads));
    options.between = Some(Arc::new(move |inner| {
        let disk = Arc::new(PacedDisk::new(inner, &paced, FLUSH_NS).with_reads());
        let reads = Arc::clone(&recorded);
        let watch = move |offset, len| reads.lock().unwrap().push((offset, len as u64));
        Arc::new(WatchedDevice::reads(disk, watch))
    }));
    (Pool::import(&options).unwrap(), reads)
}

/// Imports the pool of an image cold, does `what`, and says what that cost in virtual time.
fn cold(image: &Path, what: impl Fn(&FileSystem, &dyn Fn(usize)) -> usize + Sync) -> Cost {
    let clock = VirtualClock::new(DeviceModel::DISK);
    let (pool, reads) = import(image, &clock);
    let system = mount(&pool, POOL, true);
    let names = ["issued", "hit", "wasted", "refused", "failed"];
    let counters = || names.map(|name| counter(&format!("prefetch.{name}")));
    let before = counters();
    reads.lock().unwrap().clear();
    let over = AtomicBool::new(false);
    let files = Mutex::new(0);
    let listing = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !clock.is_running() {
                std::thread::yield_now();
            }
            let stage = |stage| {
                let mut listing = listing.lock().unwrap();
                match stage {
                    0 => listing.1 = clock.now_ns(),
                    _ => listing.0 += clock.now_ns() - listing.1,
                }
            };
            *files.lock().unwrap() = what(&system, &stage);
            over.store(true, Ordering::SeqCst);
        });
        clock.run(|| over.load(Ordering::SeqCst));
    });
    let after = counters();
    let [issued, hit, wasted, refused, failed] =
        std::array::from_fn(|at| after[at].saturating_sub(before[at]));
    let taken_ns = clock.now_ns();
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    let ends = std::iter::once(0).chain(reads.iter().map(|(offset, len)| offset + len));
    let seeks = reads.iter().zip(ends).filter(|((at, _), end)| at != end);
    let cost = Cost {
        files: *files.lock().unwrap(),
        seconds: taken_ns as f64 / 1e9,
        seeks: seeks.count(),
        bytes: reads.iter().map(|(_, len)| len).sum(),
        at_best: at_best_ns(&reads, BYTES_PER_SECOND, SEEK_NS) as f64 / 1e9,
        issued,
        hit,
        refused,
        failed,
    };
    println!(
        "{} files, {:.3} s, of it listing {:.3} s; {} reads, {} seeks, {} KiB; read ahead {} blocks, {} asked for, {} \
         forgotten, {} refused, {} failed",
        cost.files,
        cost.seconds,
        listing.lock().unwrap().0 as f64 / 1e9,
        reads.len(),
        cost.seeks,
        cost.bytes >> 10,
        cost.issued,
        cost.hit,
        wasted,
        cost.refused,
        cost.failed,
    );
    drop(system);
    cost
}

fn cold_walk(image: &Path) -> Cost {
    cold(image, |system, stage| walk(system, system.root(), stage))
}

/// The same with nothing read ahead.
fn cold_walk_unaided(image: &Path) -> Cost {
    let off = &dmu::tunables::WALK_PARTS;
    off.set(0);
    let cost = cold_walk(image);
    off.reset();
    cost
}

/// The counters and the limits are the process's.
static ALONE: Mutex<()> = Mutex::new(());

const SMALL: Shape = Shape {
    tops: 4,
    subs: 5,
    files: 100,
    rounds: 3,
    bytes: 0,
    batch: 250,
};

const WITH_DATA: Shape = Shape {
    bytes: 64 << 10,
    ..SMALL
};

#[test]
fn a_walk_of_a_fragmented_tree_follows_the_disk() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk");
    pond(&image, SMALL);
    let unaided = cold_walk_unaided(&image);
    assert!(unaided.seeks > 60, "the tree is not fragmented");
    let cost = cold_walk(&image);
    assert_eq!((cost.files, unaided.files), (2000, 2000));
    // The first blocks have to be missed before a walk is known for one.
    assert!(cost.seeks <= 10, "{} seeks for 2,000 files", cost.seeks);
    assert!(cost.hit * 10 >= cost.issued * 9, "read in vain");
    assert_eq!((cost.refused, cost.failed), (0, 0));
}

/// What a walk reads lies together, whatever is in the files.
#[test]
fn a_walk_of_a_tree_with_data_follows_the_disk() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk");
    pond(&image, WITH_DATA);
    let unaided = cold_walk_unaided(&image);
    let cost = cold_walk(&image);
    assert_eq!((cost.files, unaided.files), (2000, 2000));
    assert!(cost.seeks <= 10, "{} seeks for 2,000 files", cost.seeks);
    assert_eq!((cost.refused, cost.failed), (0, 0));
}

/// Who looks at single files, listed or not, has nothing else read.
#[test]
fn who_does_not_walk_has_nothing_read_ahead() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk");
    pond(&image, SMALL);
    let root = Credentials::root();
    let sub = |system: &FileSystem, number: usize| {
        let top = format!("top-{:03}", number % SMALL.tops);
        let top = system.lookup(&root, system.root(), top.as_bytes()).unwrap();
        let sub = format!("sub-{:03}", number / SMALL.tops % SMALL.subs);
        let sub = system.lookup(&root, top.object, sub.as_bytes()).unwrap();
        sub.object
    };
    let names = Mutex::new(Vec::new());
    let listed_only = cold(&image, |system, _| {
        let mut names = names.lock().unwrap();
        for number in 0..SMALL.tops * SMALL.subs {
            names.push(list(system, sub(system, number)));
        }
        names.len()
    });
    assert_eq!(listed_only.issued, 0, "a listing alone");
    let names = names.into_inner().unwrap();
    let random = cold(&image, |system, _| {
        let mut random = Random::new(5);
        for _ in 0..1000 {
            let number = random.below(names.len());
            let name = &names[number][random.below(names[number].len())];
            let directory = sub(system, number);
            system.lookup(&root, directory, name).unwrap();
        }
        1000
    });
    assert_eq!(random.issued, 0, "files that nobody listed");
    let one_each = cold(&image, |system, _| {
        for number in 0..SMALL.tops * SMALL.subs {
            let directory = sub(system, number);
            let names = list(system, directory);
            system.lookup(&root, directory, &names[0]).unwrap();
        }
        names.len()
    });
    assert_eq!(one_each.issued, 0, "one file of each listing");
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        use super::super::sim_runs::sim;
        use super::super::*;
        use rustix::time::{ClockId, clock_gettime};
        use std::time::Duration;

        /// What the calling thread has computed.
        fn own_time() -> Duration {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        }

        /// By CPU time, which means most on an idle machine.
        #[test]
        #[ignore = "torture: times of cached walks"]
        fn warm_walks_pay_nothing_for_it() {
            let _alone = ALONE.lock();
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("disk");
            pond(&image, SMALL);
            let mut options = ImportOptions::new(vec![image], Selection::Only).read_only();
            options.cache_bytes = CACHE_BYTES;
            let pool = Pool::import(&options).unwrap();
            let limit = |name: &str| {
                let found = posix::TUNABLES
                    .iter()
                    .find(|tunable| tunable.name() == name);
                *found.unwrap()
            };
            // Nothing is remembered of a listing: nothing follows from it.
            let (listed_max, files_max) = (limit("posix.listed_max"), limit("posix.files_max"));
            // Files that stay in memory, and files that have to be made of cached blocks.
            for files in [65_536, 64] {
                files_max.set(files);
                let mut times = [Vec::new(), Vec::new()];
                for round in 0..80 {
                    let on = round % 2;
                    if on == 0 {
                        listed_max.set(0);
                    }
                    let system = mount(&pool, POOL, true);
                    walk(&system, system.root(), &|_| {});
                    let start = own_time();
                    walk(&system, system.root(), &|_| {});
                    times[on].push(own_time() - start);
                    listed_max.reset();
                }
                let [off, on] = times.map(|mut times| {
                    times.sort_unstable();
                    (times[times.len() / 2].as_secs_f64(), times[4].as_secs_f64())
                });
                println!(
                    "{files} files in memory: off {:.4} s, on {:.4} s, rate {:.3}; fastest tenth {:.3}",
                    off.0,
                    on.0,
                    off.0 / on.0,
                    off.1 / on.1
                );
                assert!(off.1 / on.1 >= 0.92);
            }
            files_max.reset();
        }

        #[test]
        #[ignore = "torture: a quarter of an hour"]
        fn a_walk_of_half_a_million_files_follows_the_disk() {
            let (unaided, cost) = sim::compare(Shape {
                files: 1000,
                batch: 20_000,
                ..sim::FIFTY_THOUSAND
            });
            assert!(cost.seconds * 20.0 < unaided.seconds);
        }
    }
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    pub(crate) mod sim {
        use super::super::*;

        /// Walks a tree of that shape unaided and as usual, and compares both with reading the same bytes in sequence.
        pub(crate) fn compare(shape: Shape) -> (Cost, Cost) {
            let _alone = ALONE.lock();
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("disk");
            pond(&image, shape);
            let unaided = cold_walk_unaided(&image);
            // Without gaps: what a walk reads.
            let sequential = unaided.bytes as f64 / BYTES_PER_SECOND as f64;
            let ratio = |cost: &Cost| cost.seconds / sequential;
            let cost = cold_walk(&image);
            println!(
                "in sequence {sequential:.3} s: {:.1} times as long unaided, {:.1} times; at best, as it lies, \
                 {:.1} times",
                ratio(&unaided),
                ratio(&cost),
                unaided.at_best / sequential
            );
            assert_eq!(cost.files, unaided.files);
            (unaided, cost)
        }

        pub(crate) const FIFTY_THOUSAND: Shape = Shape {
            tops: 20,
            subs: 25,
            files: 100,
            rounds: 3,
            bytes: 0,
            batch: 2000,
        };

        #[test]
        #[ignore = "sim: a minute"]
        fn a_walk_of_fifty_thousand_files_follows_the_disk() {
            let (unaided, cost) = compare(FIFTY_THOUSAND);
            assert!(cost.seconds * 20.0 < unaided.seconds);
        }

        #[test]
        #[ignore = "sim: a minute"]
        fn a_walk_of_twenty_thousand_files_with_data_follows_the_disk() {
            let (unaided, cost) = compare(Shape {
                files: 40,
                bytes: 64 << 10,
                batch: 1000,
                ..FIFTY_THOUSAND
            });
            assert!(cost.seconds * 20.0 < unaided.seconds);
        }

        #[test]
        #[ignore = "sim: two minutes"]
        fn a_walk_of_a_hundred_thousand_files_follows_the_disk() {
            let (unaided, cost) = compare(Shape {
                subs: 100,
                files: 50,
                ..FIFTY_THOUSAND
            });
            assert!(cost.seconds * 20.0 < unaided.seconds);
            // What the disk needs for the places where these blocks lie, and the walker's own reads, which wait for
            // nobody.
            assert!(cost.seconds < 3.0 * unaided.at_best);
        }

        /// That metadata lies close together is not to be paid by those who write it.
        #[test]
        #[ignore = "sim: a minute"]
        fn a_tree_is_written_anew_with_few_seeks() {
            let _alone = ALONE.lock();
            let clock = VirtualClock::new(DeviceModel::DISK);
            let memory = Arc::new(MemoryDisk::new(512 << 20));
            let disk: Arc<dyn BlockDevice> = Arc::new(PacedDisk::new(memory, &clock, FLUSH_NS));
            let device = NewDevice::Open("/simulated/disk".into(), disk);
            let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
            options.root.populate = Some(populate());
            let pool = Pool::create(options).unwrap();
            let before = clock.work();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !clock.is_running() {
                        std::thread::yield_now();
                    }
                    let shape = Shape {
                        tops: 4,
                        subs: 25,
                        files: 50,
                        rounds: 3,
                        bytes: 0,
                        batch: 500,
                    };
                    fragment(&pool, shape);
                    over.store(true, Ordering::SeqCst);
                });
                clock.run(|| over.load(Ordering::SeqCst));
            });
            let work = clock.work() - before;
            println!("{:.2} s, {work:?}", clock.now_ns() as f64 / 1e9);
            pool.export().unwrap();
            assert!(work.seeks < 280, "{work:?}");
        }
    }
}
