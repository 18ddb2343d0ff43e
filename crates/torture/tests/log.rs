//! Crash points of the intent log: what a commit has acknowledged is there after any crash, whole,
//! and the pool is sound. Works on objects below the POSIX layer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{ByteOrder, ObjectId, Txg};
use dmu::{AllocateObject, Object, ObjectSet, Reservation, Tx};
use dsl::tasks::{CreateDataset, DestroyHead, DestroySnapshots, Rollback, Snapshot};
use format::intent_log::{Body, CloneRangeFields, CreateFields, Record, encode_record, kind};
use format::{BlockPointer, ObjectType};
use intent::{Asker, Data, Entry, Log, Replay, Replayed, Scope, WriteEntry};
use millpond_torture::laboratory::{Laboratory, POOL, image};
use millpond_torture::random::Random;
use pool::{NewDevice, Pool};
use sim::{Fault, FaultKind, SimulatedDisk, Timeline, Times};
use vdev::VdevState;

const SIZE: u64 = 96 << 20;
/// Bytes of an object; each write fills the whole object with its version.
const LENGTHS: [usize; 4] = [600, 4096, 9000, 200_000];

/// A pool whose objects are changed through the log.
struct Bench {
    timeline: Timeline,
    disks: Vec<Arc<SimulatedDisk>>,
    pool: Arc<Pool>,
    _laboratory: Mutex<Laboratory>,
    log: Arc<Log>,
    /// What commits acknowledged: the moment, the object, its version.
    acknowledged: Mutex<Vec<(u64, ObjectId, u64)>>,
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
    /// A pool of one disk for data and so many for its logs.
    fn new(seed: u64, logs: usize) -> Self {
        let timeline = Timeline::new();
        let disk = |index: usize| {
            let disk = SimulatedDisk::on_timeline(SIZE, seed * 10 + index as u64, &timeline);
            Arc::new(disk)
        };
        let disks: Vec<_> = (0..=logs).map(disk).collect();
        let device = |(index, disk): (usize, &Arc<SimulatedDisk>)| {
            let path = format!("/simulated/disk{index}");
            NewDevice::Open(path.into(), Arc::clone(disk) as _)
        };
        let mut devices: Vec<_> = disks.iter().enumerate().map(device).collect();
        let logs = devices.split_off(1);
        Self::on(devices, logs, disks, timeline)
    }

    fn on(
        devices: Vec<NewDevice>,
        logs: Vec<NewDevice>,
        disks: Vec<Arc<SimulatedDisk>>,
        timeline: Timeline,
    ) -> Self {
        let laboratory = Laboratory::create_with_logs(devices, logs).unwrap();
        let log = open_log(&laboratory);
        Self {
            timeline,
            disks,
            log,
            pool: Arc::clone(&laboratory.pool),
            _laboratory: Mutex::new(laboratory),
            acknowledged: Mutex::new(Vec::new()),
        }
    }

