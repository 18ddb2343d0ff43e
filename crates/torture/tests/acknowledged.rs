//! Crash points of file systems with an intent log: many threads create, write, rename, remove and fsync files on a
//! simulated disk. Whatever moment the power goes, an import finds what was acknowledged, and nothing that never was.
//!
//! A second class takes from the medium what it had: then a file may be unreadable or older, but never wrong, and the
//! same holds of each name where records of the log are lost with what they would have changed.

use base::random::{Rng, SeededRng};
use millpond_torture::aftermath;
use millpond_torture::durable::{Commits, Demand, Found, Record};
use millpond_torture::hesitant;
use millpond_torture::model::Kind;
use millpond_torture::operation::{Chooser, Limits, Operation, Place};
use millpond_torture::random::{Random, seeds};
use millpond_torture::test_pool::{POOL, TestPool, image};
use millpond_torture::{real, tunables};
use pool::NewDevice;
use posix::{Credentials, FileSystem, OpenOptions};
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 96 << 20;

/// A run: the disk with its log of events, and what each thread did and was promised.
struct Run {
    disk: Arc<SimulatedDisk>,
    records: Vec<Record>,
    /// Events of the disk when the threads began.
    first: usize,
}

fn directory(thread: usize) -> Vec<String> {
    vec![format!("thread{thread}")]
}

fn fsync(system: &FileSystem, record: &Record, place: &Place) {
    let root = Credentials::root();
    let below = record
        .place
        .iter()
        .chain(&place.directory)
        .chain([&place.name]);
    let object = below.fold(system.root(), |directory, name| {
        system
            .lookup(&root, directory, name.as_bytes())
            .unwrap()
            .object
    });
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    system
        .open(&root, object, options)
        .unwrap()
        .fsync()
        .unwrap();
}

/// One thread's part: random operations in its own directory; one in four is followed by an fsync of some file.
fn work(disk: &SimulatedDisk, test_pool: &Shared, seed: u64, steps: usize) -> Record {
    let mut record = Record::new(directory(test_pool.thread));
    // Of half of the threads' groups: their commits wait for txgs more often than not.
    let limits = Limits {
        unnamed: (seed / 1000).is_multiple_of(2),
        synchronous: true,
        ..LIMITS
    };
    let (mut chooser, mut random) = (Chooser::within(seed, limits), Random::new(seed ^ 0x5EED));
    for _ in 0..steps {
        let operation = chooser.next(&record.tree);
        let mut expected = record.tree.clone();
        let wanted = expected.apply(&operation);
        let found = real::apply(&test_pool.system, &record.below(&operation));
        assert_eq!(wanted.is_ok(), found.is_ok(), "{operation:?}: {found:?}");
        if wanted.is_ok() {
            record.note(&operation);
            // A synchronous write is durable when it returns.
            if let Operation::Write(place, _, bytes, true) = &operation
                && !bytes.is_empty()
            {
                record.promise(record.tree.find(place).ok(), disk.log_len());
            }
        }
        let files: Vec<_> = record.tree.places().into_iter().collect();
        let files: Vec<_> = files
            .into_iter()
            .filter(|(_, node)| matches!(record.tree.node(*node).kind, Kind::File(_)))
            .collect();
        if random.one_in(4) && !files.is_empty() {
            let (place, node) = random.pick(&files).clone();
            fsync(&test_pool.system, &record, &place);
            record.promise(Some(node), disk.log_len());
        } else if random.one_in(60) {
            test_pool.pool.sync().unwrap();
            record.promise(None, disk.log_len());
        }
    }
    record
}

/// Contents stay small: there are to be many operations between two txgs.
const LIMITS: Limits = Limits {
    file_bytes: 60_000,
    names: 100,
    unnamed: false,
    synchronous: true,
};

/// What a thread needs of the test pool.
struct Shared {
    thread: usize,
    pool: Arc<pool::Pool>,
    system: Arc<FileSystem>,
}

impl Run {
    fn new(seed: u64, threads: usize, steps: usize) -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
        let device = NewDevice::Open(
            "/simulated/disk".into(),
            hesitant::device(Arc::clone(&disk) as _, seed),
        );
        let test_pool = TestPool::create_drawn(vec![device], seed).unwrap();
        test_pool.draw_storage(seed, true, None);
        let system = test_pool.root();
        for thread in 0..threads {
            let place = Place {
                directory: Vec::new(),
                name: directory(thread).remove(0),
            };
            real::apply(&system, &Operation::MakeDirectory(place, 0o755)).unwrap();
        }
        test_pool.pool.sync().unwrap();
        let first = disk.log_len();
        let work = |thread: usize| {
            let shared = Shared {
                thread,
                pool: Arc::clone(&test_pool.pool),
                system: Arc::clone(&system),
            };
            let disk = &disk;
            move || work(disk, &shared, seed * 1000 + thread as u64, steps)
        };
        let records = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(work(thread)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        // Left as at a crash: not exported.
        Self {
            disk,
            records,
            first,
        }
    }

