//! Crash points on the path of a txg: a pool on a simulated disk is left at many moments, and each must import as
//! the state of its last txg, whole, with nothing leaked.

use millpond_torture::aftermath;
use millpond_torture::hesitant;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, other_class, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{DedupPrune, NewDevice};
use sim::{SimulatedDisk, Timeline};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 96 << 20;

/// A recorded run: the disks with what was written and flushed when, and the model after each txg.
struct Recorded {
    timeline: Timeline,
    disks: Vec<Arc<SimulatedDisk>>,
    /// By txg: the model when it had synced, and the moment then.
    states: BTreeMap<u64, (Tree, u64)>,
}

fn record(seed: u64, rounds: usize) -> Recorded {
    let timeline = Timeline::new();
    let mut disks = Vec::new();
    let mut device = || {
        let own = seed + (disks.len() as u64) * 1_000_003;
        let disk = Arc::new(SimulatedDisk::on_timeline(SIZE, own, &timeline));
        disks.push(Arc::clone(&disk));
        let path = format!("/simulated/disk{}", disks.len());
        NewDevice::Open(path.into(), hesitant::device(disk as _, own))
    };
    let data = vec![device()];
    let other = other_class(seed).map(|class| (class, device()));
    let test_pool = TestPool::create_drawn_with(data, other, seed).unwrap();
    test_pool.draw_storage(seed, false, None);
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    let mut states = BTreeMap::new();
    let engine = Arc::clone(test_pool.pool.engine().unwrap());
    states.insert(engine.synced_txg().0, (tree.clone(), timeline.now()));
    for round in 0..rounds {
        let before = tree.clone();
        run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
        test_pool.pool.sync().unwrap();
        // Where all were refused nothing is written, and the newest txg on disk may be the one before.
        if tree != before {
            states.insert(engine.synced_txg().0, (tree.clone(), timeline.now()));
        }
        // Old entries leave the dedup tables, where there are any: what is in the files stays.
        if round % 4 == 2 {
            let pruned = test_pool.pool.prune_dedup(DedupPrune::Percent(90)).unwrap();
            println!("{pruned} entries of dedup tables pruned");
        }
    }
    // Left as at a crash: not exported.
    drop(test_pool);
    Recorded {
        timeline,
        disks,
        states,
    }
}

/// The txg of the newest uberblock of an image.
fn newest_txg(path: &Path) -> Option<u64> {
    let device = device::FileDevice::open(path, device::Access::ReadOnly).ok()?;
    let labels = vdev::read_labels(&device);
    labels
        .best_uberblock(None)
        .map(|found| found.uberblock.txg.0)
}

impl Recorded {
    /// Leaves the disks at a moment, with what `seed` lets survive, and checks what is imported.
    fn check(&self, moment: u64, seed: u64, folder: &Path) {
        let leave = |(index, disk): (usize, &Arc<SimulatedDisk>)| {
            let path = image(folder, &format!("crashed{index}"));
            let _ = std::fs::remove_file(&path);
            let crashed = disk.crash_at_moment(moment, seed + index as u64);
            crashed.write_to_file(&path).unwrap();
            newest_txg(&path)
        };
        let txgs = self.disks.iter().enumerate().filter_map(leave);
        let txg = txgs.max().expect("an uberblock is always there");
        // The newest txg that had synced before the crash, and what came after it in flight.
        let floor = self
            .states
            .iter()
            .rfind(|(_, (_, synced))| *synced <= moment);
        if let Some((floor, _)) = floor {
            assert!(
                txg >= *floor,
                "txg {floor} had synced, but {txg} is the newest"
            );
        }
        let (_, (tree, _)) = self.states.range(..=txg).next_back().expect("a state");
        let test_pool = TestPool::import(folder, true).unwrap();
        let found = differences(tree, &test_pool.root());
        assert!(found.is_empty(), "txg {txg}:\n{}", found.join("\n"));
        drop(test_pool);
        // A writable import must go on from there; a sample goes through zdb.
        if seed.is_multiple_of(16) {
            let test_pool = TestPool::import(folder, false).unwrap();
            assert!(
                differences(tree, &test_pool.root()).is_empty(),
                "imported writable"
            );
            aftermath::export(test_pool, folder);
            if let Some(zdb) = golden::Zdb::from_environment() {
                zdb.assert_clean(folder, POOL);
            }
        }
    }
}

fn explore(seed: u64, rounds: usize, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test crashes");
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let recorded = record(seed, rounds);
    let folder = tempfile::tempdir().unwrap();
    let first = recorded
        .states
        .values()
        .next()
        .expect("the pool was made")
        .1;
    let last = recorded.timeline.now();
    let mut random = Random::new(seed);
    for point in 0..points {
        let moment = first + random.draw() % (last - first + 1);
        let survivors = random.draw();
        let survivors = if point % 16 == 0 {
            survivors & !15
        } else {
            survivors | 1
        };
        println!("crash point {point}: event {moment} of {last}, survivors {survivors}");
        recorded.check(moment, survivors, folder.path());
    }
}

#[test]
fn crash_points_of_a_short_history() {
    explore(seed(1), 6, 40);
}

#[test]
#[ignore = "torture: 5,000 crash points of a hundred histories"]
fn five_thousand_crash_points() {
    for run in 0..100 {
        explore(seed(5000) + run, 10, 50);
    }
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        // Two halves, side by side.
        #[test]
        #[ignore = "sim: 250 crash points"]
        fn two_hundred_and_fifty_crash_points() {
            for run in 0..5 {
                explore(seed(1000) + run, 10, 50);
            }
        }

        #[test]
        #[ignore = "sim: 250 crash points"]
        fn as_many_of_other_histories() {
            for run in 5..10 {
                explore(seed(1000) + run, 10, 50);
            }
        }
    }
}