    /// Leaves the disks as a power loss at that moment does.
    fn crash(&self, moment: u64, survivors: u64, folder: &Path) {
        for (index, disk) in self.disks.iter().enumerate() {
            let path = image(folder, &format!("crashed{index}"));
            let _ = std::fs::remove_file(&path);
            let crashed = disk.crash_at_moment(moment, survivors + index as u64);
            crashed.write_to_file(&path).unwrap();
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
        let events = self.timeline.now();
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

    /// What must be there when the disks stop at that moment.
    fn floor(&self, events: u64) -> BTreeMap<ObjectId, u64> {
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

impl<'a> Objects<'a> {
    fn of(laboratory: &'a Laboratory, log: &'a Log) -> Self {
        Self {
            set: log.objects(),
            log,
            engine: laboratory.pool.engine().unwrap(),
            seen: Vec::new(),
            pointers: 0,
        }
    }
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

/// Leaves the disks at a moment and looks what an import makes of it.
fn check(bench: &Bench, events: u64, survivors: u64, folder: &Path, zdb: bool) -> usize {
    bench.crash(events, survivors, folder);
    let zdb = golden::Zdb::from_environment().filter(|_| zdb);
    if let Some(zdb) = &zdb {
        zdb.assert_clean(folder, POOL);
    }
    let laboratory = Laboratory::import(folder, false).unwrap();
    let log = open_log(&laboratory);
    let mut objects = Objects::of(&laboratory, &log);
    let replayed = log.replay(&mut objects).unwrap();
    assert_eq!(replayed.failed, None);
    let pointers = objects.pointers;
    println!("  {replayed:?}, {pointers} of them point to blocks");
    let ordered = objects.seen.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ordered, "records out of order: {:?}", objects.seen);
    verify(bench, &log, events, &replayed);
    assert!(!log.is_owed());
    drop(log);
    laboratory.export().unwrap();
    if let Some(zdb) = zdb {
        zdb.assert_clean(folder, POOL);
    }
    pointers
}

/// Everything that was acknowledged at a moment must be there.
fn verify(bench: &Bench, log: &Log, events: u64, replayed: &Replayed) {
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
}

fn explore(seed: u64, threads: u64, steps: u64, points: usize) {
    // The seed says how many log devices the pool has; two are a mirror.
    let logs = seed as usize % 3;
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test log");
    let bench = Bench::new(seed, logs);
    bench.log.commit_all().unwrap();
    let first = bench.timeline.now();
    let written = || bench.disks.get(1).map(|log| log.log_len());
    let before = written();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let bench = &bench;
            scope.spawn(move || bench.work(seed * 100 + thread, steps));
        }
    });
    let last = bench.timeline.now();
    assert!(
        written() > before || logs == 0,
        "the log device was not used"
    );
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    let mut pointers = 0;
    let moments: Vec<u64> = {
        let acknowledged = bench.acknowledged.lock().unwrap();
        acknowledged.iter().map(|(events, ..)| *events).collect()
    };
    // zdb takes longer than all else.
    let sample = (points / 2).max(4);
    for point in 0..points {
        // Half of the points are the moments at which a commit returned.
        let events = if point % 2 == 0 && !moments.is_empty() {
            moments[random.below(moments.len())]
        } else {
            first + random.draw() % (last - first + 1)
        };
        let survivors = random.draw();
        println!("crash point {point}: event {events} of {last}, survivors {survivors}");
        pointers += check(
            &bench,
            events,
            survivors,
            folder.path(),
            point % sample == 0,
        );
    }
    assert!(
        (pointers > 0) == (logs == 0),
        "large writes go in place where there are no log devices: {pointers}"
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
    let bench = Bench::new(7, 0);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    bench.write(&object, 1, false);
    bench.commit(object.id(), 1);
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 3, folder.path());
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

/// Commits until the log takes them again after a failure: a chain that broke ends with a txg, and the next begins
/// with another.
fn until_logged(bench: &Bench, object: &Arc<Object>, version: &mut u64) {
    for _ in 0..8 {
        let before = bench.log.statistics();
        *version += 1;
        bench.write(object, *version, true);
        bench.commit(object.id(), *version);
        let after = bench.log.statistics();
        if after.fallbacks == before.fallbacks {
            assert!(after.batches > before.batches);
            return;
        }
        bench.pool.sync().unwrap();
    }
    panic!("commits do not use the log any more");
}

/// A log device that fails: the commit under way waits for its txg, later ones use the other devices, the pool goes
/// on. Cleared, the device is used again. A crash at any of these moments loses nothing.
fn lose_log_device(seed: u64, kind: FaultKind) {
    let bench = Bench::new(seed, 1);
    let (data, log) = (&bench.disks[0], &bench.disks[1]);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    let commits = |version: &mut u64, used: &SimulatedDisk| {
        let before = (used.log_len(), log.log_len());
        let fallbacks = bench.log.statistics().fallbacks;
        for _ in 0..5 {
            *version += 1;
            bench.write(&object, *version, true);
            bench.commit(object.id(), *version);
        }
        assert_eq!(bench.log.statistics().fallbacks, fallbacks);
        assert!(used.log_len() > before.0);
        assert_eq!(log.log_len() > before.1, std::ptr::eq(used, &**log));
    };
    commits(&mut version, log);
    log.inject(Fault::everywhere(kind, Times::Always));
    let before = bench.log.statistics().fallbacks;
    version += 1;
    bench.write(&object, version, true);
    bench.commit(object.id(), version);
    assert!(bench.log.statistics().fallbacks > before);
    until_logged(&bench, &object, &mut version);
    commits(&mut version, data);
    let status = bench.pool.status().unwrap();
    assert_eq!(status.suspended, None);
    assert_eq!(status.condition.state, VdevState::Degraded);
    assert!(!status.root.children[1].condition.state.is_usable());
    let failed = bench.timeline.now();
    log.heal();
    bench.pool.clear(&|_| true).unwrap();
    bench.pool.sync().unwrap();
    let status = bench.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Healthy);
    for _ in 0..3 {
        // The tail of the chain is still where it was.
        until_logged(&bench, &object, &mut version);
        bench.pool.sync().unwrap();
    }
    commits(&mut version, log);
    let folder = tempfile::tempdir().unwrap();
    for (moment, survivors) in [(failed, seed), (u64::MAX, seed)] {
        check(&bench, moment, survivors, folder.path(), true);
    }
}

#[test]
fn a_log_device_that_refuses_writes_is_done_without() {
    lose_log_device(11, FaultKind::WriteError);
}

#[test]
fn a_log_device_that_fails_its_flush_is_done_without() {
    lose_log_device(12, FaultKind::FlushError);
}

/// One side of a mirrored log fails: nobody notices.
#[test]
fn a_side_of_a_mirrored_log_may_fail() {
    let bench = Bench::new(13, 2);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    bench.disks[2].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    let before = bench.log.statistics().fallbacks;
    for _ in 0..10 {
        version += 1;
        bench.write(&object, version, true);
        bench.commit(object.id(), version);
    }
    assert_eq!(bench.log.statistics().fallbacks, before);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, 13, folder.path(), true);
}

