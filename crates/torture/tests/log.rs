//! Crash points of the intent log: what a commit has acknowledged is there after any crash, whole,
//! and the pool is sound. Works on objects below the POSIX layer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base::{ByteOrder, ObjectId, Txg};
use dmu::{AllocateObject, Object, ObjectSet, Reservation, Tx};
use format::intent_log::{Body, CreateFields, Record, encode_record, kind};
use format::{BlockPointer, ObjectType};
use intent::{Data, Entry, Log, Replay, Scope, WriteEntry};
use millpond_torture::laboratory::{Laboratory, POOL, image};
use millpond_torture::random::Random;
use pool::{NewDevice, Pool};
use sim::SimulatedDisk;

const SIZE: u64 = 96 << 20;
/// Bytes of an object; each write fills the whole object with its version.
const LENGTHS: [usize; 4] = [600, 4096, 9000, 200_000];

/// A pool whose objects are changed through the log.
struct Bench {
    disk: Arc<SimulatedDisk>,
    pool: Arc<Pool>,
    _laboratory: Mutex<Laboratory>,
    log: Arc<Log>,
    /// What commits acknowledged: the disk's events then, the object, its version.
    acknowledged: Mutex<Vec<(usize, ObjectId, u64)>>,
}

/// The version, and bytes that follow from it and do not compress.
fn content(version: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(version);
    let mut bytes = version.to_le_bytes().to_vec();
    while bytes.len() < length {
        bytes.extend(random.draw().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn open_log(laboratory: &Laboratory) -> Arc<Log> {
    let head = laboratory.pool.dsl().dataset(POOL).unwrap();
    laboratory.pool.intent_log(&head).unwrap().unwrap()
}

impl Bench {
    fn new(seed: u64) -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        Self::on(device, disk)
    }

    fn on(device: NewDevice, disk: Arc<SimulatedDisk>) -> Self {
        let laboratory = Laboratory::create(vec![device]).unwrap();
        let log = open_log(&laboratory);
        Self {
            disk,
            log,
            pool: Arc::clone(&laboratory.pool),
            _laboratory: Mutex::new(laboratory),
            acknowledged: Mutex::new(Vec::new()),
        }
    }

    fn tx(&self, bytes: usize) -> Tx {
        let engine = self.pool.engine().unwrap();
        let reservation = Reservation {
            write_bytes: bytes as u64,
            objects: 1,
            ..Reservation::default()
        };
        Tx::assign(engine, &reservation).unwrap()
    }

    fn create(&self) -> Arc<Object> {
        let tx = self.tx(0);
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_FILE,
            block_size: 16384,
            ..AllocateObject::default()
        };
        let object = self.log.objects().allocate(&tx, &shape).unwrap();
        let fields = CreateFields {
            directory: ObjectId(34),
            object_and_slots: object.id().0,
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            generation: tx.txg().0,
            creation_time: [0; 2],
            device: 0,
        };
        let record = encode_record(kind::CREATE, &fields.to_bytes(ByteOrder::NATIVE), &[b"f\0"]);
        self.log
            .append(&tx, Scope::Namespace, Entry::Record(record));
        object
    }

    fn write(&self, object: &Arc<Object>, version: u64, copied: bool) {
        let length = LENGTHS[object.id().0 as usize % LENGTHS.len()];
        let bytes = content(version, length);
        let tx = self.tx(length);
        object.write(&tx, 0, &bytes).unwrap();
        let data = if copied {
            Data::Copied(bytes.into())
        } else {
            Data::Later
        };
        let entry = WriteEntry {
            object: object.id(),
            offset: 0,
            length: length as u64,
            data,
        };
        self.log
            .append(&tx, Scope::Object(object.id()), Entry::Write(entry));
    }

    fn commit(&self, object: ObjectId, version: u64) {
        self.log.commit(object).unwrap();
        let events = self.disk.log_len();
        self.acknowledged
            .lock()
            .unwrap()
            .push((events, object, version));
    }

    /// One thread's part: its own objects, written and committed.
    fn work(&self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        let mut objects = vec![self.create()];
        for version in 1..=steps {
            match random.below(8) {
                0 => objects.push(self.create()),
                1 if random.below(4) == 0 => self.pool.sync().unwrap(),
                _ => {}
            }
            let object = Arc::clone(&objects[random.below(objects.len())]);
            self.write(&object, version, random.below(3) == 0);
            if random.below(4) != 0 {
                self.commit(object.id(), version);
            }
        }
    }

    /// What must be there when the disk stops after `events` events.
    fn floor(&self, events: usize) -> BTreeMap<ObjectId, u64> {
        let mut floor = BTreeMap::new();
        for (at, object, version) in self.acknowledged.lock().unwrap().iter() {
            if *at <= events {
                let known = floor.entry(*object).or_insert(0);
                *known = (*known).max(*version);
            }
        }
        floor
    }
}

/// Applies creates and writes to objects.
struct Objects<'a> {
    set: &'a Arc<ObjectSet>,
    log: &'a Log,
    engine: &'a Arc<txg::Engine>,
    seen: Vec<(u64, Txg)>,
    pointers: usize,
}

