//! A RAID-Z vdev gets another child while files are written: what a power loss at any moment leaves is the state of the
//! newest txg, goes on, and can be had without as many devices as parity stands for.

use base::Guid;
use millpond_torture::aftermath;
use millpond_torture::model::Tree;
use millpond_torture::operation::{Chooser, Operation};
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::real::{self, differences};
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{AttachOptions, NewDevice, NewVdev, Pool};
use sim::{Fault, FaultKind, SimulatedDisk, Timeline, Times};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 72 << 20;

/// What happened to the disks of a pool that was expanded.
struct Recorded {
    parity: usize,
    disks: Vec<Arc<SimulatedDisk>>,
    states: States,
    /// When the child came, when everything had moved, and the end.
    moments: [u64; 3],
}

/// What the files were, transaction by transaction: txgs follow one another while sectors move.
#[derive(Default)]
struct States {
    /// After each transaction, with the txg that was open before it.
    trees: Vec<(u64, Tree)>,
    /// From which moment on how many of these are on disk for certain.
    synced: Vec<(u64, usize)>,
    /// The same with those that a durable write has in the intent log.
    logged: Vec<(u64, usize)>,
}

impl States {
    /// Those that a pool can be in which was left at a moment, and whose newest txg is that; the newest first.
    fn possible(&self, moment: u64, txg: u64) -> impl Iterator<Item = &Tree> {
        let first = Self::last(&self.synced, moment);
        let trees = self.trees.iter().enumerate().rev();
        let within = move |(at, (since, _)): &(usize, &(u64, Tree))| *at == first || *since <= txg;
        trees
            .take_while(move |(at, _)| *at >= first)
            .filter(within)
            .map(|(_, (_, tree))| tree)
    }

    /// Those that it can be in once its log is replayed: no less than was acknowledged.
    fn replayed(&self, moment: u64) -> impl Iterator<Item = &Tree> {
        let first = Self::last(&self.logged, moment);
        self.trees[first..].iter().map(|(_, tree)| tree)
    }

    /// The last tree of those that were certain at a moment.
    fn last(certain: &[(u64, usize)], moment: u64) -> usize {
        let certain = certain.iter().rfind(|(at, _)| *at <= moment);
        certain.map_or(0, |(_, count)| count - 1)
    }
}

/// A pool whose files change.
struct Changing<'a> {
    test_pool: &'a TestPool,
    timeline: Timeline,
    tree: Tree,
    chooser: Chooser,
    states: States,
}