    /// Imports what a power loss leaves, and compares; a sample goes through zdb.
    fn check(&self, event: usize, survivors: u64, folder: &Path, zdb: bool) {
        let crashed = self.disk.crash_at(event, survivors);
        self.import(&crashed, folder, Demand::Promised(event));
        if zdb && let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder, POOL);
        }
    }

    fn import(&self, disk: &SimulatedDisk, folder: &Path, demand: Demand) {
        let path = image(folder, "crashed");
        let _ = std::fs::remove_file(&path);
        disk.write_to_file(&path).unwrap();
        let test_pool = match TestPool::import(folder, false) {
            Ok(test_pool) => test_pool,
            Err(error) if demand == Demand::AnythingTrue => {
                return println!("not imported: {error}");
            }
            Err(error) => panic!("not imported: {error}"),
        };
        let system = match test_pool.try_system(POOL) {
            Ok(system) => system,
            Err(error) if demand == Demand::AnythingTrue => {
                return println!("not mounted: {error}");
            }
            Err(error) => panic!("not mounted: {error}"),
        };
        let demand = match (demand, test_pool.lost_records()) {
            (demand, 0) => demand,
            (Demand::Promised(_), lost) => panic!("{lost} records are lost without damage"),
            (Demand::AnythingTrue | Demand::Apart, lost) => {
                println!("{lost} records are lost");
                Demand::Apart
            }
        };
        let commits = match self.records.len() {
            1 => Commits::Own,
            _ => Commits::Others,
        };
        for record in &self.records {
            let found = Found::read(&system, &record.place);
            if let Err(lines) = record.judge(&found, demand, commits) {
                panic!("{:?}:\n{}", record.place, lines.join("\n"));
            }
        }
        drop(system);
        if matches!(demand, Demand::Promised(_)) {
            aftermath::export(test_pool, folder);
        }
    }

    /// Takes from the medium what was flushed: rot in some sectors, or a write that went elsewhere or nowhere.
    fn damage(&self, event: usize, seed: u64, folder: &Path) {
        let rng = SeededRng::new(seed);
        let mut writes = Vec::new();
        for index in self.first..event {
            if let Some(sim::Event::Write { offset, data }) = self.disk.event(index) {
                writes.push((offset, data));
            }
        }
        let mut image = self.disk.crash_at(event, seed).snapshot();
        for _ in 0..=rng.below(6) {
            if writes.is_empty() {
                break;
            }
            let (offset, data) = &writes[rng.below(writes.len() as u64) as usize];
            let mut bytes = data.to_vec();
            let kind = rng.below(3);
            println!(
                "damage {kind} (rot, lost, misdirected) of {} bytes at {offset}",
                data.len()
            );
            match kind {
                0 => {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 + rng.below(255) as u8;
                    image.write(*offset, &bytes);
                }
                // Lost: the place holds something older; zeros stand for it.
                1 => image.write(*offset, &vec![0; bytes.len()]),
                // Misdirected: it lies over another write.
                _ => {
                    let (other, _) = &writes[rng.below(writes.len() as u64) as usize];
                    image.write(*other, &bytes);
                }
            }
        }
        let damaged = SimulatedDisk::from_image(image, SIZE, seed, &sim::Timeline::new());
        self.import(&damaged, folder, Demand::AnythingTrue);
    }
}

/// A history and crash points of it. Threads, steps and points are those of a test; the name is the test's, so that the
/// line printed repeats it.
fn explore(test: &str, seed: u64, (threads, steps, points): (usize, usize, usize)) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test --profile fast -p millpond-torture --test acknowledged -- \
         --include-ignored --exact {test}"
    );
    let _limits = tunables::drawn_but(seed, tunables::CALLS_WHOLE);
    let run = Run::new(seed, threads, steps);
    let last = run.disk.log_len();
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    for point in 0..points {
        let event = run.first + random.below(last - run.first + 1);
        let survivors = random.draw();
        println!(
            "seed {seed}, {threads} threads, point {point}: event {event} of {last}, survivors {survivors}"
        );
        if point % 5 == 4 {
            run.damage(event, survivors, folder.path());
        } else {
            run.check(event, survivors, folder.path(), point % 32 == 0);
        }
    }
}

