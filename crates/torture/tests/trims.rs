//! Trims beside random histories, on a simulated disk whose discarded ranges are rubbish at once. The disk is left at
//! random moments; the newest state and those that a safe rewind may go to must be whole.

use millpond_torture::laboratory::{Laboratory, POOL, image, run_operations};
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, seed};
use millpond_torture::real::differences;
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{ImportOptions, NewDevice, Rewind, Selection};
use sim::{Event, SimulatedDisk};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 80 << 20;
/// A pool can be taken back by so many txgs.
const REWIND_TXGS: u64 = 2;
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
    let laboratory = Laboratory::create(vec![device]).unwrap();
    let pool = Arc::clone(&laboratory.pool);
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
        run_operations(&laboratory.root(), &mut tree, &mut chooser, 12);
        for _ in 0..SYNCS {
            pool.sync().unwrap();
            states.insert(engine.synced_txg().0, tree.clone());
        }
    }
    drop(pool);
    // Left as at a crash: not exported.
    drop(laboratory);
    Recorded {
        disk,
        states,
        first,
    }
}

/// The txgs of an image that can be imported safely, the newest first.
fn safe_txgs(path: &Path) -> Vec<u64> {
    let device = device::FileDevice::open(path, device::Access::ReadOnly).unwrap();
    let labels = vdev::read_labels(&device);
    let mut txgs: Vec<u64> = labels
        .uberblocks
        .iter()
        .map(|candidate| candidate.uberblock.txg.0)
        .collect();
    txgs.sort_unstable();
    txgs.dedup();
    let newest = *txgs.last().expect("an uberblock is always there");
    txgs.retain(|txg| txg + REWIND_TXGS >= newest);
    txgs.reverse();
    txgs
}

fn import_as_of(folder: &Path, txg: u64) -> Laboratory {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.into()));
    options.read_only = true;
    options.force = true;
    options.rewind = Rewind::To(base::Txg(txg));
    let laboratory = Laboratory::import_as(&options).unwrap();
    let rewound = laboratory.pool.rewound();
    let came_to = rewound.map_or(txg, |rewound| rewound.txg.0);
    assert_eq!(came_to, txg, "the state of txg {txg} is not whole");
    laboratory
}

impl Recorded {
    /// Leaves the disk after `event` events, and checks what is imported; how many states were compared.
    fn check(&self, event: usize, seed: u64, folder: &Path, judge: bool) -> usize {
        let path = image(folder, "crashed");
        let _ = std::fs::remove_file(&path);
        let crashed = self.disk.crash_at(event, seed);
        crashed.write_to_file(&path).unwrap();
        let mut compared = 0;
        for txg in safe_txgs(&path) {
            let laboratory = import_as_of(folder, txg);
            if let Some(tree) = self.states.get(&txg) {
                let found = differences(tree, &laboratory.root());
                assert!(found.is_empty(), "txg {txg}:\n{}", found.join("\n"));
                compared += 1;
            } else {
                // Between two known states: what is there can be read, that is all.
                let _ = differences(&Tree::new(), &laboratory.root());
            }
            let errors = laboratory.pool.status().unwrap().errors;
            assert!(errors.is_empty(), "txg {txg}: {errors:?}");
        }
        if judge {
            let laboratory = Laboratory::import(folder, false).unwrap();
            drop(laboratory.root());
            laboratory.pool.start_scrub().unwrap();
            laboratory.pool.wait_scrub().unwrap();
            assert_eq!(laboratory.pool.scan().unwrap().unwrap().errors, 0);
            laboratory.export().unwrap();
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
