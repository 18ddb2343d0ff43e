//! Pools that are split while the power fails: afterwards there is the old pool, with its sides or without, or there
//! are both; and whichever there is holds everything.

use super::{SIZE, zdb};
use millpond_torture::aftermath;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, PoolError, Selection, VdevRole};
use sim::{SimulatedDisk, Timeline};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const OTHER: &str = "other";

/// A history in which a pool was split.
struct Recorded {
    disks: Vec<Arc<SimulatedDisk>>,
    tree: Tree,
    /// When.
    window: Range<u64>,
}

/// Mirrors of two or three sides, and a log device where that is drawn; split with drawn sides.
fn record(seed: u64) -> Recorded {
    let timeline = Timeline::new();
    let mut random = Random::new(seed ^ 0x5917);
    let mut disks = Vec::new();
    let mut devices = |random: &mut Random, count: usize| -> Vec<NewDevice> {
        let device = |_| {
            let disk = Arc::new(SimulatedDisk::on_timeline(SIZE, random.draw(), &timeline));
            let path = format!("/simulated/disk{}", disks.len());
            disks.push(Arc::clone(&disk));
            NewDevice::Open(path.into(), disk)
        };
        (0..count).map(device).collect()
    };
    let mut mirrors = Vec::new();
    for _ in 0..1 + random.below(3) {
        let count = 2 + random.below(2);
        mirrors.push(NewVdev::Mirror(devices(&mut random, count)));
    }
    let mut options = CreateOptions::new(POOL, mirrors);
    if random.one_in(2) {
        let log = devices(&mut random, 1).remove(0);
        options.others.push((VdevRole::Log, NewVdev::Single(log)));
    }
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    let test_pool = TestPool::create_as(options).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    run_operations(&test_pool.root(), &mut tree, &mut chooser, 40);
    let pool = &test_pool.pool;
    pool.sync().unwrap();
    let mut named = Vec::new();
    for top in &pool.config().root.children {
        if random.one_in(2) && top.kind() == "mirror" {
            named.push(random.pick(&top.children).guid());
        }
    }
    let sides = pool.sides_to_split(&named).unwrap();
    let begins = timeline.now();
    let other = pool.split(OTHER, &sides).unwrap();
    other.export().unwrap();
    let window = begins..timeline.now();
    drop(other);
    run_operations(&test_pool.root(), &mut Tree::clone(&tree), &mut chooser, 5);
    test_pool.close_all();
    pool.abandon();
    Recorded {
        disks,
        tree,
        window,
    }
}

fn options(folder: &Path, name: &str) -> ImportOptions {
    let selection = Selection::Name(name.to_owned());
    let mut options = ImportOptions::new(vec![folder.to_owned()], selection);
    options.force = true;
    // Under which the models find it.
    options.new_name = (name != POOL).then(|| POOL.to_owned());
    options.temporary_name = true;
    options
}

fn check(test_pool: &TestPool, tree: &Tree) {
    let found = differences(tree, &test_pool.root());
    assert!(found.is_empty(), "{}", found.join("\n"));
    let pool = &test_pool.pool;
    pool.wait_scrub().unwrap();
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    test_pool.close_all();
    pool.export().unwrap();
}

/// What there is after a power loss; whether both pools are.
fn crash(recorded: &Recorded, moment: u64) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (number, disk) in recorded.disks.iter().enumerate() {
        let crashed = disk.crash_at_moment(moment, moment ^ number as u64);
        let path = image(folder, &format!("disk{number}"));
        crashed.write_to_file(&path).unwrap();
    }
    let other = match TestPool::import_as(&options(folder, OTHER)) {
        Ok(other) => Some(other),
        Err(PoolError::NoSuchPool { .. }) => None,
        // Its labels are there, and not yet its first txg.
        Err(PoolError::Invalid { reason }) if reason.contains("was not finished") => None,
        Err(error) => panic!("{error}"),
    };
    let both = other.is_some();
    // Both at once: neither has a device of the other.
    let test_pool = TestPool::import_as(&options(folder, POOL)).unwrap();
    if let Some(other) = other {
        check(&other, &recorded.tree);
        drop(other);
        let clean = golden::Zdb::from_environment();
        if let Some(zdb) = clean {
            zdb.assert_clean(folder, OTHER);
        }
    }
    check(&test_pool, &recorded.tree);
    drop(test_pool);
    zdb(folder);
    aftermath::on_devices(folder);
    both
}

/// A pool that is split, and power losses within that.
fn splits(seed: u64, crashes: usize) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test redundancy -- splits"
    );
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let recorded = record(seed);
    let mut random = Random::new(seed ^ 0xC4A5);
    let length = (recorded.window.end - recorded.window.start).max(1) as usize;
    let mut both = 0;
    for crash_point in 0..crashes {
        // The end, where there are both, and the last writes, of which the new pool's first txg consists.
        let back = match crash_point {
            0 => 0,
            odd if odd % 2 == 1 => random.below(length.min(400)),
            _ => random.below(length),
        };
        let moment = recorded.window.end - back as u64;
        println!("power loss at {moment}, {back} before the end");
        both += usize::from(crash(&recorded, moment));
    }
    assert!(both > 0, "the split was whole at its end");
}

#[test]
fn a_pool_is_split_and_the_power_fails() {
    for seed in seed(700)..seed(700) + 2 {
        splits(seed, 5);
    }
}

/// `MILLPOND_SECONDS` (60) of splits, from `MILLPOND_SEED` (7000) on.
#[test]
#[ignore = "torture: pools that are split, one after the other"]
fn many_splits() {
    let time = std::time::Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
    let (begun, first) = (std::time::Instant::now(), seed(7000));
    let mut seed = first;
    while begun.elapsed() < time {
        splits(seed, 12);
        seed += 1;
    }
    println!("seeds {first} to {seed}");
}
