//! Histories of devices that come, go, fail and come back, against a model of which device must have what.
//!
//! The model says which request is to be refused. Where no device is being resilvered it must be right; else the
//! pool may refuse more. The power fails at moments within each change and the resilvers behind it, when the files are
//! as of the last sync: each time the pool is imported, gets every device back, and is read from the fewest of them.

use super::{SIZE, differences, wait_for_resilver, zdb};
use base::Guid;
use millpond_torture::aftermath;
use millpond_torture::hesitant;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::test_pool::{TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{AttachOptions, NewDevice, NewVdev, OutOfUse, Pool, PoolError, VdevConfig};
use sim::{SimulatedDisk, Timeline};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device as the model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    disk: usize,
    online: bool,
    /// It has everything.
    whole: bool,
}

impl Side {
    const fn new(disk: usize, whole: bool) -> Self {
        let online = true;
        Self {
            disk,
            online,
            whole,
        }
    }

    const fn can_serve(self) -> bool {
        self.online && self.whole
    }
}

/// What a vdev consists of: each child is a device, or one and another that is to take its place.
#[derive(Clone, Debug)]
struct Model {
    /// Rows of parity; none for copies.
    parity: Option<usize>,
    children: Vec<Vec<Side>>,
    /// Whether it is getting another child, and waits for devices.
    is_expanding: bool,
}

impl Model {
    fn tolerance(&self) -> usize {
        self.parity.unwrap_or(self.children.len() - 1)
    }

    fn sides(&self) -> Vec<Side> {
        self.children.concat()
    }

    fn side(&mut self, disk: usize) -> &mut Side {
        let mut sides = self.children.iter_mut().flatten();
        sides.find(|side| side.disk == disk).unwrap()
    }

    fn child_of(&self, disk: usize) -> usize {
        let has = |child: &Vec<Side>| child.iter().any(|side| side.disk == disk);
        self.children.iter().position(has).unwrap()
    }

    /// Whether something is lost without a device.
    fn is_lost_without(&self, disk: usize) -> bool {
        let serves = |side: &Side| side.can_serve() && side.disk != disk;
        let lost = |child: &&Vec<Side>| !child.iter().any(serves);
        self.children.iter().filter(lost).count() > self.tolerance()
    }

    fn may_detach(&self, disk: usize) -> bool {
        let child = &self.children[self.child_of(disk)];
        let others = |side: &Side| side.disk != disk && side.can_serve();
        let own = child.iter().find(|side| side.disk == disk).unwrap();
        let is_side = child.len() > 1 || (self.parity.is_none() && self.children.len() > 1);
        let loses_child = child.len() > 1 && own.can_serve() && !child.iter().any(others);
        is_side && !loses_child && !self.is_lost_without(disk)
    }

    fn may_attach(&self, disk: usize, replace: bool) -> bool {
        let is_alone = self.children[self.child_of(disk)].len() == 1;
        is_alone && (replace || self.parity.is_none())
    }

    /// Whether a RAID-Z can get another child.
    fn may_expand(&self) -> bool {
        let is_alone = |child: &Vec<Side>| child.len() == 1;
        let is_whole = self.children.iter().all(is_alone) && self.all_serve();
        self.parity.is_some() && is_whole && !self.is_expanding
    }

    fn all_serve(&self) -> bool {
        self.sides().into_iter().all(Side::can_serve)
    }

    /// Resilvers have ended.
    fn resilvered(&mut self) {
        for child in &mut self.children {
            let here = child.iter_mut().filter(|side| side.online);
            here.for_each(|side| side.whole = true);
            if child.last().is_some_and(|new| new.can_serve()) {
                child.drain(..child.len() - 1);
            }
        }
    }

    fn detach(&mut self, disk: usize) {
        let child = self.child_of(disk);
        if self.children[child].len() > 1 {
            self.children[child].retain(|side| side.disk != disk);
        } else {
            self.children.remove(child);
        }
    }

    /// As [`tree`] says it.
    fn tree(&self) -> Vec<Vec<usize>> {
        let disks = |child: &Vec<Side>| child.iter().map(|side| side.disk).collect();
        self.children.iter().map(disks).collect()
    }
}

/// The disks of a pool's vdev by the child that they belong to.
fn tree(pool: &Pool) -> Vec<Vec<usize>> {
    let top = &pool.config().root.children[0];
    let disks = |node: &VdevConfig| node.leaves().iter().map(|leaf| disk_of(leaf)).collect();
    match top.kind() {
        "mirror" | "raidz" => top.children.iter().map(disks).collect(),
        _ => vec![disks(top)],
    }
}

