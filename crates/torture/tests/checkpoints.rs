//! Checkpoints beside random histories, on simulated disks that are left at random moments: the newest state is whole
//! at each, and where there is a checkpoint, a pool can be taken back to it, also when that is cut short.

use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables;
use pool::{ImportOptions, NewDevice, PoolError, Selection};
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 96 << 20;

/// How the pool stood up to an event of the disk's log.
#[derive(Clone)]
enum Standing {
    None,
    Taken(Tree),
    /// Something of it may be there or not.
    Changing,
}

struct Recorded {
    disk: Arc<SimulatedDisk>,
    /// How it stands from that event on.
    standings: Vec<(usize, Standing)>,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "no checkpoint",
            Self::Taken(_) => "a checkpoint",
            Self::Changing => "a checkpoint that comes or goes",
        })
    }
}

impl Recorded {
    fn stands(&mut self, standing: Standing) {
        self.standings.push((self.disk.log_len(), standing));
    }

    /// A moment at which there is a checkpoint.
    fn draw_taken(&self, random: &mut Random) -> usize {
        let ends = self.standings.iter().skip(1).map(|(from, _)| *from);
        let windows = self
            .standings
            .iter()
            .zip(ends.chain([self.disk.log_len() + 1]));
        let taken = windows.filter(|((_, standing), _)| matches!(standing, Standing::Taken(_)));
        let taken: Vec<(usize, usize)> = taken.map(|((from, _), end)| (*from, end)).collect();
        let (from, end) = taken[random.below(taken.len())];
        from + random.below(end - from)
    }

    fn at(&self, event: usize) -> &Standing {
        let found = self.standings.iter().rev().find(|(from, _)| *from <= event);
        &found.expect("it begins with one").1
    }
}

/// A pool that takes checkpoints, goes on, and discards them: as at a crash at the end.
fn record(seed: u64, rounds: usize) -> Recorded {
    let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    test_pool.pool.sync().unwrap();
    let mut recorded = Recorded {
        disk,
        standings: Vec::new(),
    };
    recorded.stands(Standing::None);
    let mut random = Random::new(seed);
    for round in 0..rounds {
        run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
        let pool = &test_pool.pool;
        pool.sync().unwrap();
        // There is one for some time, whatever is drawn.
        if round != 0 && (round == 1 || !random.one_in(2)) {
            continue;
        }
        let was_taken = matches!(recorded.at(usize::MAX), Standing::Taken(_));
        recorded.stands(Standing::Changing);
        if was_taken {
            pool.discard_checkpoint().unwrap();
            while pool.facts().checkpoint().is_some() {
                pool.sync().unwrap();
            }
            pool.sync().unwrap();
            recorded.stands(Standing::None);
        } else {
            pool.take_checkpoint().unwrap();
            recorded.stands(Standing::Taken(tree.clone()));
        }
    }
    // Left as at a crash: not exported.
    drop(test_pool);
    recorded
}

fn options(folder: &Path) -> ImportOptions {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.into()));
    options.force = true;
    options
}

fn assert_clean(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

/// The newest state is whole: it can be written, a scrub finds nothing, and neither does zdb.
fn check_newest(wanted: Option<&Tree>, folder: &Path) {
    let test_pool = TestPool::import_as(&options(folder)).unwrap();
    if let Some(wanted) = wanted {
        let found = differences(wanted, &test_pool.root());
        assert!(found.is_empty(), "the newest:\n{}", found.join("\n"));
    }
    drop(test_pool.root());
    test_pool.pool.start_scrub().unwrap();
    test_pool.pool.wait_scrub().unwrap();
    assert_eq!(test_pool.pool.scan().unwrap().unwrap().errors, 0);
    test_pool.export().unwrap();
    assert_clean(folder);
}

/// Takes the pool back, and compares it with the model of the checkpoint.
fn check_taken_back(tree: &Tree, disk: &SimulatedDisk, random: &mut Random, folder: &Path) {
    let path = image(folder, "crashed");
    let mut to_checkpoint = options(folder);
    to_checkpoint.to_checkpoint = true;
    let mut looking = to_checkpoint.clone();
    looking.read_only = true;
    let test_pool = TestPool::import_as(&looking).unwrap();
    let found = differences(tree, &test_pool.root());
    assert!(found.is_empty(), "looked at:\n{}", found.join("\n"));
    drop(test_pool);
    // From here on the disk is written, not the file; and it is left at some moment: the pool goes back, or has gone.
    let again = Arc::new(disk.crash(random.draw()));
    let first = again.log_len();
    let between = Arc::clone(&again);
    let mut recording = to_checkpoint.clone();
    recording.between = Some(Arc::new(move |_| Arc::clone(&between) as _));
    let test_pool = TestPool::import_as(&recording).unwrap();
    let mut now = tree.clone();
    let found = differences(&now, &test_pool.root());
    assert!(found.is_empty(), "taken back:\n{}", found.join("\n"));
    let mut chooser = Chooser::new(random.draw());
    run_operations(&test_pool.root(), &mut now, &mut chooser, 20);
    test_pool.pool.sync().unwrap();
    let last = again.log_len();
    drop(test_pool);
    // The first events are those that matter.
    let event = first
        + random
            .below(last - first + 1)
            .min(random.below(last - first + 1));
    println!("taken back, and left at event {event} of {first} to {last}");
    std::fs::remove_file(&path).unwrap();
    again
        .crash_at(event, random.draw())
        .write_to_file(&path)
        .unwrap();
    match TestPool::import_as(&to_checkpoint) {
        Err(PoolError::NoCheckpoint) => {}
        imported => drop(imported.unwrap()),
    }
    check_newest(None, folder);
    let last = again.crash(random.draw());
    std::fs::remove_file(&path).unwrap();
    last.write_to_file(&path).unwrap();
    check_newest(Some(&now), folder);
}

fn explore(seed: u64, rounds: usize, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test checkpoints");
    let _limits = tunables::drawn_but(seed, tunables::TXGS_AS_ASKED);
    let recorded = record(seed, rounds);
    let (first, last) = (recorded.standings[0].0, recorded.disk.log_len());
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    let mut random = Random::new(seed);
    let mut taken_back = 0;
    for point in 0..points {
        let event = match point % 2 {
            0 => recorded.draw_taken(&mut random),
            _ => first + random.below(last - first + 1),
        };
        let crashed = recorded.disk.crash_at(event, random.draw());
        let _ = std::fs::remove_file(&path);
        crashed.write_to_file(&path).unwrap();
        let standing = recorded.at(event);
        println!("crash point {point}: event {event} of {first} to {last}, {standing:?}");
        match standing {
            Standing::Taken(tree) => {
                check_taken_back(tree, &crashed, &mut random, folder.path());
                taken_back += 1;
                let _ = std::fs::remove_file(&path);
                crashed.write_to_file(&path).unwrap();
            }
            Standing::None | Standing::Changing => {}
        }
        check_newest(None, folder.path());
    }
    println!("{taken_back} times taken back");
    assert!(taken_back > 0);
}

#[test]
fn crash_points_beside_checkpoints() {
    explore(seed(1), 10, 4);
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        #[test]
        #[ignore = "sim: 80 crash points, most of the time zdb"]
        fn eighty_crash_points_beside_checkpoints() {
            for run in 0..4 {
                explore(seed(5000) + run, 24, 20);
            }
        }
    }
}
