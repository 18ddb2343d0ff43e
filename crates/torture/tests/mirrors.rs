//! Mirrors with a side that is missing or outdated: they are written, the side is resilvered when it is back, and zdb
//! finds nothing wrong.

use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::aftermath;
use millpond_torture::laboratory::{Laboratory, POOL, image, run_operations};
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{asked, seed};
use millpond_torture::real::differences;
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
        let laboratory = Laboratory::create(sides.into()).unwrap();
        laboratory.draw_storage(seed, false, None);
        laboratory.export().unwrap();
        rig
    }

    fn side(&self, side: &str) -> PathBuf {
        image(self.folder.path(), side)
    }

    fn import(&self) -> Laboratory {
        Laboratory::import(self.folder.path(), false).unwrap()
    }

    /// Takes a side away.
    fn park(&self, side: &str, parked: &Path) {
        fs::copy(self.side(side), parked).unwrap();
        fs::remove_file(self.side(side)).unwrap();
    }

    fn set_checksum(&self, laboratory: &Laboratory, number: u64) {
        let change = PropertyChange::Set(PropertyValue::Number(number));
        let task = SetProperties {
            name: POOL.to_owned(),
            changes: vec![("checksum".to_owned(), change)],
        };
        laboratory.pool.dsl().run(task).unwrap();
    }

    fn change(&mut self, laboratory: &Laboratory, rounds: usize) {
        for _ in 0..rounds {
            run_operations(&laboratory.root(), &mut self.tree, &mut self.chooser, 12);
            laboratory.pool.sync().unwrap();
        }
    }

    fn same(&self, laboratory: &Laboratory) {
        let found = self.differences(laboratory);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn differences(&self, laboratory: &Laboratory) -> Vec<String> {
        differences(&self.tree, &laboratory.root())
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
    let laboratory = rig.import();
    rig.change(&laboratory, 2);
    laboratory.export().unwrap();

    // The right side is away.
    let away = tempfile::tempdir().unwrap();
    let parked = away.path().join("right");
    fs::rename(rig.side("right"), &parked)
        .or_else(|_| {
            fs::copy(rig.side("right"), &parked).and_then(|_| fs::remove_file(rig.side("right")))
        })
        .unwrap();
    let laboratory = rig.import();
    let status = laboratory.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Degraded);
    rig.change(&laboratory, 3);
    rig.same(&laboratory);
    assert_eq!(missing(&laboratory.pool), [false, true]);
    laboratory.export().unwrap();
    zdb(rig.folder.path());

    // What it missed is known to the next import, too.
    let laboratory = rig.import();
    assert_eq!(missing(&laboratory.pool), [false, true]);
    rig.change(&laboratory, 1);
    laboratory.export().unwrap();

    // It is back, as it was.
    fs::copy(&parked, rig.side("right")).unwrap();
    let laboratory = rig.import();
    let scan = wait_for_resilver(&laboratory.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert!(scan.processed > 0, "{scan:?}");
    assert_eq!(missing(&laboratory.pool), [false, false]);
    let status = laboratory.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Healthy);
    rig.same(&laboratory);
    laboratory.export().unwrap();
    zdb(rig.folder.path());

    // It has everything: the left side can go.
    fs::remove_file(rig.side("left")).unwrap();
    let laboratory = rig.import();
    rig.same(&laboratory);
    laboratory.pool.start_scrub().unwrap();
    let scan = wait_for_resilver(&laboratory.pool);
    assert_eq!((scan.function, scan.errors, scan.processed), (1, 0, 0));
    aftermath::export(laboratory, rig.folder.path());
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
    let devices = disks
        .iter()
        .map(|disk| NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _));
    let laboratory = Laboratory::create(devices.collect()).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    for (round, kind) in [FaultKind::WriteError, FaultKind::FlushError]
        .into_iter()
        .enumerate()
    {
        // The fault strikes the txg of these changes, not one that the resilver left under way.
        laboratory.pool.sync().unwrap();
        laboratory.pool.sync().unwrap();
        disks[round % 2].inject(Fault::everywhere(kind, Times::After(2)));
        // Operations that all were refused leave nothing to write.
        for _ in 0..TRIES {
            run_operations(&laboratory.root(), &mut tree, &mut chooser, 12);
            laboratory.pool.sync().unwrap();
            if missing(&laboratory.pool)[round % 2] {
                break;
            }
        }
        assert!(laboratory.pool.suspended().is_none(), "one side is enough");
        assert!(missing(&laboratory.pool)[round % 2]);
        disks[round % 2].heal();
        // A crash now: the import knows which side to believe, and mends the other.
        let folder = tempfile::tempdir().unwrap();
        for (disk, side) in disks.iter().zip(["left", "right"]) {
            let crashed = disk.crash(seed + round as u64);
            crashed.write_to_file(&image(folder.path(), side)).unwrap();
        }
        let left = Laboratory::import(folder.path(), false).unwrap();
        let found = differences(&tree, &left.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
        let scan = wait_for_resilver(&left.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert_eq!(missing(&left.pool), [false, false]);
        aftermath::export(left, folder.path());
        zdb(folder.path());
        // In the pool that goes on, the side is mended, too.
        laboratory.pool.clear(&|_| true).unwrap();
        let scan = wait_for_resilver(&laboratory.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert_eq!(missing(&laboratory.pool), [false, false]);
    }
    drop(laboratory);
}

/// Blocks without checksums: nothing but the list of missed txgs tells which side has them.
fn resilver_without_checksums(number: u64, seed: u64) {
    repeat_with("a_side_is_resilvered", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed);
    let laboratory = rig.import();
    rig.set_checksum(&laboratory, number);
    rig.change(&laboratory, 2);
    laboratory.export().unwrap();
    let away = tempfile::tempdir().unwrap();
    let parked = away.path().join("right");
    rig.park("right", &parked);
    let laboratory = rig.import();
    rig.change(&laboratory, 4);
    laboratory.export().unwrap();

    fs::copy(&parked, rig.side("right")).unwrap();
    let laboratory = rig.import();
    // Read before it is resilvered, too.
    rig.same(&laboratory);
    let scan = wait_for_resilver(&laboratory.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert_eq!(missing(&laboratory.pool), [false, false]);
    laboratory.export().unwrap();
    fs::remove_file(rig.side("left")).unwrap();
    let laboratory = rig.import();
    rig.same(&laboratory);
    aftermath::export(laboratory, rig.folder.path());
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
