//! Mirrors with a side that is missing or outdated: they are written, the side is resilvered when it is back, and zdb
//! finds nothing wrong.

use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::aftermath;
use millpond_torture::hesitant;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{asked, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{NewDevice, Pool, ScanPhys};
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vdev::VdevState;

const SIZE: u64 = 96 << 20;

struct Rig {
    folder: tempfile::TempDir,
    tree: Tree,
    chooser: Chooser,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let rig = Self {
            folder: tempfile::tempdir().unwrap(),
            tree: Tree::new(),
            chooser: Chooser::new(seed),
        };
        let sides = ["left", "right"].map(|side| {
            let path = rig.side(side);
            drop(device::FileDevice::create(&path, SIZE).unwrap());
            NewDevice::Path(path)
        });
        let test_pool = TestPool::create(sides.into()).unwrap();
        test_pool.draw_storage(seed, false, None);
        test_pool.export().unwrap();
        rig
    }

    fn side(&self, side: &str) -> PathBuf {
        image(self.folder.path(), side)
    }

    fn import(&self) -> TestPool {
        TestPool::import(self.folder.path(), false).unwrap()
    }

    /// Takes a side away.
    fn park(&self, side: &str, parked: &Path) {
        fs::copy(self.side(side), parked).unwrap();
        fs::remove_file(self.side(side)).unwrap();
    }

    fn set_checksum(&self, test_pool: &TestPool, number: u64) {
        let change = PropertyChange::Set(PropertyValue::Number(number));
        let task = SetProperties {
            name: POOL.to_owned(),
            changes: vec![("checksum".to_owned(), change)],
        };
        test_pool.pool.dsl().run(task).unwrap();
    }

    fn change(&mut self, test_pool: &TestPool, rounds: usize) {
        for _ in 0..rounds {
            run_operations(&test_pool.root(), &mut self.tree, &mut self.chooser, 12);
            test_pool.pool.sync().unwrap();
        }
    }

    fn same(&self, test_pool: &TestPool) {
        let found = self.differences(test_pool);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn differences(&self, test_pool: &TestPool) -> Vec<String> {
        differences(&self.tree, &test_pool.root())
    }
}

fn zdb(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

fn missing(pool: &Pool) -> Vec<bool> {
    let top = &pool.vdevs().tops()[0];
    let leaves = top.leaves().iter();
    leaves.map(|leaf| !leaf.missing().is_empty()).collect()
}

fn wait_for_resilver(pool: &Pool) -> ScanPhys {
    let started = Instant::now();
    loop {
        let scan = pool.scan().unwrap();
        if let Some(scan) = scan.filter(|scan| !scan.is_running()) {
            return scan;
        }
        assert!(started.elapsed() < Duration::from_secs(240));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn repeat_with(test: &str, seed: u64) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test mirrors -- {test}"
    );
}

#[test]
fn a_mirror_without_a_side_is_written_and_resilvered() {
    without_a_side(seed(5));
}

fn without_a_side(seed: u64) {
    repeat_with("a_mirror", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed);
    let test_pool = rig.import();
    rig.change(&test_pool, 2);
    test_pool.export().unwrap();

    // The right side is away.
    let away = tempfile::tempdir().unwrap();
    let parked = away.path().join("right");
    fs::rename(rig.side("right"), &parked)
        .or_else(|_| {
            fs::copy(rig.side("right"), &parked).and_then(|_| fs::remove_file(rig.side("right")))
        })
        .unwrap();
    let test_pool = rig.import();
    let status = test_pool.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Degraded);
    rig.change(&test_pool, 3);
    rig.same(&test_pool);
    assert_eq!(missing(&test_pool.pool), [false, true]);
    test_pool.export().unwrap();
    zdb(rig.folder.path());

    // What it missed is known to the next import, too.
    let test_pool = rig.import();
    assert_eq!(missing(&test_pool.pool), [false, true]);
    rig.change(&test_pool, 1);
    test_pool.export().unwrap();

    // It is back, as it was.
    fs::copy(&parked, rig.side("right")).unwrap();
    let test_pool = rig.import();
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert!(scan.processed > 0, "{scan:?}");
    assert_eq!(missing(&test_pool.pool), [false, false]);
    let status = test_pool.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Healthy);
    rig.same(&test_pool);
    test_pool.export().unwrap();
    zdb(rig.folder.path());

    // It has everything: the left side can go.
    fs::remove_file(rig.side("left")).unwrap();
    let test_pool = rig.import();
    rig.same(&test_pool);
    test_pool.pool.start_scrub().unwrap();
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.errors, scan.processed), (1, 0, 0));
    aftermath::export(test_pool, rig.folder.path());
    zdb(rig.folder.path());
}

