//! Mirrors and RAID-Z with devices that are missing, outdated, or lie: they are written, the devices are resilvered
//! when they are back, and zdb finds nothing wrong.

mod comings;
mod splits;

use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::aftermath;
use millpond_torture::hesitant;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{NewDevice, NewVdev, Pool, ScanPhys};
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vdev::VdevState;

const SIZE: u64 = 96 << 20;

/// What a pool's devices make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Mirror,
    RaidZ { parity: usize, width: usize },
}

impl Shape {
    /// A RAID-Z, as a seed draws it.
    fn raidz(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5A1D);
        let parity = 1 + random.below(3);
        let width = parity + 1 + random.below(4);
        Self::RaidZ { parity, width }
    }

    const fn width(self) -> usize {
        match self {
            Self::Mirror => 2,
            Self::RaidZ { width, .. } => width,
        }
    }

    /// How many devices may be away.
    const fn tolerance(self) -> usize {
        match self {
            Self::Mirror => 1,
            Self::RaidZ { parity, .. } => parity,
        }
    }

    fn vdev(self, devices: Vec<NewDevice>) -> NewVdev {
        match self {
            Self::Mirror => NewVdev::Mirror(devices),
            Self::RaidZ { parity, .. } => NewVdev::RaidZ(parity as u64, devices),
        }
    }

    fn create(self, devices: Vec<NewDevice>) -> TestPool {
        TestPool::create_of(self.vdev(devices)).unwrap()
    }

    /// Devices that go, and others that go later: each time no more than may be away, and all but one time as many.
    fn goers(self, seed: u64) -> (Vec<usize>, Vec<usize>) {
        let mut random = Random::new(seed ^ 0x60E5);
        let mut all: Vec<usize> = (0..self.width()).collect();
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last + 1));
        }
        let count = match self.tolerance() {
            several @ 2.. if random.one_in(4) => several - 1,
            all => all,
        };
        let later = all.iter().rev().take(self.tolerance()).copied().collect();
        (all[..count].to_vec(), later)
    }
}

struct Rig {
    shape: Shape,
    folder: tempfile::TempDir,
    tree: Tree,
    chooser: Chooser,
}

impl Rig {
    fn new(seed: u64, shape: Shape) -> Self {
        println!("{shape:?}");
        let rig = Self {
            shape,
            folder: tempfile::tempdir().unwrap(),
            tree: Tree::new(),
            chooser: Chooser::new(seed),
        };
        let devices = (0..shape.width()).map(|side| {
            let path = rig.side(side);
            drop(device::FileDevice::create(&path, SIZE).unwrap());
            NewDevice::Path(path)
        });
        let test_pool = shape.create(devices.collect());
        test_pool.draw_storage(seed, false, None);
        test_pool.export().unwrap();
        rig
    }

    fn side(&self, side: usize) -> PathBuf {
        image(self.folder.path(), &format!("side{side}"))
    }

    fn import(&self) -> TestPool {
        TestPool::import(self.folder.path(), false).unwrap()
    }

    /// Takes devices away, to another folder.
    fn park(&self, sides: &[usize], parking: &Path) {
        for side in sides {
            let from = self.side(*side);
            fs::copy(&from, parking.join(from.file_name().unwrap())).unwrap();
            fs::remove_file(&from).unwrap();
        }
    }

    /// Brings them back as they were then.
    fn bring_back(&self, sides: &[usize], parking: &Path) {
        for side in sides {
            let to = self.side(*side);
            fs::copy(parking.join(to.file_name().unwrap()), &to).unwrap();
        }
    }

    /// What [`missing`] says when these missed something.
    fn missed_by(&self, sides: &[usize]) -> Vec<bool> {
        let all = 0..self.shape.width();
        all.map(|side| sides.contains(&side)).collect()
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
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test redundancy -- {test}"
    );
}

#[test]
fn a_mirror_without_a_side_is_written_and_resilvered() {
    without_devices(seed(5), Shape::Mirror);
}

#[test]
fn a_raidz_without_devices_is_written_and_resilvered() {
    for seed in seed(50)..seed(50) + 2 {
        without_devices(seed, Shape::raidz(seed));
    }
}