/// The log cannot be written once: the commit takes the way of the txg, and the next chain works.
#[test]
fn a_log_that_cannot_be_written_gives_way_to_the_txg() {
    let bench = Bench::new(9, 0);
    bench.log.commit_all().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // One block of the log: of several that are written together each is tried again by itself.
    let mut objects = (0..LENGTHS.len()).map(|_| bench.create());
    let is_small = |object: &Arc<Object>| (object.id().0 as usize).is_multiple_of(LENGTHS.len());
    let object = objects.find(is_small).unwrap();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    for _ in 0..3 {
        version += 1;
        bench.write(&object, version, version % 2 == 0);
        let before = bench.log.statistics();
        let fault = Fault::everywhere(FaultKind::WriteError, Times::Count(1));
        bench.disks[0].inject(fault);
        bench.commit(object.id(), version);
        let after = bench.log.statistics();
        assert_eq!(after.fallbacks, before.fallbacks + 1);
        check(&bench, u64::MAX, version, folder.path(), false);
        until_logged(&bench, &object, &mut version);
    }
    check(&bench, u64::MAX, version, folder.path(), true);
}

/// The devices are gone: commits fail, promptly, and go on where they were once the pool is cleared.
#[test]
fn a_suspended_pool_commits_nothing_and_loses_nothing() {
    let bench = Bench::new(15, 0);
    bench.log.commit_all().unwrap();
    let object = bench.create();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    bench.disks[0].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    version += 1;
    bench.write(&object, version, true);
    bench.log.commit(object.id()).unwrap_err();
    assert!(bench.pool.suspended().is_some());
    bench.disks[0].heal();
    bench.pool.clear(&|_| true).unwrap();
    bench.commit(object.id(), version);
    until_logged(&bench, &object, &mut version);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, version, folder.path(), true);
}

/// An export leaves no log, and loses nothing of it.
#[test]
fn an_export_ends_a_live_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "exported");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let devices = vec![NewDevice::Path(path)];
    let bench = Bench::on(devices, Vec::new(), Vec::new(), Timeline::new());
    bench.log.commit_all().unwrap();
    let object = bench.create();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    bench.pool.export().unwrap();
    let (id, length) = (object.id(), LENGTHS[object.id().0 as usize % LENGTHS.len()]);
    drop((object, bench));
    let laboratory = Laboratory::import(folder.path(), false).unwrap();
    let log = open_log(&laboratory);
    assert!(!log.is_owed());
    assert_eq!(log.objects().intent_log_header().log, BlockPointer::HOLE);
    let mut bytes = vec![0; length];
    let object = log.objects().object(id).unwrap();
    object.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, content(version, length));
    drop((object, log));
    laboratory.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

