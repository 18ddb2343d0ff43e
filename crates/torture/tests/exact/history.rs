//! A history that its seed says to the byte: threads that create, write, rename, remove and fsync files and take
//! snapshots, each in a directory of its own, on a simulated disk and under a schedule.

use base::random::{Rng, SeededRng};
use base::schedule::{self, Ran};
use base::thread::{self, Role};
use dsl::tasks::Snapshot;
use millpond_torture::durable::Record;
use millpond_torture::model::Kind;
use millpond_torture::operation::{Chooser, Limits, Operation, Place};
use millpond_torture::random::Random;
use millpond_torture::test_pool::{POOL, TestPool};
use millpond_torture::{real, tunables};
use pool::{NewDevice, Pool};
use posix::{Credentials, FileSystem, OpenOptions};
use sim::{Event, SimulatedDisk, SlowDisk, Slowness};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const SIZE: u64 = 96 << 20;

/// Contents stay small: there are to be many operations between two txgs.
const LIMITS: Limits = Limits {
    file_bytes: 40_000,
    names: 60,
    unnamed: false,
    synchronous: true,
};

/// What operations of the disk take: nothing, as on flash, as on a disk.
const TIMES: [Slowness; 3] = [
    Slowness::NONE,
    Slowness {
        read_us: 100,
        write_us: 200,
        flush_us: 1_000,
    },
    Slowness {
        read_us: 8_000,
        write_us: 20_000,
        flush_us: 50_000,
    },
];

/// What a history is besides its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) threads: usize,
    pub(crate) steps: usize,
}

impl Shape {
    /// The one that the seed draws.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x54A9);
        Self {
            threads: 2 + random.below(6),
            steps: 12 + random.below(30),
        }
    }
}

/// A history that is over.
pub(crate) struct History {
    pub(crate) disk: Arc<SimulatedDisk>,
    /// What each thread did and was promised.
    pub(crate) records: Vec<Record>,
    /// The snapshots that were acknowledged, and how many events the disk had then.
    pub(crate) snapshots: Vec<(usize, String)>,
    /// Events of the disk when the threads began, and when they had ended.
    pub(crate) events: (usize, usize),
}

/// What can be compared of two histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Of all that was written, flushed and discarded, in its order.
    pub(crate) disk: u64,
    pub(crate) events: usize,
    pub(crate) steps: u64,
    pub(crate) switches: u64,
    pub(crate) virtual_ns: u64,
    /// Of all choices of the schedule.
    pub(crate) trace: u64,
}

impl History {
    /// The history of a seed.
    pub(crate) fn of(seed: u64, shape: Shape) -> (Self, Summary) {
        let ran = schedule::run(seed, move || live(seed, shape));
        let Ran {
            value: history,
            steps,
            switches,
            virtual_ns,
            trace,
        } = ran.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let summary = Summary {
            disk: hash(&history.disk),
            events: history.disk.log_len(),
            steps,
            switches,
            virtual_ns,
            trace,
        };
        (history, summary)
    }
}

impl History {
    /// One of its events, at random. Half of them are just behind a flush, where one part of the engine has gone on
    /// and another has not.
    pub(crate) fn event(&self, random: &mut Random) -> usize {
        let (begin, end) = self.events;
        let event = begin + random.below(end - begin + 1);
        if random.one_in(2) {
            return event;
        }
        let is_flush = |index: &usize| matches!(self.disk.event(*index), Some(Event::Flush));
        let flush = (event..end).find(is_flush).unwrap_or(event);
        (flush + random.below(4)).min(end)
    }
}

/// A hash of all events of a disk.
fn hash(disk: &SimulatedDisk) -> u64 {
    // Its keys are fixed.
    let mut hasher = DefaultHasher::new();
    for index in 0..disk.log_len() {
        match disk.event(index) {
            Some(Event::Write { offset, data }) => (0, offset, &data[..]).hash(&mut hasher),
            Some(Event::Discard { offset, len }) => (1, offset, len).hash(&mut hasher),
            Some(Event::Flush) => 2.hash(&mut hasher),
            Some(Event::FlushFailed) => 3.hash(&mut hasher),
            None => {}
        }
    }
    hasher.finish()
}

/// The part of one thread.
struct Part {
    number: usize,
    pool: Arc<Pool>,
    system: Arc<FileSystem>,
    disk: Arc<SimulatedDisk>,
    record: Record,
    snapshots: Vec<(usize, String)>,
}