fn without_devices(seed: u64, shape: Shape) {
    repeat_with("without", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed, shape);
    let (away, later) = shape.goers(seed);
    let test_pool = rig.import();
    rig.change(&test_pool, 2);
    test_pool.export().unwrap();

    let parking = tempfile::tempdir().unwrap();
    rig.park(&away, parking.path());
    let test_pool = rig.import();
    let status = test_pool.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Degraded);
    rig.change(&test_pool, 3);
    rig.same(&test_pool);
    assert_eq!(missing(&test_pool.pool), rig.missed_by(&away));
    test_pool.export().unwrap();
    zdb(rig.folder.path());

    // What they missed is known to the next import, too.
    let test_pool = rig.import();
    assert_eq!(missing(&test_pool.pool), rig.missed_by(&away));
    rig.change(&test_pool, 1);
    test_pool.export().unwrap();

    // They are back, as they were.
    rig.bring_back(&away, parking.path());
    let test_pool = rig.import();
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert!(scan.processed > 0, "{scan:?}");
    assert_eq!(missing(&test_pool.pool), rig.missed_by(&[]));
    let status = test_pool.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Healthy);
    rig.same(&test_pool);
    test_pool.export().unwrap();
    zdb(rig.folder.path());

    // They have everything: others can go.
    rig.park(&later, parking.path());
    let test_pool = rig.import();
    rig.same(&test_pool);
    test_pool.pool.start_scrub().unwrap();
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.errors, scan.processed), (1, 0, 0));
    aftermath::export(test_pool, rig.folder.path());
    zdb(rig.folder.path());
}

#[test]
fn a_scrub_repairs_what_devices_of_a_raidz_lie_about() {
    for seed in seed(70)..seed(70) + 2 {
        devices_that_lie(seed, Shape::raidz(seed));
    }
}

#[test]
fn a_scrub_repairs_what_a_side_of_a_mirror_lies_about() {
    devices_that_lie(seed(80), Shape::Mirror);
}

/// Spoils what is behind the labels and the boot area.
fn rot(path: &Path, random: &mut Random) {
    const FIRST: u64 = 4 << 20;
    let file = fs::File::options().write(true).open(path).unwrap();
    let sectors = (SIZE - FIRST - (1 << 20)) as usize / 512;
    for _ in 0..2000 {
        let noise = [random.draw() as u8; 512];
        let at = FIRST + random.below(sectors) as u64 * 512;
        file.write_all_at(&noise, at).unwrap();
    }
    // A part of it is lost as a whole, where data is.
    let lost = vec![random.draw() as u8; 2 << 20];
    let at = FIRST + random.below(8 << 20) as u64;
    file.write_all_at(&lost, at).unwrap();
}

fn devices_that_lie(seed: u64, shape: Shape) {
    repeat_with("lie", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed, shape);
    let (liars, others) = shape.goers(seed);
    let test_pool = rig.import();
    rig.set_checksum(&test_pool, ON);
    rig.change(&test_pool, 4);
    test_pool.export().unwrap();
    let mut random = Random::new(seed);
    for liar in &liars {
        rot(&rig.side(*liar), &mut random);
    }
    let test_pool = rig.import();
    rig.same(&test_pool);
    rig.change(&test_pool, 1);
    test_pool.pool.start_scrub().unwrap();
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.errors), (1, 0));
    assert_eq!(missing(&test_pool.pool), rig.missed_by(&[]));
    // Only who lied is to blame.
    for (side, leaf) in test_pool.pool.vdevs().tops()[0].leaves().iter().enumerate() {
        let errors = leaf.errors();
        assert_eq!((errors.read, errors.write), (0, 0));
        assert!(
            liars.contains(&side) || errors.checksum == 0,
            "{side}: {errors:?}"
        );
    }
    test_pool.export().unwrap();
    zdb(rig.folder.path());
    // What it repaired is right: others can go.
    let parking = tempfile::tempdir().unwrap();
    rig.park(&others, parking.path());
    let test_pool = rig.import();
    rig.same(&test_pool);
    aftermath::export(test_pool, rig.folder.path());
    zdb(rig.folder.path());
}

#[test]
fn a_side_that_fails_has_missed_the_txg_even_after_a_crash() {
    side_that_fails(seed(9), Shape::Mirror);
}

#[test]
fn a_device_of_a_raidz_that_fails_has_missed_the_txg_even_after_a_crash() {
    for seed in seed(90)..seed(90) + 2 {
        side_that_fails(seed, Shape::raidz(seed));
    }
}

/// How often twelve operations are tried until one has changed something.
const TRIES: usize = 20;