/// A head with a live log is rolled back or destroyed: nothing of the log is left, at any crash point.
#[test]
fn a_live_log_goes_with_its_head() {
    for destroys in [false, true] {
        let bench = Bench::new(16 + u64::from(destroys), 1);
        let dsl = bench.pool.dsl();
        let path = format!("{POOL}/child");
        let create = CreateDataset {
            path: path.clone(),
            kind: format::ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: Some(millpond_torture::forest::real::populate()),
        };
        dsl.run(create).unwrap();
        let names = vec![format!("{path}@before")];
        let properties = Vec::new();
        dsl.run(Snapshot { names, properties }).unwrap();
        let head = dsl.dataset(&path).unwrap();
        let log = bench.pool.intent_log(&head).unwrap().unwrap();
        let child = Bench {
            timeline: bench.timeline.clone(),
            disks: bench.disks.clone(),
            pool: Arc::clone(&bench.pool),
            _laboratory: Mutex::new(Laboratory::open(Arc::clone(&bench.pool), false)),
            log,
            acknowledged: Mutex::new(Vec::new()),
        };
        child.log.commit_all().unwrap();
        let object = child.create();
        let mut version = 0;
        until_logged(&child, &object, &mut version);
        for _ in 0..5 {
            version += 1;
            child.write(&object, version, version % 2 == 0);
            child.commit(object.id(), version);
        }
        let first = bench.timeline.now();
        drop((object, head, child));
        if destroys {
            let names = vec![format!("{path}@before")];
            let defer = false;
            dsl.run(DestroySnapshots { names, defer }).unwrap();
            dsl.run(DestroyHead { path }).unwrap();
        } else {
            let snapshot = None;
            dsl.run(Rollback { path, snapshot }).unwrap();
        }
        for _ in 0..3 {
            bench.pool.sync().unwrap();
        }
        let last = bench.timeline.now();
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random::new(16);
        for point in 0..3 {
            let moment = match point {
                0 => u64::MAX,
                _ => first + random.draw() % (last - first + 1),
            };
            bench.crash(moment, random.draw(), folder.path());
            let laboratory = Laboratory::import(folder.path(), false).unwrap();
            laboratory.export().unwrap();
            if let Some(zdb) = golden::Zdb::from_environment() {
                zdb.assert_clean(folder.path(), POOL);
            }
        }
    }
}

/// Fails at a record, after what came before is on disk.
struct Failing<'a> {
    inner: Objects<'a>,
    pool: &'a Pool,
    left: usize,
}

impl Replay for Failing<'_> {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), String> {
        if self.left == 0 {
            self.pool.sync().unwrap();
            return Err("not now".to_owned());
        }
        self.left -= 1;
        self.inner.apply(record, block)
    }
}

/// A replay ends in its middle, with an error or as at a crash: the next goes on behind it.
#[test]
fn a_replay_that_ends_early_is_taken_up_again() {
    let bench = Bench::new(17, 1);
    bench.log.commit_all().unwrap();
    bench.pool.sync().unwrap();
    for version in 1..=12 {
        let object = bench.create();
        bench.write(&object, version, version % 2 == 0);
        bench.commit(object.id(), version);
    }
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 17, folder.path());
    let mut applied = 0;
    for round in 0..4 {
        let laboratory = Laboratory::import(folder.path(), false).unwrap();
        let log = open_log(&laboratory);
        let objects = Objects::of(&laboratory, &log);
        let mut replay = Failing {
            inner: objects,
            pool: &laboratory.pool,
            left: if round == 3 { usize::MAX } else { 5 },
        };
        let replayed = log.replay(&mut replay).unwrap();
        println!("round {round}: {replayed:?}");
        // What was applied in earlier rounds is not applied again.
        assert!(replayed.skipped >= applied, "{applied} were applied before");
        applied += replayed.records;
        assert_eq!(replayed.failed.is_some(), round < 3);
        assert_eq!(log.is_owed(), round < 3);
        if round == 3 {
            verify(&bench, &log, u64::MAX, &replayed);
        }
        drop(log);
        if round == 1 {
            laboratory.export().unwrap();
        }
    }
    let laboratory = Laboratory::import(folder.path(), false).unwrap();
    laboratory.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

/// Makes an object, and makes a record durable that says that it has the blocks of another: both objects, and their
/// length.
fn clone_of(bench: &Bench, source: &Arc<Object>) -> (ObjectId, ObjectId, usize) {
    let copy = bench.create();
    let length = LENGTHS[source.id().0 as usize % LENGTHS.len()];
    let size = u64::from(source.block_size());
    let blocks = (length as u64).div_ceil(size);
    let mut pointers = Vec::new();
    for block in 0..blocks {
        let mut bytes = vec![0; 128];
        let pointer = source.block_pointer(block).unwrap();
        format::record::put_at(&mut bytes, 0, &pointer, ByteOrder::NATIVE);
        pointers.extend(bytes);
    }
    let fields = CloneRangeFields {
        object: copy.id(),
        offset: 0,
        length: length as u64,
        block_size: size,
        pointer_count: blocks,
    };
    let record = fields.to_bytes(ByteOrder::NATIVE);
    let record = encode_record(kind::CLONE_RANGE, &record, &[&pointers]);
    let tx = bench.tx(0);
    bench
        .log
        .append(&tx, Scope::Object(copy.id()), Entry::Record(record));
    drop(tx);
    bench.log.commit(copy.id()).unwrap();
    (source.id(), copy.id(), length)
}

