//! Removals of devices beside random histories, on simulated disks that are left at one moment all together: at each
//! the pool is whole, and the removal goes on.

use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::pool_model::real::populate;
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables;
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, PoolError, Selection, VdevRole};
use sim::{SimulatedDisk, Timeline};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 160 << 20;
const DISKS: usize = 4;

struct Recorded {
    disks: Vec<Arc<SimulatedDisk>>,
    /// The moments between which something was being removed, or was about to.
    from: u64,
    to: u64,
    tree: Tree,
}

/// A pool of which devices are removed, one after the other, while files come and go; left as at a crash.
fn record(seed: u64, rounds: usize) -> Recorded {
    let timeline = Timeline::new();
    let disk = |index: usize| {
        let seed = seed.wrapping_add(index as u64);
        Arc::new(SimulatedDisk::on_timeline(SIZE, seed, &timeline))
    };
    let disks: Vec<_> = (0..DISKS).map(disk).collect();
    let device = |(index, disk): (usize, &Arc<SimulatedDisk>)| {
        NewDevice::Open(format!("/simulated/{index}").into(), Arc::clone(disk) as _)
    };
    let vdevs = disks.iter().enumerate().map(device);
    let mut options = CreateOptions::new(POOL, vdevs.map(NewVdev::Single).collect());
    options.root.populate = Some(populate());
    let test_pool = TestPool::create_as(options).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    let mut random = Random::new(seed);
    for _ in 0..3 {
        run_operations(&test_pool.root(), &mut tree, &mut chooser, 30);
    }
    test_pool.pool.sync().unwrap();
    let from = timeline.now();
    let mut left = vec![1];
    for round in 0..rounds {
        let pool = &test_pool.pool;
        if !pool.is_removing()
            && let Some(id) = left.pop()
        {
            let guid = pool.config().root.children[id].guid();
            pool.remove_vdev(guid).unwrap();
        } else if pool.is_removing() && round == 1 && random.one_in(2) {
            // It may have ended by now.
            if pool.cancel_removal().is_ok() {
                left.push(1);
            }
        }
        run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
        pool.sync().unwrap();
    }
    test_pool.pool.wait_removal().unwrap();
    run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
    test_pool.pool.sync().unwrap();
    let to = timeline.now();
    drop(test_pool);
    Recorded {
        disks,
        from,
        to,
        tree,
    }
}

fn options(folder: &Path) -> ImportOptions {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Name(POOL.into()));
    options.force = true;
    options
}

/// What an import found under way.
struct Found {
    removing: bool,
    /// The mapping of a removed device was being shortened.
    condensing: bool,
}

/// The pool is whole, goes on with what is being removed, and is whole then.
fn check(wanted: Option<&Tree>, folder: &Path, exports_half_way: bool) -> Found {
    let test_pool = TestPool::import_as(&options(folder)).unwrap();
    let found = Found {
        removing: test_pool.pool.is_removing(),
        condensing: test_pool.pool.is_condensing(),
    };
    let same = |when: &str| {
        let Some(wanted) = wanted else { return };
        let found = differences(wanted, &test_pool.root());
        assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
    };
    same("imported");
    test_pool.pool.wait_removal().unwrap();
    test_pool.pool.start_scrub().unwrap();
    test_pool.pool.wait_scrub().unwrap();
    assert_eq!(test_pool.pool.scan().unwrap().unwrap().errors, 0);
    same("removed");
    while test_pool.pool.is_condensing() && !exports_half_way {
        test_pool.pool.sync().unwrap();
    }
    same("with shorter mappings");
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
    found
}

fn explore(seed: u64, rounds: usize, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test removals");
    let _limits = tunables::drawn_but(seed, tunables::TXGS_AS_ASKED);
    pool::tunables::REMOVAL_BYTES.set(8 << 10);
    // Mappings of some entries are shortened as well, and that takes txgs.
    pool::tunables::CONDENSE_MAPPING_BYTES_MIN.set(0);
    pool::tunables::CONDENSE_OBSOLETE_PERCENT.set(seed % 3 * 5);
    pool::tunables::CONDENSED_ENTRIES.set(1 + seed % 40);
    let recorded = record(seed, rounds);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(seed);
    let (mut went_on, mut half_way) = (0, 0);
    for point in 0..=points {
        let is_last = point == points;
        let length = usize::try_from(recorded.to - recorded.from).unwrap();
        let moment = if is_last {
            u64::MAX
        } else {
            recorded.from + random.below(length) as u64
        };
        println!(
            "crash point {point}: {moment}, of {} to {}",
            recorded.from, recorded.to
        );
        for (index, disk) in recorded.disks.iter().enumerate() {
            let path = image(folder.path(), &format!("crashed{index}"));
            let _ = std::fs::remove_file(&path);
            let crashed = disk.crash_at_moment(moment, random.draw());
            crashed.write_to_file(&path).unwrap();
        }
        let wanted = is_last.then_some(&recorded.tree);
        let found = check(wanted, folder.path(), point % 2 == 1);
        went_on += usize::from(found.removing);
        half_way += usize::from(found.condensing);
    }
    println!("{went_on} removals went on, {half_way} mappings were getting shorter");
}

/// It has a way of its own.
#[test]
fn a_log_device_is_not_moved_away() {
    let timeline = Timeline::new();
    let single = |index: u64| {
        let disk = SimulatedDisk::on_timeline(SIZE, index, &timeline);
        let path = format!("/simulated/{index}").into();
        NewVdev::Single(NewDevice::Open(path, Arc::new(disk) as _))
    };
    let options = CreateOptions::new(POOL, vec![single(0), single(1)]);
    let test_pool = TestPool::create_as(options).unwrap();
    let pool = &test_pool.pool;
    let log = [(VdevRole::Log, single(2))];
    pool.add_vdevs(&log, None, false).unwrap();
    let guid = pool.config().root.children[2].guid();
    let refused = pool.remove_vdev(guid).unwrap_err();
    assert!(matches!(refused, PoolError::Invalid { .. }), "{refused}");
    assert!(!pool.is_removing());
    pool.remove_log(guid).unwrap();
    pool.sync().unwrap();
}

#[test]
fn crash_points_beside_removals() {
    explore(seed(1), 6, 6);
}

/// `MILLPOND_SECONDS` (60) of removals, from `MILLPOND_SEED` (9500) on.
#[test]
#[ignore = "torture: removals one after the other"]
fn many_removals() {
    let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
    let (begun, first) = (Instant::now(), seed(9500));
    let mut seed = first;
    while begun.elapsed() < time {
        explore(seed, 8, 8);
        seed += 1;
    }
    println!("seeds {first} to {seed}: 0 differences");
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{explore, seed};

        #[test]
        #[ignore = "sim: 60 crash points, most of the time zdb"]
        fn sixty_crash_points_beside_removals() {
            for run in 0..4 {
                explore(seed(6000) + run, 12, 15);
            }
        }
    }
}
