//! Trims beside random histories, on a simulated disk whose discarded ranges are rubbish at once. The disk is left at
//! random moments; the newest state and those that a safe rewind may go to must be whole.

use millpond_torture::model::Tree;
use millpond_torture::operation::{Chooser, Operation, Place};
use millpond_torture::random::{Random, seed};
use millpond_torture::real::{self, differences};
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{ImportOptions, NewDevice, Rewind, Selection};
use sim::{Event, SimulatedDisk};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 80 << 20;
/// The newest state and so many that were written before it stay whole.
const STATES_BEFORE: usize = 2;
/// Txgs of a round: many, so that batches of `autotrim` come up as well.
const SYNCS: usize = 4;

struct Recorded {
    disk: Arc<SimulatedDisk>,
    /// By txg: the model when it had synced. Txgs that ended in the middle of a round are not known.
    states: BTreeMap<u64, Tree>,
    /// Events before trims began.
    first: usize,
}

fn record(seed: u64, rounds: usize) -> Recorded {
    let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let pool = Arc::clone(&test_pool.pool);
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    let mut states = BTreeMap::new();
    let engine = Arc::clone(pool.engine().unwrap());
    let auto = ("autotrim".to_owned(), dsl::PropertyValue::Number(1));
    pool.set_properties(vec![auto]).unwrap();
    let leaf = pool.vdevs().tops()[0].leaves()[0].guid();
    let first = disk.log_len();
    for _ in 0..rounds {
        // The one that was begun before may be under way still: then this is refused, and it goes on.
        let refused = pool.start_trims(&[leaf], 0, false).unwrap();
        assert!(refused.len() <= 1);
        states.insert(engine.synced_txg().0, tree.clone());
        run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
        for _ in 0..SYNCS {
            pool.sync().unwrap();
            states.insert(engine.synced_txg().0, tree.clone());
        }
    }
    drop(pool);
    // Left as at a crash: not exported.
    drop(test_pool);
    Recorded {
        disk,
        states,
        first,
    }
}

/// The txgs of an image that can be imported safely, the newest first: also where txgs without changes came between.
fn safe_txgs(device: &dyn device::BlockDevice) -> Vec<u64> {
    let labels = vdev::read_labels(device);
    let mut txgs: Vec<u64> = labels
        .uberblocks
        .iter()
        .map(|candidate| candidate.uberblock.txg.0)
        .collect();
    txgs.sort_unstable();
    txgs.dedup();
    txgs.reverse();
    txgs.truncate(1 + STATES_BEFORE);
    txgs
}

fn import_as_of(folder: &Path, txg: u64) -> TestPool {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.into()));
    options.read_only = true;
    options.force = true;
    options.rewind = Rewind::To(base::Txg(txg));
    let test_pool = TestPool::import_as(&options).unwrap();
    let rewound = test_pool.pool.rewound();
    let came_to = rewound.map_or(txg, |rewound| rewound.txg.0);
    assert_eq!(came_to, txg, "the state of txg {txg} is not whole");
    test_pool
}

impl Recorded {
    /// Leaves the disk after `event` events, and checks what is imported; how many states were compared.
    fn check(&self, event: usize, seed: u64, folder: &Path, judge: bool) -> usize {
        let path = image(folder, "crashed");
        let _ = std::fs::remove_file(&path);
        let crashed = self.disk.crash_at(event, seed);
        crashed.write_to_file(&path).unwrap();
        let mut compared = 0;
        for txg in safe_txgs(&crashed) {
            let test_pool = import_as_of(folder, txg);
            if let Some(tree) = self.states.get(&txg) {
                let found = differences(tree, &test_pool.root());
                assert!(found.is_empty(), "txg {txg}:\n{}", found.join("\n"));
                compared += 1;
            } else {
                // Between two known states: what is there can be read, that is all.
                let _ = differences(&Tree::new(), &test_pool.root());
            }
            let errors = test_pool.pool.status().unwrap().errors;
            assert!(errors.is_empty(), "txg {txg}: {errors:?}");
        }
        if judge {
            let test_pool = TestPool::import(folder, false).unwrap();
            drop(test_pool.root());
            test_pool.pool.start_scrub().unwrap();
            test_pool.pool.wait_scrub().unwrap();
            assert_eq!(test_pool.pool.scan().unwrap().unwrap().errors, 0);
            test_pool.export().unwrap();
            if let Some(zdb) = golden::Zdb::from_environment() {
                zdb.assert_clean(folder, POOL);
            }
        }
        compared
    }
}

fn explore(seed: u64, rounds: usize, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test trims");
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let recorded = record(seed, rounds);
    let last = recorded.disk.log_len();
    let discards: u64 = (recorded.first..last)
        .filter_map(|index| match recorded.disk.event(index) {
            Some(Event::Discard { len, .. }) => Some(len),
            _ => None,
        })
        .sum();
    println!("{discards} bytes discarded in {last} events");
    assert!(discards > 0);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    let mut compared = 0;
    for point in 0..points {
        let event = recorded.first + random.below(last - recorded.first + 1);
        let survivors = random.draw();
        println!("crash point {point}: event {event} of {last}, survivors {survivors}");
        compared += recorded.check(event, survivors, folder.path(), point % 4 == 3);
    }
    println!("{compared} states compared");
    assert!(compared > 0);
}

