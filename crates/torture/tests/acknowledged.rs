//! Crash points of file systems with an intent log: many threads create, write, rename, remove and fsync files on a
//! simulated disk. Whatever moment the power goes, an import finds what was acknowledged, and nothing that never was.
//!
//! A second class takes from the medium what it had: then a file may be unreadable or older, but never wrong.

use base::random::{Rng, SeededRng};
use millpond_torture::durable::{Demand, Found, Record};
use millpond_torture::laboratory::{Laboratory, POOL, image};
use millpond_torture::model::Kind;
use millpond_torture::operation::{Chooser, Operation, Place};
use millpond_torture::random::Random;
use millpond_torture::real;
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
fn work(disk: &SimulatedDisk, laboratory: &Shared, seed: u64, steps: usize) -> Record {
    let mut record = Record::new(directory(laboratory.thread));
    let (mut chooser, mut random) = (Chooser::new(seed), Random::new(seed ^ 0x5EED));
    for _ in 0..steps {
        let operation = smaller(chooser.next(&record.tree));
        let mut expected = record.tree.clone();
        let wanted = expected.apply(&operation);
        let found = real::apply(&laboratory.system, &record.below(&operation));
        assert_eq!(wanted.is_ok(), found.is_ok(), "{operation:?}: {found:?}");
        if wanted.is_ok() {
            record.note(&operation);
        }
        let files: Vec<_> = record.tree.places().into_iter().collect();
        let files: Vec<_> = files
            .into_iter()
            .filter(|(_, node)| matches!(record.tree.node(*node).kind, Kind::File(_)))
            .collect();
        if random.one_in(4) && !files.is_empty() {
            let (place, node) = random.pick(&files).clone();
            fsync(&laboratory.system, &record, &place);
            record.promise(Some(node), disk.log_len());
        } else if random.one_in(60) {
            laboratory.pool.sync().unwrap();
            record.promise(None, disk.log_len());
        }
    }
    record
}

/// Contents stay small: there are to be many operations between two txgs.
fn smaller(operation: Operation) -> Operation {
    const LENGTH_MAX: usize = 40_000;
    match operation {
        Operation::Write(place, offset, mut bytes) => {
            bytes.truncate(LENGTH_MAX);
            Operation::Write(place, offset % LENGTH_MAX, bytes)
        }
        Operation::Truncate(place, length) => Operation::Truncate(place, length % LENGTH_MAX),
        other => other,
    }
}

/// What a thread needs of the laboratory.
struct Shared {
    thread: usize,
    pool: Arc<pool::Pool>,
    system: Arc<FileSystem>,
}

impl Run {
    fn new(seed: u64, threads: usize, steps: usize) -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        let laboratory = Laboratory::create(vec![device]).unwrap();
        let system = laboratory.root();
        for thread in 0..threads {
            let place = Place {
                directory: Vec::new(),
                name: directory(thread).remove(0),
            };
            real::apply(&system, &Operation::MakeDirectory(place, 0o755)).unwrap();
        }
        laboratory.pool.sync().unwrap();
        let first = disk.log_len();
        let work = |thread: usize| {
            let shared = Shared {
                thread,
                pool: Arc::clone(&laboratory.pool),
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
        let laboratory = match Laboratory::import(folder, false) {
            Ok(laboratory) => laboratory,
            Err(error) if demand == Demand::AnythingTrue => {
                return println!("not imported: {error}");
            }
            Err(error) => panic!("not imported: {error}"),
        };
        let system = match laboratory.try_system(POOL) {
            Ok(system) => system,
            Err(error) if demand == Demand::AnythingTrue => {
                return println!("not mounted: {error}");
            }
            Err(error) => panic!("not mounted: {error}"),
        };
        for record in &self.records {
            let found = Found::read(&system, &record.place);
            if let Err(lines) = record.judge(&found, demand) {
                panic!("{:?}:\n{}", record.place, lines.join("\n"));
            }
        }
        drop(system);
        if demand != Demand::AnythingTrue {
            laboratory.export().unwrap();
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
            match rng.below(3) {
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

fn explore(seed: u64, threads: usize, steps: usize, points: usize) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test acknowledged"
    );
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

fn seed(default: u64) -> u64 {
    let text = std::env::var("MILLPOND_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn one_thread() {
    explore(seed(1), 1, 150, 40);
}

#[test]
fn many_threads() {
    explore(seed(2), 6, 60, 40);
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        #[test]
        #[ignore = "sim: 600 crash points of one thread"]
        fn six_hundred_points_of_one_thread() {
            for run in 0..10 {
                explore(seed(1000) + run, 1, 200, 60);
            }
        }

        #[test]
        #[ignore = "sim: 600 crash points of many threads"]
        fn six_hundred_points_of_many_threads() {
            for run in 0..10 {
                explore(seed(2000) + run, 2 + run as usize, 80, 60);
            }
        }
    }
}
