//! A pool whose objects are changed through its log, and what is expected of it after a crash.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base::{ByteOrder, ObjectId, Txg};
use device::BlockDevice;
use dmu::{AllocateObject, Object, ObjectSet, Reservation, Tx};
use dsl::PropertyValue;
use dsl::property::dataset::DEDUP;
use format::ObjectType;
use format::intent_log::{Body, CreateFields, Record, encode_record, kind};
use intent::{Data, Entry, Log, Replay, Replayed, Scope, Unapplied, WriteEntry};
use millpond_torture::random::Random;
pub(crate) use millpond_torture::random::seed;
use millpond_torture::test_pool::{POOL, TestPool, image};
use millpond_torture::{aftermath, hesitant};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use sim::{SimulatedDisk, Timeline};

pub(crate) const SIZE: u64 = 96 << 20;
/// Bytes of an object; each write fills the whole object with its version.
pub(crate) const LENGTHS: [usize; 4] = [600, 4096, 9000, 200_000];

/// A pool whose objects are changed through the log.
pub(crate) struct Bench {
    pub(crate) timeline: Timeline,
    pub(crate) disks: Vec<Arc<SimulatedDisk>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) test_pool: Mutex<TestPool>,
    pub(crate) log: Arc<Log>,
    /// What commits acknowledged: the moment, the object, its version.
    pub(crate) acknowledged: Mutex<Vec<(u64, ObjectId, u64)>>,
    /// The moments at which txgs had synced that somebody asked for.
    pub(crate) synced: Mutex<Vec<u64>>,
}