/// Data are looked up when a commit is written: the first of its records may have the bytes of the last write. What a
/// crash leaves of its blocks is used only if all are there.
#[test]
fn a_commit_of_several_blocks_survives_whole_or_not_at_all() {
    const PIECE: usize = 8000;
    const PIECES: usize = 40;
    let disk = Arc::new(SimulatedDisk::new(SIZE, 7));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let system = test_pool.root();
    let place = Place {
        directory: Vec::new(),
        name: "file".to_owned(),
    };
    let record = Record::new(Vec::new());
    let write = |at: usize, bytes: Vec<u8>| {
        real::apply(&system, &Operation::Write(place.clone(), at, bytes, false)).unwrap();
    };
    real::apply(&system, &Operation::Create(place.clone(), 0o644)).unwrap();
    write(0, vec![b'-'; PIECE * PIECES]);
    fsync(&system, &record, &place);
    test_pool.pool.sync().unwrap();
    fsync(&system, &record, &place);
    let mut random = Random::new(7);
    for piece in 0..PIECES {
        let bytes = (0..PIECE).map(|_| random.draw() as u8 | 0x80).collect();
        write(piece * PIECE, bytes);
    }
    write(0, b"written last".to_vec());
    fsync(&system, &record, &place);
    let after = disk.log_len();

    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    let mut whole = 0;
    // All is written, and nothing flushed: any part of it may be there.
    for (event, survivors) in (0..60)
        .map(|survivors| (after - 1, survivors))
        .chain([(after, 0)])
    {
        let _ = std::fs::remove_file(&path);
        disk.crash_at(event, survivors)
            .write_to_file(&path)
            .unwrap();
        let crashed = TestPool::import(folder.path(), false).unwrap();
        let system = crashed.root();
        let root = Credentials::root();
        let object = system.lookup(&root, system.root(), b"file").unwrap().object;
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let mut bytes = vec![0; PIECE * PIECES];
        system
            .open(&root, object, options)
            .unwrap()
            .read(0, &mut bytes)
            .unwrap();
        let is_new = bytes.starts_with(b"written last");
        let old = (0..PIECES)
            .filter(|piece| bytes[(piece + 1) * PIECE - 1] == b'-')
            .count();
        assert_eq!(
            old,
            if is_new { 0 } else { PIECES },
            "event {event}, survivors {survivors}: pieces of {PIECES} as before"
        );
        whole += usize::from(is_new);
        drop(system);
        crashed.export().unwrap();
    }
    assert!(whole > 0, "the commit was never seen");
}

/// Large writes are logged by pointer, and several of one block share one: it must come after what truncated between
/// them (seed 10023 of the long run).
#[test]
fn large_writes_of_one_block_survive_a_truncation_between_them() {
    let disk = Arc::new(SimulatedDisk::new(SIZE, 9));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let system = test_pool.root();
    let mut record = Record::new(Vec::new());
    let place = Place {
        directory: Vec::new(),
        name: "file".to_owned(),
    };
    let mut random = Random::new(9);
    let mut bytes = || {
        (0..40_000)
            .map(|_| random.draw() as u8)
            .collect::<Vec<u8>>()
    };
    let mut apply = |operation: Operation| {
        real::apply(&system, &operation).unwrap();
        record.note(&operation);
    };
    apply(Operation::Create(place.clone(), 0o644));
    fsync(&system, &Record::new(Vec::new()), &place);
    apply(Operation::Write(place.clone(), 22_334, bytes(), false));
    apply(Operation::Truncate(place.clone(), 7_642));
    apply(Operation::Truncate(place.clone(), 24_716));
    apply(Operation::Write(place.clone(), 0, bytes(), false));
    apply(Operation::Write(place.clone(), 0, bytes(), false));
    fsync(&system, &Record::new(Vec::new()), &place);
    let node = record.tree.find(&place).ok();
    record.promise(node, disk.log_len());
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    disk.crash(1).write_to_file(&path).unwrap();
    let crashed = TestPool::import(folder.path(), false).unwrap();
    let found = Found::read(&crashed.root(), &[]);
    let demand = Demand::Promised(disk.log_len());
    if let Err(lines) = record.judge(&found, demand, Commits::Own) {
        panic!("{}", lines.join("\n"));
    }
    crashed.export().unwrap();
}

#[test]
fn one_thread() {
    for seed in seeds(1..2) {
        explore("one_thread", seed, (1, 150, 40));
    }
}

#[test]
fn many_threads() {
    for seed in seeds(2..3) {
        explore("many_threads", seed, (6, 60, 40));
    }
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seeds};

        #[test]
        #[ignore = "sim: 600 crash points of one thread"]
        fn six_hundred_points_of_one_thread() {
            for seed in seeds(1000..1010) {
                let test = "sim_runs::sim::six_hundred_points_of_one_thread";
                explore(test, seed, (1, 200, 60));
            }
        }

        #[test]
        #[ignore = "sim: 600 crash points of many threads"]
        fn six_hundred_points_of_many_threads() {
            for seed in seeds(2000..2010) {
                let test = "sim_runs::sim::six_hundred_points_of_many_threads";
                explore(test, seed, (2 + seed as usize % 10, 80, 60));
            }
        }
    }

    /// Runs that go on for as long as they are let.
    mod torture {
        use super::super::{explore, seeds};

        #[test]
        #[ignore = "torture: 10,000 crash points of one and of many threads"]
        fn ten_thousand_points() {
            for seed in seeds(10_000..10_125) {
                let test = "sim_runs::torture::ten_thousand_points";
                explore(test, seed, (1 + seed as usize % 12, 80, 80));
            }
        }
    }
}