impl Changing<'_> {
    fn note(&mut self, tree: Tree) {
        let engine = self.test_pool.pool.engine().unwrap();
        self.states.trees.push((engine.open_txg().0, tree));
    }

    fn change(&mut self) {
        for _ in 0..12 {
            let operation = self.chooser.next(&self.tree);
            let mut tree = self.tree.clone();
            for part in operation.parts(&self.tree) {
                if tree.apply(&part).is_ok() {
                    self.note(tree.clone());
                }
            }
            let wanted = self.tree.apply(&operation);
            let found = real::apply(&self.test_pool.root(), &operation);
            assert_eq!(wanted.is_ok(), found.is_ok(), "{operation:?}");
            if matches!(operation, Operation::Write(.., true)) && found.is_ok() {
                let count = self.states.trees.len();
                self.states.logged.push((self.timeline.now(), count));
            }
        }
        self.sync();
    }

    fn sync(&mut self) {
        self.test_pool.pool.sync().unwrap();
        let count = self.states.trees.len();
        self.states.synced.push((self.timeline.now(), count));
        self.states.logged.push((self.timeline.now(), count));
    }

    fn same(&self) {
        let found = differences(&self.tree, &self.test_pool.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

fn new_device(disks: &mut Vec<Arc<SimulatedDisk>>, timeline: &Timeline, seed: u64) -> NewDevice {
    let number = disks.len();
    let disk = SimulatedDisk::on_timeline(SIZE, seed ^ number as u64, timeline);
    disks.push(Arc::new(disk));
    let path = format!("/simulated/disk{number}");
    NewDevice::Open(path.into(), Arc::clone(&disks[number]) as _)
}

fn top(pool: &Pool) -> Guid {
    pool.config().root.children[0].guid()
}

/// Waits until nothing moves any more.
fn wait_for_expansion(pool: &Pool) {
    let begun = Instant::now();
    while pool.is_expanding() {
        assert!(begun.elapsed() < Duration::from_secs(240), "expansion");
        std::thread::sleep(Duration::from_millis(2));
    }
    pool.sync().unwrap();
}

/// A pool of `parity` rows of it and `width` devices that gets another one while files are changed.
fn record(seed: u64, (parity, width): (usize, usize), rounds: usize) -> Recorded {
    let (timeline, mut disks) = (Timeline::new(), Vec::new());
    let devices = (0..width).map(|_| new_device(&mut disks, &timeline, seed));
    let vdev = NewVdev::RaidZ(parity as u64, devices.collect());
    let test_pool = TestPool::create_of(vdev).unwrap();
    test_pool.draw_storage(seed, true, None);
    let mut changing = Changing {
        test_pool: &test_pool,
        timeline: timeline.clone(),
        tree: Tree::new(),
        chooser: Chooser::new(seed),
        states: States::default(),
    };
    changing.note(Tree::new());
    changing.sync();
    for _ in 0..3 {
        changing.change();
    }
    let began = timeline.now();
    let device = new_device(&mut disks, &timeline, seed);
    let pool = &test_pool.pool;
    let options = AttachOptions::default();
    pool.expand_raidz(top(pool), &device, &options).unwrap();
    for _ in 0..rounds {
        changing.change();
    }
    wait_for_expansion(pool);
    let moved = timeline.now();
    changing.change();
    changing.same();
    let states = std::mem::take(&mut changing.states);
    let end = timeline.now();
    // Left as at a crash: not exported.
    test_pool.pool.abandon();
    drop(test_pool);
    Recorded {
        parity,
        disks,
        states,
        moments: [began, moved, end],
    }
}

/// The txg of the newest uberblock on these images.
fn newest_txg(folder: &Path, disks: usize) -> u64 {
    let of = |number: usize| {
        let path = image(folder, &format!("disk{number}"));
        let device = device::FileDevice::open(&path, device::Access::ReadOnly).ok()?;
        let labels = vdev::read_labels(&device);
        let best = labels.best_uberblock(None)?;
        Some(best.uberblock.txg.0)
    };
    (0..disks).filter_map(of).max().unwrap()
}

fn zdb(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

impl Recorded {
    fn leave(&self, moment: u64, seed: u64, folder: &Path) {
        for (number, disk) in self.disks.iter().enumerate() {
            let crashed = disk.crash_at_moment(moment, seed ^ (number as u64) << 8);
            let path = image(folder, &format!("disk{number}"));
            let _ = std::fs::remove_file(&path);
            crashed.write_to_file(&path).unwrap();
        }
    }

    /// Leaves the disks at a moment, and checks what is imported: as it is, without devices, and gone on with.
    fn check(&self, moment: u64, random: &mut Random) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        self.leave(moment, random.draw(), folder);
        let txg = newest_txg(folder, self.disks.len());
        let test_pool = TestPool::import(folder, true).unwrap();
        let mut trees = self.states.possible(moment, txg);
        let tree = trees.find(|tree| differences(tree, &test_pool.root()).is_empty());
        let Some(tree) = tree else {
            let newest = self.states.possible(moment, txg).next().unwrap();
            let found = differences(newest, &test_pool.root());
            panic!("txg {txg}:\n{}", found.join("\n"));
        };
        drop(test_pool);
        // Some of the devices are away, and nothing is written.
        let mut away: Vec<usize> = (0..self.disks.len()).collect();
        while away.len() > self.parity {
            away.swap_remove(random.below(away.len()));
        }
        let parking = tempfile::tempdir().unwrap();
        let parked = |number: &usize| {
            let from = image(folder, &format!("disk{number}"));
            let to = parking.path().join(format!("disk{number}"));
            (from, to)
        };
        for (from, to) in away.iter().map(parked) {
            std::fs::copy(&from, &to).unwrap();
            std::fs::remove_file(&from).unwrap();
        }
        // Where power was lost between two uberblocks, only those that are away may have the newest one.
        let degraded = TestPool::import(folder, true).unwrap();
        let mut trees = self.states.possible(moment, txg);
        let is_one = trees.any(|tree| differences(tree, &degraded.root()).is_empty());
        assert!(is_one, "txg {txg}, without disks {away:?}: no state of it");
        drop(degraded);
        for (from, to) in away.iter().map(parked) {
            std::fs::copy(&to, &from).unwrap();
        }
        // It goes on.
        let test_pool = TestPool::import(folder, false).unwrap();
        let replayed = self
            .states
            .replayed(moment)
            .find(|tree| differences(tree, &test_pool.root()).is_empty());
        let Some(replayed) = replayed else {
            let found = differences(tree, &test_pool.root());
            panic!("txg {txg}, log replayed:\n{}", found.join("\n"));
        };
        let mut now = replayed.clone();
        let mut chooser = Chooser::new(random.draw());
        run_operations(&test_pool.root(), &mut now, &mut chooser, 12);
        if random.one_in(2) {
            // Exported before it has moved, as likely as not.
            test_pool.export().unwrap();
            zdb(folder);
            let test_pool = TestPool::import(folder, false).unwrap();
            self.end(test_pool, &now, folder, &away);
        } else {
            self.end(test_pool, &now, folder, &away);
        }
    }

    /// Everything moves; then the pool is whole, and as many devices can be away as before.
    fn end(&self, test_pool: TestPool, tree: &Tree, folder: &Path, away: &[usize]) {
        wait_for_expansion(&test_pool.pool);
        test_pool.pool.wait_scrub().unwrap();
        let found = differences(tree, &test_pool.root());
        assert!(found.is_empty(), "moved:\n{}", found.join("\n"));
        let is_new = test_pool.pool.config().root.children[0].children.len() < self.disks.len();
        aftermath::export(test_pool, folder);
        zdb(folder);
        let gone = away
            .iter()
            .filter(|number| !is_new || **number + 1 < self.disks.len());
        for number in gone {
            std::fs::remove_file(image(folder, &format!("disk{number}"))).unwrap();
        }
        let test_pool = TestPool::import(folder, false).unwrap();
        let found = differences(tree, &test_pool.root());
        assert!(found.is_empty(), "degraded:\n{}", found.join("\n"));
        // The one that came with the end of the expansion may go on here.
        let _ = test_pool.pool.start_scrub();
        test_pool.pool.wait_scrub().unwrap();
        let scan = test_pool.pool.scan().unwrap().unwrap();
        assert_eq!((scan.errors, scan.processed), (0, 0));
        test_pool.export().unwrap();
    }

    /// A moment: most are near the beginning, where sectors go through the scratch areas.
    fn draw(&self, random: &mut Random) -> u64 {
        let [began, moved, end] = self.moments;
        let below = |random: &mut Random, from: u64, to: u64| {
            from + random.below((to - from + 1) as usize) as u64
        };
        match random.below(4) {
            0 | 1 => below(random, began, began + (moved - began) / 6),
            2 => below(random, began, moved),
            _ => below(random, moved.saturating_sub((moved - began) / 8), end),
        }
    }
}

/// A RAID-Z, as a seed draws it.
fn shape(seed: u64) -> (usize, usize) {
    let mut random = Random::new(seed ^ 0xE59A);
    let parity = 1 + random.below(3);
    (parity, parity + 1 + random.below(3))
}

fn explore(seed: u64, rounds: usize, points: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test expansion");
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let recorded = record(seed, shape(seed), rounds);
    let mut random = Random::new(seed);
    for point in 0..points {
        let moment = recorded.draw(&mut random);
        println!("crash point {point}: {moment} of {:?}", recorded.moments);
        recorded.check(moment, &mut random);
    }
}

#[test]
fn power_losses_while_a_raidz_is_expanded() {
    for seed in seed(1)..seed(1) + 2 {
        explore(seed, 6, 3);
    }
}

/// A pool of three disks that gets a fourth, and goes on with that when this returns; and its files.
fn begun(seed: u64) -> (TestPool, Tree, Vec<Arc<SimulatedDisk>>) {
    let (timeline, mut disks) = (Timeline::new(), Vec::new());
    let devices = (0..3).map(|_| new_device(&mut disks, &timeline, seed));
    let vdev = NewVdev::RaidZ(1, devices.collect());
    let test_pool = TestPool::create_of(vdev).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    run_operations(&test_pool.root(), &mut tree, &mut chooser, 30);
    let device = new_device(&mut disks, &timeline, seed);
    let pool = &test_pool.pool;
    let options = AttachOptions::default();
    pool.expand_raidz(top(pool), &device, &options).unwrap();
    (test_pool, tree, disks)
}

/// Waits until devices have failed the pool, or it is expanded; whether it is suspended.
fn is_suspended(pool: &Pool) -> bool {
    let begun = Instant::now();
    while pool.suspended().is_none() && pool.is_expanding() {
        assert!(begun.elapsed() < Duration::from_secs(240), "expansion");
        std::thread::sleep(Duration::from_millis(2));
    }
    pool.suspended().is_some()
}

/// Clears a pool whose devices work again. A failure from before may reach the pool after it was cleared: then it is
/// cleared once more, as an administrator would.
fn clear(pool: &Arc<Pool>) {
    pool.clear(&|_| true).unwrap();
    if pool.sync().is_err() {
        pool.clear(&|_| true).unwrap();
        pool.sync().unwrap();
    }
}

#[test]
fn devices_that_fail_while_a_raidz_is_expanded() {
    let seed = seed(40);
    let kinds = [FaultKind::FlushError, FaultKind::WriteError];
    for (round, after) in [0, 2, 5, 9, 14, 20, 27].into_iter().enumerate() {
        let kind = &kinds[round % 2];
        let (test_pool, tree, disks) = begun(seed + u64::from(after));
        // All of them, or one alone, which the others stand for.
        let failing = if round % 3 == 2 {
            &disks[1..2]
        } else {
            &disks[..]
        };
        for disk in failing {
            disk.inject(Fault::everywhere(kind.clone(), Times::After(after * 3)));
        }
        let pool = Arc::clone(&test_pool.pool);
        if failing.len() == 1 {
            let begun = Instant::now();
            while pool.is_expanding() && !pool.expansion_waits() {
                assert!(begun.elapsed() < Duration::from_secs(240), "expansion");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let suspended = failing.len() > 1 && is_suspended(&pool);
        println!("{kind:?} after {after}: suspended {suspended}");
        if suspended && round == 3 {
            // Given up: nobody waits for what does not come.
            pool.abandon();
            continue;
        }
        disks.iter().for_each(|disk| disk.heal());
        clear(&pool);
        wait_for_expansion(&pool);
        let found = differences(&tree, &test_pool.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
        pool.wait_scrub().unwrap();
        let _ = pool.start_scrub();
        pool.wait_scrub().unwrap();
        assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
        drop(pool);
        test_pool.export().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (number, disk) in disks.iter().enumerate() {
            let path = image(folder.path(), &format!("disk{number}"));
            disk.write_to_file(&path).unwrap();
        }
        zdb(folder.path());
    }
}

/// `MILLPOND_SECONDS` (60) of expansions, from `MILLPOND_SEED` (9000) on.
#[test]
#[ignore = "torture: expansions one after the other"]
fn many_expansions() {
    let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
    let (begun, first) = (Instant::now(), seed(9000));
    let mut seed = first;
    while begun.elapsed() < time {
        explore(seed, 8, 12);
        seed += 1;
    }
    println!("seeds {first} to {seed}: 0 differences");
}