#[test]
fn crash_points_beside_trims() {
    explore(seed(1), 12, 6);
}

/// A pool of which a large file was removed, with txgs after that in which nothing changed.
struct Quiet {
    test_pool: TestPool,
    tree: Tree,
    recorded: Recorded,
    /// The txg in which it was removed.
    removed: u64,
}

impl Quiet {
    const PIECES: usize = 8;

    fn new() -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, 1));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        let mut quiet = Self {
            test_pool: TestPool::create(vec![device]).unwrap(),
            tree: Tree::new(),
            recorded: Recorded {
                disk,
                states: BTreeMap::new(),
                first: 0,
            },
            removed: 0,
        };
        quiet.write("kept", 2, 1);
        quiet.sync();
        quiet.write("gone", Self::PIECES, 2);
        quiet.sync();
        quiet.remove();
        quiet.recorded.first = quiet.recorded.disk.log_len();
        quiet
    }

    /// The file goes, and nothing else happens for a while.
    fn remove(&mut self) {
        self.apply(&Operation::Unlink(place("gone")));
        self.removed = self.sync();
        for _ in 0..4 {
            self.sync_unchanged();
        }
    }

    fn apply(&mut self, operation: &Operation) {
        self.tree.apply(operation).unwrap();
        real::apply(&self.test_pool.root(), operation).unwrap();
    }

    /// A new file of so many MiB that compress to nothing less.
    fn write(&mut self, name: &str, pieces: usize, seed: u64) {
        const PIECE: usize = 1 << 20;
        let mut random = Random::new(seed);
        self.apply(&Operation::Create(place(name), 0o644));
        for piece in 0..pieces {
            let data = random.bytes(PIECE);
            self.apply(&Operation::Write(place(name), piece * PIECE, data, false));
        }
    }

    /// Ends a txg: which it is.
    fn sync(&mut self) -> u64 {
        let pool = &self.test_pool.pool;
        pool.sync().unwrap();
        let synced = pool.engine().unwrap().synced_txg();
        self.recorded.states.insert(synced.0, self.tree.clone());
        synced.0
    }

    /// As [`Self::sync`], when nothing was changed since the last one.
    fn sync_unchanged(&mut self) {
        let last = self.recorded.states.last_key_value();
        let next = last.map_or(0, |(txg, _)| txg + 1);
        for txg in next..self.sync() {
            self.recorded.states.insert(txg, self.tree.clone());
        }
    }

    /// Leaves the disk at moments since the txgs without changes.
    fn check(self, points: usize) {
        drop(self.test_pool);
        let (first, last) = (self.recorded.first, self.recorded.disk.log_len());
        let folder = tempfile::tempdir().unwrap();
        for point in 0..=points {
            let event = first + (last - first) * point / points;
            println!("crash point {point}: event {event} of {first} to {last}");
            let compared = self.recorded.check(event, 7, folder.path(), false);
            assert!(compared > STATES_BEFORE, "{compared} states compared");
        }
    }
}

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// Limits with which txgs close when they are asked to, and one without changes is written for freed space from so many
/// bytes on.
fn limits(ageing_bytes: u64) -> tunables::Turn {
    let turn = tunables::by_default();
    let asked = "txg.age_ns=600000000000,dsl.room_short_bytes=0,pool.space_short_bytes=0";
    let text = format!("{asked},pool.ageing_bytes={ageing_bytes}");
    base::tunable::set_all(&tunables::all(), &text).unwrap();
    turn
}

/// No txg is written for freed space alone, unless somebody waits for it.
const NEVER: u64 = 1 << 40;

#[test]
fn what_was_freed_is_free_in_an_idle_pool_which_writes_no_more_then() {
    let _limits = limits(1 << 20);
    let quiet = Quiet::new();
    let disk = Arc::clone(&quiet.recorded.disk);
    let pool = &quiet.test_pool.pool;
    assert!(pool.space().deferred < 1 << 20, "{:?}", pool.space());
    assert_eq!(safe_txgs(&*disk)[0], quiet.removed + STATES_BEFORE as u64);
    let first = disk.log_len();
    for _ in 0..5 {
        pool.sync().unwrap();
    }
    let is_write = |index: &usize| matches!(disk.event(*index), Some(Event::Write { .. }));
    assert_eq!((first..disk.log_len()).filter(is_write).count(), 0);
}

#[test]
fn what_older_states_need_is_not_trimmed_after_txgs_without_changes() {
    let _limits = limits(NEVER);
    let mut quiet = Quiet::new();
    let pool = Arc::clone(&quiet.test_pool.pool);
    let leaf = pool.vdevs().tops()[0].leaves()[0].guid();
    assert!(pool.start_trims(&[leaf], 0, false).unwrap().is_empty());
    pool.wait_trims(&[leaf]).unwrap();
    drop(pool);
    quiet.sync_unchanged();
    quiet.check(12);
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        #[test]
        #[ignore = "sim: 40 crash points"]
        fn forty_crash_points_beside_trims() {
            for run in 0..2 {
                explore(seed(3000) + run, 30, 20);
            }
        }
    }
}