fn side_that_fails(seed: u64, shape: Shape) {
    repeat_with("fails", seed);
    println!("{shape:?}");
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let disks: Vec<_> = (1..=shape.width() as u64)
        .map(|side| Arc::new(SimulatedDisk::new(SIZE, seed ^ side)))
        .collect();
    let devices = disks.iter().zip(seed..).map(|(disk, seed)| {
        let device = hesitant::device(Arc::clone(disk) as _, seed);
        NewDevice::Open("/simulated/disk".into(), device)
    });
    let test_pool = shape.create(devices.collect());
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    for (round, kind) in [FaultKind::WriteError, FaultKind::FlushError]
        .into_iter()
        .enumerate()
    {
        // The fault strikes the txg of these changes, not one that the resilver left under way.
        test_pool.pool.sync().unwrap();
        test_pool.pool.sync().unwrap();
        let (first, second) = shape.goers(seed);
        let failing = if round == 0 { first } else { second };
        for side in &failing {
            disks[*side].inject(Fault::everywhere(kind.clone(), Times::After(2)));
        }
        // Operations that all were refused leave nothing to write, and small blocks lie on few devices.
        let missed = |pool: &Pool| failing.iter().filter(|side| missing(pool)[**side]).count();
        for _ in 0..TRIES {
            run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
            test_pool.pool.sync().unwrap();
            if missed(&test_pool.pool) == failing.len() {
                break;
            }
        }
        assert!(
            test_pool.pool.suspended().is_none(),
            "the others are enough"
        );
        assert_eq!(missed(&test_pool.pool), failing.len());
        failing.iter().for_each(|side| disks[*side].heal());
        // A crash now: the import knows which devices to believe, and repairs the others.
        let folder = tempfile::tempdir().unwrap();
        for (side, disk) in disks.iter().enumerate() {
            let crashed = disk.crash(seed + round as u64);
            let path = image(folder.path(), &format!("side{side}"));
            crashed.write_to_file(&path).unwrap();
        }
        let left = TestPool::import(folder.path(), false).unwrap();
        let found = differences(&tree, &left.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
        let scan = wait_for_resilver(&left.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert!(!missing(&left.pool).contains(&true));
        aftermath::export(left, folder.path());
        zdb(folder.path());
        // In the pool that goes on, they are repaired, too.
        test_pool.pool.clear(&|_| true).unwrap();
        let scan = wait_for_resilver(&test_pool.pool);
        assert_eq!((scan.function, scan.errors), (2, 0));
        assert!(!missing(&test_pool.pool).contains(&true));
    }
    drop(test_pool);
}

/// Blocks without checksums: nothing but the list of missed txgs tells which side has them.
fn resilver_without_checksums(number: u64, seed: u64, shape: Shape) {
    repeat_with("resilvered", seed);
    let _limits = tunables::drawn(seed);
    let mut rig = Rig::new(seed, shape);
    let (away, later) = shape.goers(seed);
    let test_pool = rig.import();
    rig.set_checksum(&test_pool, number);
    rig.change(&test_pool, 2);
    test_pool.export().unwrap();
    let parking = tempfile::tempdir().unwrap();
    rig.park(&away, parking.path());
    let test_pool = rig.import();
    rig.change(&test_pool, 4);
    test_pool.export().unwrap();

    rig.bring_back(&away, parking.path());
    let test_pool = rig.import();
    // Read before they are resilvered, too.
    rig.same(&test_pool);
    let scan = wait_for_resilver(&test_pool.pool);
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    assert_eq!(missing(&test_pool.pool), rig.missed_by(&[]));
    test_pool.export().unwrap();
    rig.park(&later, parking.path());
    let test_pool = rig.import();
    rig.same(&test_pool);
    aftermath::export(test_pool, rig.folder.path());
    zdb(rig.folder.path());
}

const ON: u64 = 1;
const OFF: u64 = 2;
const NOPARITY: u64 = 10;

#[test]
fn a_side_is_resilvered_without_checksums() {
    resilver_without_checksums(OFF, seed(31), Shape::Mirror);
}

#[test]
fn a_side_is_resilvered_with_noparity() {
    resilver_without_checksums(NOPARITY, seed(32), Shape::Mirror);
}

#[test]
fn devices_of_a_raidz_are_resilvered_without_checksums() {
    for seed in seed(33)..seed(33) + 2 {
        resilver_without_checksums(OFF, seed, Shape::raidz(seed));
    }
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        use super::super::{Duration, Instant, NOPARITY, OFF, Shape, asked, seed};
        use super::super::{devices_that_lie, resilver_without_checksums};
        use super::super::{side_that_fails, without_devices};

        /// `MILLPOND_SECONDS` (60) of mirrors and RAID-Z, from `MILLPOND_SEED` (1000) on.
        #[test]
        #[ignore = "torture: redundant pools one after the other"]
        fn many_redundant_pools() {
            let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
            let (begun, first) = (Instant::now(), seed(1000));
            let mut seed = first;
            while begun.elapsed() < time {
                let shape = if seed % 3 == 0 {
                    Shape::Mirror
                } else {
                    Shape::raidz(seed)
                };
                match seed % 5 {
                    0 => without_devices(seed, shape),
                    1 => side_that_fails(seed, shape),
                    2 => resilver_without_checksums(OFF, seed, shape),
                    3 => resilver_without_checksums(NOPARITY, seed, shape),
                    _ => devices_that_lie(seed, shape),
                }
                seed += 1;
            }
            println!("seeds {first} to {seed}: 0 differences");
        }
    }
}