#[test]
fn a_side_that_fails_has_missed_the_txg_even_after_a_crash() {
    side_that_fails(seed(9));
}

/// How often twelve operations are tried until one has changed something.
const TRIES: usize = 20;

fn side_that_fails(seed: u64) {
    repeat_with("a_side_that_fails", seed);
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let disks = [1, 2].map(|side| Arc::new(SimulatedDisk::new(SIZE, seed ^ side)));
    let devices = disks.iter().zip(seed..).map(|(disk, seed)| {
        let device = hesitant::device(Arc::clone(disk) as _, seed);
        NewDevice::Open("/simulated/disk".into(), device)
    });
    let test_pool = TestPool::create(devices.collect()).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    for (round, kind) in [FaultKind::WriteError, FaultKind::FlushError]
        .into_iter()
        .enumerate()
    {
        // The fault strikes the txg of these changes, not one that the resilver left under way.
        test_pool.pool.sync().unwrap();
        test_pool.pool.sync().unwrap();
        disks[round % 2].inject(Fault::everywhere(kind, Times::After(2)));
        // Operations that all were refused leave nothing to write.
        for _ in 0..TRIES {
            run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
            test_pool.pool.sync().unwrap();
            if missing(&test_pool.pool)[round % 2] {
                break;
            }
        }
        assert!(test_pool.pool.suspended().is_none(), "one side is enough");
        assert!(missing(&test_pool.pool)[round % 2]);
        disks[round % 2].heal();
        // A crash now: the import knows which side to believe, and repairs the other.
        let folder = tempfile::tempdir().unwrap();
        for (disk, side) in disks.iter().zip(["left", "right"]) {
            let crashed = disk.crash(seed + round as u64);
            crashed.write_to_file(&image(folder.path(), side)).unwrap();
        }
        let left = TestPool::import(folder.path(), false).unwrap();
        let found = differences(&tree, &left.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
        let scan = wait_for_resilver(&left.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert_eq!(missing(&left.pool), [false, false]);
        aftermath::export(left, folder.path());
        zdb(folder.path());
        // In the pool that goes on, the side is repaired, too.
        test_pool.pool.clear(&|_| true).unwrap();
        let scan = wait_for_resilver(&test_pool.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert_eq!(missing(&test_pool.pool), [false, false]);
    }
    drop(test_pool);
}

/// Blocks without checksums: nothing but the list of missed txgs tells which side has them.
fn resilver_without_checksums(number: u64, seed: u64) {
    repeat_with("a_side_is_resilvered", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed);
    let test_pool = rig.import();
    rig.set_checksum(&test_pool, number);
    rig.change(&test_pool, 2);
    test_pool.export().unwrap();
    let away = tempfile::tempdir().unwrap();
    let parked = away.path().join("right");
    rig.park("right", &parked);
    let test_pool = rig.import();
    rig.change(&test_pool, 4);
    test_pool.export().unwrap();

    fs::copy(&parked, rig.side("right")).unwrap();
    let test_pool = rig.import();
    // Read before it is resilvered, too.
    rig.same(&test_pool);
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert_eq!(missing(&test_pool.pool), [false, false]);
    test_pool.export().unwrap();
    fs::remove_file(rig.side("left")).unwrap();
    let test_pool = rig.import();
    rig.same(&test_pool);
    aftermath::export(test_pool, rig.folder.path());
    zdb(rig.folder.path());
}

const OFF: u64 = 2;
const NOPARITY: u64 = 10;

#[test]
fn a_side_is_resilvered_without_checksums() {
    resilver_without_checksums(OFF, seed(31));
}

#[test]
fn a_side_is_resilvered_with_noparity() {
    resilver_without_checksums(NOPARITY, seed(32));
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        use super::super::{Duration, Instant, NOPARITY, OFF, asked, seed};

        /// `MILLPOND_SECONDS` (60) of mirrors, from `MILLPOND_SEED` (1000) on.
        #[test]
        #[ignore = "torture: mirrors one after the other"]
        fn many_mirrors() {
            let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
            let (begun, first) = (Instant::now(), seed(1000));
            let mut seed = first;
            while begun.elapsed() < time {
                match seed % 4 {
                    0 => super::super::without_a_side(seed),
                    1 => super::super::side_that_fails(seed),
                    2 => super::super::resilver_without_checksums(OFF, seed),
                    _ => super::super::resilver_without_checksums(NOPARITY, seed),
                }
                seed += 1;
            }
            println!("seeds {first} to {seed}: 0 differences");
        }
    }
}