/// Clones in a log, which only counts of references could claim: their blocks are copied when the log is claimed.
#[test]
fn clones_in_a_log_are_replayed_as_writes() {
    const COUNT: usize = 13;
    let bench = Bench::new(18, 0);
    bench.log.commit_all().unwrap();
    // All of `LENGTHS`: one has several blocks.
    let sources: Vec<_> = (0..4).map(|_| bench.create()).collect();
    for (object, version) in sources.iter().zip(1..) {
        bench.write(object, version, false);
    }
    bench.pool.sync().unwrap();
    let copies: Vec<_> = sources
        .iter()
        .map(|source| clone_of(&bench, source))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 18, folder.path());
    // Claimed by one import, after which the sources are overwritten; replayed by the next.
    for round in 0..2 {
        let laboratory = Laboratory::import(folder.path(), false).unwrap();
        let log = open_log(&laboratory);
        assert!(log.is_owed());
        if round == 0 {
            drop(log);
            laboratory.export().unwrap();
            if let Some(zdb) = golden::Zdb::from_environment() {
                zdb.assert_clean(folder.path(), POOL);
            }
            continue;
        }
        let mut objects = Objects::of(&laboratory, &log);
        let replayed = log.replay(&mut objects).unwrap();
        assert_eq!(replayed.failed, None);
        assert!(objects.pointers >= COUNT, "{} blocks", objects.pointers);
        for (source, copy, length) in &copies {
            let read = |id| {
                let mut bytes = vec![0; *length];
                let object = log.objects().object(id).unwrap();
                object.read(0, &mut bytes).unwrap();
                bytes
            };
            assert!(read(*source) == read(*copy), "a copy of {length} bytes");
        }
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
    let bench = Bench::on(vec![device], Vec::new(), Vec::new(), Timeline::new());
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

/// Counts what it is told.
#[derive(Default)]
struct Told {
    durable: AtomicU64,
    refused: AtomicU64,
}

impl Asker for Told {
    fn committed(&self, durable: bool) {
        let count = if durable {
            &self.durable
        } else {
            &self.refused
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl Told {
    /// Waits until so many were told either.
    fn wait(&self, count: u64) {
        let start = Instant::now();
        let told = || self.durable.load(Ordering::SeqCst) + self.refused.load(Ordering::SeqCst);
        while told() < count {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "callers are forgotten"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Commits of callers without threads are led, share batches, and are durable when that is said.
#[test]
fn commits_without_threads_survive() {
    const OBJECTS: u64 = 40;
    let bench = Bench::new(11, 0);
    let told = Arc::new(Told::default());
    let asker = || Arc::clone(&told) as Arc<dyn Asker>;
    // There is no chain yet: they are told to wait for the txg.
    let first = bench.create();
    assert!(bench.log.commit_absent(first.id(), asker()));
    told.wait(1);
    assert_eq!(told.refused.load(Ordering::SeqCst), 1);
    bench.log.commit_all().unwrap();
    // A large write may be written where it belongs first: that takes a thread.
    let objects: Vec<_> = (0..OBJECTS).map(|_| bench.create()).collect();
    let large = objects.iter().find(|object| object.id().0 % 4 == 3);
    bench.write(large.unwrap(), 1, false);
    assert!(!bench.log.commit_absent(large.unwrap().id(), asker()));
    bench.commit(large.unwrap().id(), 1);
    let before = bench.log.statistics();
    for object in &objects {
        bench.write(object, 2, true);
        assert!(bench.log.commit_absent(object.id(), asker()));
    }
    told.wait(1 + OBJECTS);
    assert_eq!(told.durable.load(Ordering::SeqCst), OBJECTS);
    let after = bench.log.statistics();
    assert_eq!(after.commits - before.commits, OBJECTS);
    let events = bench.timeline.now();
    let acknowledged = objects.iter().map(|object| (events, object.id(), 2));
    bench.acknowledged.lock().unwrap().extend(acknowledged);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, events, 5, folder.path(), true);
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