fn live(seed: u64, shape: Shape) -> History {
    let _limits = tunables::drawn_silently(seed, tunables::CALLS_WHOLE);
    let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
    let times = TIMES[SeededRng::new(seed).below(TIMES.len() as u64) as usize];
    let slow = SlowDisk::new(Arc::clone(&disk) as _, times, seed);
    let device = NewDevice::Open("/simulated/disk".into(), Arc::new(slow));
    let test_pool = TestPool::create(vec![device]).unwrap();
    let system = test_pool.root();
    let parts: Vec<_> = (0..shape.threads)
        .map(|number| Part {
            number,
            pool: Arc::clone(&test_pool.pool),
            system: Arc::clone(&system),
            disk: Arc::clone(&disk),
            record: Record::new(vec![format!("thread{number}")]),
            snapshots: Vec::new(),
        })
        .collect();
    for part in &parts {
        let place = Place {
            directory: Vec::new(),
            name: part.record.place[0].clone(),
        };
        real::apply(&system, &Operation::MakeDirectory(place, 0o755)).unwrap();
    }
    test_pool.pool.sync().unwrap();
    let first = disk.log_len();
    let parts: Vec<_> = thread::scope(|scope| {
        let start = |mut part: Part| {
            let name = part.record.place[0].clone();
            let body = move || {
                part.work(seed * 1000 + part.number as u64, shape.steps);
                part
            };
            let thread = thread::named(name, Role::PART).spawn_scoped(scope, body);
            thread.expect("a thread")
        };
        let threads: Vec<_> = parts.into_iter().map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    let last = disk.log_len();
    // Its threads end when it is exported.
    drop(system);
    let (mut records, mut snapshots) = (Vec::new(), Vec::new());
    for part in parts {
        records.push(part.record);
        snapshots.extend(part.snapshots);
    }
    test_pool.export().unwrap();
    History {
        disk,
        records,
        snapshots,
        events: (first, last),
    }
}

impl Part {
    /// Random operations; one in four is followed by an fsync of some file.
    fn work(&mut self, seed: u64, steps: usize) {
        let limits = Limits {
            unnamed: (seed / 1000).is_multiple_of(2),
            ..LIMITS
        };
        let (mut chooser, mut random) = (Chooser::within(seed, limits), Random::new(seed ^ 0x5EED));
        for step in 0..steps {
            self.operation(&mut chooser);
            match random.below(64) {
                0..16 => self.fsync(&mut random),
                16 => {
                    self.pool.sync().unwrap();
                    self.record.promise(None, self.disk.log_len());
                }
                17 | 18 => self.snapshot(step),
                _ => {}
            }
        }
    }

    fn operation(&mut self, chooser: &mut Chooser) {
        let operation = chooser.next(&self.record.tree);
        let wanted = self.record.tree.clone().apply(&operation);
        let found = real::apply(&self.system, &self.record.below(&operation));
        assert_eq!(wanted.is_ok(), found.is_ok(), "{operation:?}: {found:?}");
        if wanted.is_err() {
            return;
        }
        self.record.note(&operation);
        // A synchronous write is durable when it returns.
        if let Operation::Write(place, _, bytes, true) = &operation
            && !bytes.is_empty()
        {
            let node = self.record.tree.find(place).ok();
            self.record.promise(node, self.disk.log_len());
        }
    }

    fn fsync(&mut self, random: &mut Random) {
        let tree = &self.record.tree;
        let mut files: Vec<_> = tree.places().into_iter().collect();
        files.retain(|(_, node)| matches!(tree.node(*node).kind, Kind::File(_)));
        if files.is_empty() {
            return;
        }
        let (place, node) = random.pick(&files).clone();
        let root = Credentials::root();
        let below = self.record.place.iter().chain(&place.directory);
        let below = below.chain([&place.name]);
        let object = below.fold(self.system.root(), |directory, name| {
            let found = self.system.lookup(&root, directory, name.as_bytes());
            found.unwrap().object
        });
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        let file = self.system.open(&root, object, options).unwrap();
        file.fsync().unwrap();
        self.record.promise(Some(node), self.disk.log_len());
    }

    fn snapshot(&mut self, step: usize) {
        let name = format!("{POOL}@thread{}step{step}", self.number);
        let names = vec![name.clone()];
        let properties = Vec::new();
        self.pool.dsl().run(Snapshot { names, properties }).unwrap();
        // It has synced, with all that was before it.
        self.record.promise(None, self.disk.log_len());
        self.snapshots.push((self.disk.log_len(), name));
    }
}