/// The version, and bytes that follow from it and do not compress.
pub(crate) fn content(version: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(version);
    let mut bytes = version.to_le_bytes().to_vec();
    while bytes.len() < length {
        bytes.extend(random.draw().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn open_log(test_pool: &TestPool) -> Arc<Log> {
    let head = test_pool.pool.dsl().dataset(POOL).unwrap();
    test_pool.pool.intent_log(&head).unwrap().unwrap()
}

impl Bench {
    /// A pool of one disk for data and so many for its logs.
    pub(crate) fn new(seed: u64, logs: usize) -> Self {
        Self::with_devices(seed, logs, |disk, _| disk)
    }

    /// The same on disks that hesitate, as the seed says.
    pub(crate) fn hesitant(seed: u64, logs: usize) -> Self {
        Self::with_devices(seed, logs, hesitant::device)
    }

    fn with_devices(
        seed: u64,
        logs: usize,
        before: impl Fn(Arc<dyn BlockDevice>, u64) -> Arc<dyn BlockDevice>,
    ) -> Self {
        let timeline = Timeline::new();
        let disk = |index: usize| {
            let disk = SimulatedDisk::on_timeline(SIZE, seed * 10 + index as u64, &timeline);
            Arc::new(disk)
        };
        let disks: Vec<_> = (0..=logs).map(disk).collect();
        let device = |(index, disk): (usize, &Arc<SimulatedDisk>)| {
            let path = format!("/simulated/disk{index}");
            let device = before(Arc::clone(disk) as _, seed * 10 + index as u64);
            NewDevice::Open(path.into(), device)
        };
        let mut devices: Vec<_> = disks.iter().enumerate().map(device).collect();
        let logs = devices.split_off(1);
        Self::on(devices, logs, disks, timeline)
    }

    pub(crate) fn on(
        devices: Vec<NewDevice>,
        logs: Vec<NewDevice>,
        disks: Vec<Arc<SimulatedDisk>>,
        timeline: Timeline,
    ) -> Self {
        let test_pool = TestPool::create_with_logs(devices, logs).unwrap();
        Self::around(test_pool, disks, timeline)
    }

    /// A pool of one disk whose file systems are encrypted, with a cipher that the seed draws.
    pub(crate) fn encrypted(seed: u64) -> Self {
        let timeline = Timeline::new();
        let disk = Arc::new(SimulatedDisk::on_timeline(SIZE, seed * 10, &timeline));
        let device = NewDevice::Open("/simulated/disk0".into(), Arc::clone(&disk) as _);
        let test_pool = TestPool::create_encrypted(vec![device], seed).unwrap();
        Self::around(test_pool, vec![disk], timeline)
    }

    /// A pool of one disk that is deduplicated.
    pub(crate) fn deduplicated(seed: u64) -> Self {
        let timeline = Timeline::new();
        let disk = Arc::new(SimulatedDisk::on_timeline(SIZE, seed * 10, &timeline));
        let device = NewDevice::Open("/simulated/disk0".into(), Arc::clone(&disk) as _);
        let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
        let on = (DEDUP.name.to_owned(), PropertyValue::Number(1));
        options.root.properties.push(on);
        options.root.populate = Some(millpond_torture::pool_model::real::populate());
        let test_pool = TestPool::create_as(options).unwrap();
        Self::around(test_pool, vec![disk], timeline)
    }

    fn around(test_pool: TestPool, disks: Vec<Arc<SimulatedDisk>>, timeline: Timeline) -> Self {
        let log = open_log(&test_pool);
        Self {
            timeline,
            disks,
            log,
            pool: Arc::clone(&test_pool.pool),
            test_pool: Mutex::new(test_pool),
            acknowledged: Mutex::default(),
            synced: Mutex::default(),
        }
    }

    /// Lets go of the log, and opens it again when `meanwhile` is over.
    pub(crate) fn reopen_log(self, meanwhile: impl FnOnce()) -> Self {
        let Self {
            timeline,
            disks,
            pool,
            test_pool,
            log,
            acknowledged,
            synced,
        } = self;
        drop(log);
        meanwhile();
        let log = open_log(&test_pool.lock().unwrap());
        Self {
            timeline,
            disks,
            pool,
            test_pool,
            log,
            acknowledged,
            synced,
        }
    }

    /// Leaves the disks as a power loss at that moment does.
    pub(crate) fn crash(&self, moment: u64, survivors: u64, folder: &Path) {
        for (index, disk) in self.disks.iter().enumerate() {
            let path = image(folder, &format!("crashed{index}"));
            let _ = std::fs::remove_file(&path);
            let crashed = disk.crash_at_moment(moment, survivors + index as u64);
            crashed.write_to_file(&path).unwrap();
        }
    }

    pub(crate) fn tx(&self, bytes: usize) -> Tx {
        let engine = self.pool.engine().unwrap();
        let reservation = Reservation {
            write_bytes: bytes as u64,
            objects: 1,
            ..Reservation::default()
        };
        Tx::assign(engine, &reservation).unwrap()
    }

    pub(crate) fn create(&self) -> Arc<Object> {
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
            .append(&tx, Scope::Namespace, vec![Entry::Record(record)]);
        object
    }

    pub(crate) fn write(&self, object: &Arc<Object>, version: u64, copied: bool) {
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
            .append(&tx, Scope::Object(object.id()), vec![Entry::Write(entry)]);
    }

    pub(crate) fn commit(&self, object: ObjectId, version: u64) {
        self.log.commit(object).unwrap();
        let events = self.timeline.now();
        self.acknowledged
            .lock()
            .unwrap()
            .push((events, object, version));
    }

    /// One thread's part: its own objects, written and committed.
    pub(crate) fn work(&self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        let mut objects = vec![self.create()];
        for version in 1..=steps {
            match random.below(8) {
                0 => objects.push(self.create()),
                1 if random.below(2) == 0 => {
                    self.pool.sync().unwrap();
                    self.synced.lock().unwrap().push(self.timeline.now());
                }
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
    pub(crate) fn floor(&self, events: u64) -> BTreeMap<ObjectId, u64> {
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
pub(crate) struct Objects<'a> {
    pub(crate) set: &'a Arc<ObjectSet>,
    pub(crate) log: &'a Log,
    pub(crate) engine: &'a Arc<txg::Engine>,
    pub(crate) seen: Vec<(u64, Txg)>,
    /// The sequence numbers of records that were passed over.
    pub(crate) passed_over: Vec<u64>,
    pub(crate) pointers: usize,
}

impl<'a> Objects<'a> {
    pub(crate) fn of(test_pool: &'a TestPool, log: &'a Log) -> Self {
        Self {
            set: log.objects(),
            log,
            engine: test_pool.pool.engine().unwrap(),
            seen: Vec::new(),
            passed_over: Vec::new(),
            pointers: 0,
        }
    }
}

impl Replay for Objects<'_> {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), Unapplied> {
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
                        None if record.tail.is_empty() => {
                            let zeros = vec![0; fields.length as usize];
                            object.write(&tx, fields.offset, &zeros).unwrap();
                        }
                        None => {
                            let data = &record.tail[..fields.length as usize];
                            object.write(&tx, fields.offset, data).unwrap();
                        }
                    }
                }
            }
            _ => return Err("no such record was written".to_owned().into()),
        }
        self.log.append_nothing(&tx);
        Ok(())
    }

    fn pass_over(&mut self, record: &Record<'_>) {
        self.passed_over.push(record.header.sequence);
    }
}

/// Leaves the disks at a moment and looks what an import makes of it.
pub(crate) fn check(bench: &Bench, events: u64, survivors: u64, folder: &Path, zdb: bool) -> usize {
    bench.crash(events, survivors, folder);
    let zdb = golden::Zdb::from_environment().filter(|_| zdb);
    if let Some(zdb) = &zdb {
        zdb.assert_clean(folder, POOL);
    }
    let pointers = check_images(bench, events, folder);
    if let Some(zdb) = zdb {
        zdb.assert_clean(folder, POOL);
    }
    pointers
}

/// Imports what a crash at that moment left, replays, and looks whether everything is there.
pub(crate) fn check_images(bench: &Bench, events: u64, folder: &Path) -> usize {
    let test_pool = TestPool::import(folder, false).unwrap();
    let log = open_log(&test_pool);
    let mut objects = Objects::of(&test_pool, &log);
    let replayed = log.replay(&mut objects).unwrap();
    assert_eq!(replayed.failed, None);
    // Where the chain ends a device has other bytes, and is not to blame for it.
    let root = test_pool.pool.status().unwrap().root;
    assert_eq!(root.errors.checksum, 0);
    let pointers = objects.pointers;
    println!("  {replayed:?}, {pointers} of them point to blocks");
    let ordered = objects.seen.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ordered, "records out of order: {:?}", objects.seen);
    verify(bench, &log, events, &replayed);
    assert!(!log.is_owed());
    drop(log);
    test_pool.export().unwrap();
    aftermath::on_devices(folder);
    pointers
}