/// The number of a device's disk, with which its path ends.
fn disk_of(leaf: &VdevConfig) -> usize {
    let name = leaf.path().unwrap().rsplit('/').next().unwrap();
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = digits.trim_end_matches(".img");
    digits.parse().unwrap()
}

/// A request.
#[derive(Clone, Copy, Debug)]
enum Request {
    Offline(usize, OutOfUse),
    Online(usize),
    Attach { beside: usize, replace: bool },
    Expand,
    Detach(usize),
}

struct History {
    random: Random,
    timeline: Timeline,
    disks: Vec<Arc<SimulatedDisk>>,
    model: Model,
    tree: Tree,
    chooser: Chooser,
    /// Whether no device is being resilvered.
    is_idle: bool,
    /// Moments when nothing but devices was changed, and the files as they were.
    windows: Vec<(Range<u64>, Tree)>,
}

impl History {
    fn new_device(&mut self) -> (usize, NewDevice) {
        let number = self.disks.len();
        let seed = self.random.draw();
        let disk = SimulatedDisk::on_timeline(SIZE, seed, &self.timeline);
        let disk = Arc::new(disk);
        self.disks.push(Arc::clone(&disk));
        let device = hesitant::device(disk, seed ^ 1);
        (number, NewDevice::Open(path(number).into(), device))
    }

    fn write(&mut self, test_pool: &TestPool) {
        run_operations(&test_pool.root(), &mut self.tree, &mut self.chooser, 12);
        test_pool.pool.sync().unwrap();
    }

    /// Writes until each device that is away lacks something: operations that all are refused leave nothing to write,
    /// and small blocks lie on few devices.
    fn leave_behind(&mut self, test_pool: &TestPool) {
        const TRIES: usize = 40;
        let away = |side: &&Side| !side.online && side.whole;
        let away: Vec<usize> = self
            .model
            .sides()
            .iter()
            .filter(away)
            .map(|side| side.disk)
            .collect();
        for disk in away {
            let lacks = || {
                let guid = leaf(&test_pool.pool, disk);
                let tops = test_pool.pool.vdevs().tops();
                let mut leaves = tops[0].leaves().iter();
                leaves.any(|leaf| leaf.guid() == guid && !leaf.missing().is_empty())
            };
            for _ in 0..TRIES {
                if lacks() {
                    break;
                }
                self.write(test_pool);
            }
            assert!(lacks(), "{disk}");
            self.model.side(disk).whole = false;
        }
    }

    fn draw(&mut self) -> Request {
        let sides = self.model.sides();
        let side = *self.random.pick(&sides);
        let disk = side.disk;
        let replace = self.random.one_in(2);
        let is_narrow = self.model.children.len() < 8;
        if self.model.parity.is_some() && is_narrow && self.random.one_in(4) {
            return Request::Expand;
        }
        match self.random.below(5) {
            0 => {
                let faulted = self.random.one_in(4);
                let temporary = self.random.one_in(2);
                Request::Offline(disk, OutOfUse { faulted, temporary })
            }
            1 => {
                let away = sides.iter().find(|side| !side.online);
                Request::Online(away.unwrap_or(&side).disk)
            }
            2 if sides.len() > 2 && self.model.parity.is_none() => Request::Detach(disk),
            3 if self.random.one_in(2) => Request::Detach(disk),
            _ => Request::Attach {
                beside: disk,
                replace,
            },
        }
    }