impl Replay for Objects<'_> {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), String> {
        self.seen.push((record.header.sequence, record.header.txg));
        self.pointers += usize::from(block.is_some());
        let tx = Tx::assign(self.engine, &Reservation::default()).unwrap();
        match &record.body {
            Body::Create(fields) => {
                let shape = AllocateObject {
                    object_type: ObjectType::PLAIN_FILE,
                    block_size: 16384,
                    ..AllocateObject::default()
                };
                let id = ObjectId(fields.object_and_slots);
                self.set
                    .claim(&tx, id, &shape)
                    .map_err(|error| error.to_string())?;
            }
            Body::Write(fields) => {
                if let Ok(object) = self.set.object(fields.object) {
                    match block {
                        Some(block) => {
                            let start = fields.offset / block.len() as u64 * block.len() as u64;
                            object.write(&tx, start, block).unwrap();
                        }
                        None if record.kind() == kind::WRITE_SIZE_ONLY => {}
                        None => {
                            let data = &record.tail[..fields.length as usize];
                            object.write(&tx, fields.offset, data).unwrap();
                        }
                    }
                }
            }
            _ => return Err("no such record was written".to_owned()),
        }
        self.log.append_nothing(&tx);
        Ok(())
    }
}

/// Leaves the disk after `events` events and looks what an import makes of it.
fn check(bench: &Bench, events: usize, survivors: u64, folder: &Path, zdb: bool) -> usize {
    let path = image(folder, "crashed");
    let _ = std::fs::remove_file(&path);
    let crashed = bench.disk.crash_at(events, survivors);
    crashed.write_to_file(&path).unwrap();
    let zdb = golden::Zdb::from_environment().filter(|_| zdb);
    if let Some(zdb) = &zdb {
        zdb.assert_clean(folder, POOL);
    }
    let laboratory = Laboratory::import(folder, false).unwrap();
    let log = open_log(&laboratory);
    let mut objects = Objects {
        set: log.objects(),
        log: &log,
        engine: laboratory.pool.engine().unwrap(),
        seen: Vec::new(),
        pointers: 0,
    };
    let replayed = log.replay(&mut objects).unwrap();
    assert_eq!(replayed.failed, None);
    let pointers = objects.pointers;
    println!("  {replayed:?}, {pointers} of them point to blocks");
    let ordered = objects.seen.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ordered, "records out of order: {:?}", objects.seen);
    for (object, version) in bench.floor(events) {
        let found = log.objects().object(object);
        let found = found.unwrap_or_else(|error| {
            panic!("object {object} was acknowledged: {error}; {replayed:?}")
        });
        let length = LENGTHS[object.0 as usize % LENGTHS.len()];
        let mut bytes = vec![0; length];
        found.read(0, &mut bytes).unwrap();
        let there = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(
            there >= version,
            "object {object} has version {there}, {version} was acknowledged; {replayed:?}"
        );
        assert!(bytes == content(there, length), "object {object} is torn");
    }
    assert!(!log.is_owed());
    drop(log);
    laboratory.export().unwrap();
    if let Some(zdb) = zdb {
        zdb.assert_clean(folder, POOL);
    }
    pointers
}

fn explore(seed: u64, threads: u64, steps: u64, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test log");
    let bench = Bench::new(seed);
    bench.log.commit_all().unwrap();
    let first = bench.disk.log_len();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let bench = &bench;
            scope.spawn(move || bench.work(seed * 100 + thread, steps));
        }
    });
    let last = bench.disk.log_len();
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    let mut pointers = 0;
    let moments: Vec<usize> = {
        let acknowledged = bench.acknowledged.lock().unwrap();
        acknowledged.iter().map(|(events, ..)| *events).collect()
    };
    for point in 0..points {
        // Half of the points are the moments at which a commit returned.
        let events = if point % 2 == 0 && !moments.is_empty() {
            moments[random.below(moments.len())]
        } else {
            first + random.below(last - first + 1)
        };
        let survivors = random.draw();
        println!("crash point {point}: event {events} of {last}, survivors {survivors}");
        pointers += check(&bench, events, survivors, folder.path(), point % 4 == 0);
    }
    assert!(
        pointers > 0,
        "no large write had its blocks written in place"
    );
}

fn seed(default: u64) -> u64 {
    let text = std::env::var("MILLPOND_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

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
    let bench = Bench::new(7);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    bench.write(&object, 1, false);
    bench.commit(object.id(), 1);
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    bench.disk.crash(3).write_to_file(&path).unwrap();
    // Imported and exported without a replay: it stays owed.
    for _ in 0..2 {
        let laboratory = Laboratory::import(folder.path(), false).unwrap();
        let log = open_log(&laboratory);
        assert!(log.is_owed());
        let header = log.objects().intent_log_header();
        assert_ne!(header.log, BlockPointer::HOLE);
        drop(log);
        laboratory.export().unwrap();
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), POOL);
        }
    }
}

/// Commits of many threads share batches, and so flushes.
#[test]
fn commits_that_meet_share_flushes() {
    const THREADS: u64 = 16;
    const COMMITS: u64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "shared");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let device = NewDevice::Path(path.clone());
    let bench = Bench::on(device, Arc::new(SimulatedDisk::new(SIZE, 1)));
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