/// Everything that was acknowledged at a moment must be there.
pub(crate) fn verify(bench: &Bench, log: &Log, events: u64, replayed: &Replayed) {
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

pub(crate) fn explore(seed: u64, threads: u64, steps: u64, points: usize) {
    // The seed says how many log devices the pool has; two are a mirror.
    let logs = seed as usize % 3;
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test log");
    let _limits = millpond_torture::tunables::drawn(seed);
    let bench = Bench::hesitant(seed, logs);
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
    let synced = bench.synced.lock().unwrap().clone();
    for point in 0..points {
        // Most points are moments at which a commit returned, or a txg had synced.
        let chosen: &[u64] = [&moments[..], &synced[..], &[]][point % 3];
        let events = match chosen.get(random.below(chosen.len())) {
            Some(events) => *events,
            None => first + random.draw() % (last - first + 1),
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
    assert!(pointers == 0 || logs == 0, "{pointers} beside log devices");
    // The limit is drawn as well.
    let mut limits = intent::TUNABLES.iter();
    let direct_min = limits.find(|limit| limit.name() == "intent.direct_bytes_min");
    let longest = LENGTHS.into_iter().max().unwrap_or(0) as u64;
    if logs == 0 && direct_min.unwrap().get() <= longest {
        assert!(pointers > 0, "no large write went in place");
    }
}