    fn request(&mut self, pool: &Arc<Pool>) {
        let request = self.draw();
        let before = format!("{:?}", self.model.children);
        let (wanted, done) = match request {
            Request::Offline(disk, how) => {
                // One that is needed is only called degraded.
                let wanted = !self.model.is_lost_without(disk);
                let result = pool.take_out(leaf(pool, disk), how);
                let done = result.is_ok() && (!how.faulted || !serves(pool, disk));
                if done {
                    self.model.side(disk).online = false;
                } else if how.faulted {
                    // Of others it would end the fault, too.
                    pool.clear(&|leaf| leaf.path().ends_with(&path(disk)))
                        .unwrap();
                }
                (wanted, done)
            }
            Request::Online(disk) => {
                pool.clear(&|leaf| leaf.path().ends_with(&path(disk)))
                    .unwrap();
                pool.bring_online(leaf(pool, disk)).unwrap();
                self.model.side(disk).online = true;
                (true, serves(pool, disk))
            }
            Request::Attach { beside, replace } => {
                let wanted = self.model.may_attach(beside, replace);
                let (number, device) = self.new_device();
                let options = AttachOptions {
                    replace,
                    ..AttachOptions::default()
                };
                let done = pool
                    .attach_device(leaf(pool, beside), &device, &options)
                    .is_ok();
                if done {
                    let child = self.model.child_of(beside);
                    let new = Side::new(number, false);
                    if replace {
                        self.model.children[child].push(new);
                    } else {
                        self.model.children.push(vec![new]);
                    }
                }
                (wanted, done)
            }
            Request::Expand => {
                let wanted = self.model.may_expand();
                let (number, device) = self.new_device();
                let top = pool.config().root.children[0].guid();
                let options = AttachOptions::default();
                let done = pool.expand_raidz(top, &device, &options).is_ok();
                if done {
                    self.model.children.push(vec![Side::new(number, true)]);
                    self.model.is_expanding = true;
                }
                (wanted, done)
            }
            Request::Detach(disk) => {
                let wanted = self.model.may_detach(disk);
                let done = pool.detach_device(leaf(pool, disk)).is_ok();
                if done {
                    self.model.detach(disk);
                }
                (wanted, done)
            }
        };
        println!("{request:?}: {done}");
        if self.is_idle {
            assert_eq!(done, wanted, "{request:?} of {before}");
        }
        self.is_idle = false;
    }

    /// Waits until nothing is resilvered; then the pool's tree is the model's.
    fn rest(&mut self, pool: &Arc<Pool>) {
        let begun = Instant::now();
        let leaves = || pool.vdevs().tops()[0].leaves().to_vec();
        let lacks = |leaf: &Arc<vdev::Leaf>| leaf.is_writable() && !leaf.missing().is_empty();
        while leaves().iter().any(lacks) {
            assert!(begun.elapsed() < Duration::from_secs(240), "resilver");
            std::thread::sleep(Duration::from_millis(5));
        }
        pool.wait_scrub().unwrap();
        pool.sync().unwrap();
        self.model.resilvered();
        // Where all devices are there sectors move.
        if self.model.all_serve() {
            expand(pool);
            self.model.is_expanding = false;
        }
        assert_eq!(tree(pool), self.model.tree());
        for side in self.model.sides() {
            assert_eq!(serves(pool, side.disk), side.online, "{side:?}");
        }
        self.is_idle = true;
    }

    fn step(&mut self, test_pool: &TestPool) {
        let pool = &test_pool.pool;
        if self.random.one_in(3) {
            self.write(test_pool);
        }
        // A request that depends on how far a resilver came is drawn from what the model knows for certain.
        let begins = self.timeline.now();
        if !self.is_idle {
            self.rest(pool);
        }
        self.request(pool);
        if self.random.one_in(2) {
            self.rest(pool);
        }
        let window = begins..self.timeline.now();
        self.windows.push((window, self.tree.clone()));
        if self.random.one_in(2) {
            self.write(test_pool);
        }
        self.leave_behind(test_pool);
    }

    /// The pool after a power loss at `moment`: all is there, on as few devices as may be.
    fn crash(&mut self, moment: u64, tree: &Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (number, disk) in self.disks.iter().enumerate() {
            let crashed = disk.crash_at_moment(moment, moment ^ number as u64);
            let path = image(folder.path(), &format!("disk{number}"));
            crashed.write_to_file(&path).unwrap();
        }
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let same = |test_pool: &TestPool| {
            let found = differences(tree, &test_pool.root());
            assert!(found.is_empty(), "{}", found.join("\n"));
        };
        same(&test_pool);
        let pool = Arc::clone(&test_pool.pool);
        pool.clear(&|_| true).unwrap();
        for leaf in pool.vdevs().tops()[0].leaves() {
            match pool.bring_online(leaf.guid()) {
                // Its place is another one's by now.
                Ok(_) | Err(PoolError::NoSuchVdev { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let begun = Instant::now();
        let lacking = || {
            let leaves = pool.vdevs().tops()[0].leaves().to_vec();
            leaves.iter().any(|leaf| !leaf.missing().is_empty())
        };
        while lacking() {
            assert!(begun.elapsed() < Duration::from_secs(240), "resilver");
            std::thread::sleep(Duration::from_millis(5));
        }
        pool.wait_scrub().unwrap();
        expand(&pool);
        let children = self::tree(&pool);
        assert!(
            children.iter().all(|child| child.len() == 1),
            "{children:?}"
        );
        drop(pool);
        test_pool.export().unwrap();
        zdb(folder.path());
        // As few as may be: which, is drawn.
        let mut kept: Vec<usize> = children.concat();
        let spare = self.model.parity.unwrap_or(kept.len() - 1);
        for _ in 0..spare {
            kept.swap_remove(self.random.below(kept.len()));
        }
        for number in (0..self.disks.len()).filter(|number| !kept.contains(number)) {
            let _ = std::fs::remove_file(image(folder.path(), &format!("disk{number}")));
        }
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        same(&test_pool);
        // The one that came with the end of an expansion may go on here.
        let _ = test_pool.pool.start_scrub();
        let scan = wait_for_resilver(&test_pool.pool);
        assert_eq!((scan.function, scan.errors, scan.processed), (1, 0, 0));
        aftermath::export(test_pool, folder.path());
    }
}

/// Waits until a vdev that is getting another child has it.
fn expand(pool: &Arc<Pool>) {
    let begun = Instant::now();
    while pool.is_expanding() {
        assert!(begun.elapsed() < Duration::from_secs(240), "expansion");
        std::thread::sleep(Duration::from_millis(5));
    }
    pool.sync().unwrap();
    pool.wait_scrub().unwrap();
}

fn path(disk: usize) -> String {
    format!("/simulated/disk{disk}")
}

fn leaf(pool: &Pool, disk: usize) -> Guid {
    let config = pool.config();
    let leaves = config.root.leaves();
    let found = leaves.iter().find(|leaf| disk_of(leaf) == disk);
    found.map_or(Guid(0), |leaf| leaf.guid())
}

fn serves(pool: &Pool, disk: usize) -> bool {
    let guid = leaf(pool, disk);
    let tops = pool.vdevs().tops();
    let mut leaves = tops[0].leaves().iter();
    leaves.any(|leaf| leaf.guid() == guid && leaf.is_writable())
}

fn new_history(seed: u64) -> (History, TestPool) {
    let mut random = Random::new(seed ^ 0xC03E);
    let parity = (random.below(3) == 0).then(|| 1 + random.below(2));
    let width = match parity {
        Some(parity) => parity + 1 + random.below(3),
        None => 1 + random.below(3),
    };
    let mut history = History {
        random,
        timeline: Timeline::new(),
        disks: Vec::new(),
        model: Model {
            parity,
            children: (0..width).map(|disk| vec![Side::new(disk, true)]).collect(),
            is_expanding: false,
        },
        tree: Tree::new(),
        chooser: Chooser::new(seed),
        is_idle: true,
        windows: Vec::new(),
    };
    println!("{:?}", history.model);
    let mut devices: Vec<_> = (0..width).map(|_| history.new_device().1).collect();
    let vdev = match parity {
        Some(parity) => NewVdev::RaidZ(parity as u64, devices),
        None if width == 1 => NewVdev::Single(devices.remove(0)),
        None => NewVdev::Mirror(devices),
    };
    let test_pool = TestPool::create_of(vdev).unwrap();
    (history, test_pool)
}

/// A history of so many requests, and power losses within so many of them.
fn devices_that_come_and_go(seed: u64, requests: usize, crashes: usize) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test redundancy -- come_and_go"
    );
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let (mut history, test_pool) = new_history(seed);
    history.write(&test_pool);
    history.write(&test_pool);
    for _ in 0..requests {
        history.step(&test_pool);
        let found = differences(&history.tree, &test_pool.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
    history.rest(&test_pool.pool);
    test_pool.close_all();
    test_pool.pool.abandon();
    drop(test_pool);
    for _ in 0..crashes {
        let at = history.random.below(history.windows.len());
        let (window, tree) = history.windows[at].clone();
        let length = (window.end - window.start).max(1) as usize;
        let moment = window.start + history.random.below(length) as u64;
        println!("power loss at {moment}, in request {at}");
        history.crash(moment, &tree);
    }
}

#[test]
fn devices_come_and_go() {
    for seed in seed(400)..seed(400) + 3 {
        devices_that_come_and_go(seed, 6, 2);
    }
}

/// `MILLPOND_SECONDS` (60) of histories, from `MILLPOND_SEED` (4000) on.
#[test]
#[ignore = "torture: histories of devices one after the other"]
fn many_devices_come_and_go() {
    let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
    let (begun, first) = (Instant::now(), seed(4000));
    let mut seed = first;
    while begun.elapsed() < time {
        devices_that_come_and_go(seed, 10, 6);
        seed += 1;
    }
    println!("seeds {first} to {seed}: 0 differences");
}
