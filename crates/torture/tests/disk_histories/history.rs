//! A history: sessions of one pool, each between an import and an export or a power loss.

use crate::disk::{Disk, Plug};
use crate::files::{States, differences};
use crate::view::{NO_DISK, View, Whole, can_do_without};
use millpond_torture::operation::{Chooser, Limits};
use millpond_torture::pool_model::PoolModel;
use millpond_torture::random::Random;
use millpond_torture::test_pool::{POOL, TestPool};
use pool::{
    CreateOptions, DraidWidth, ImportOptions, NewDevice, NewVdev, Pool, Selection, VdevRole,
};
use sim::{Fault, FaultKind, Timeline, Times};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Bytes of a disk, at least.
const SIZE: u64 = 160 << 20;

/// What happened in a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: usize,
    pub(crate) refused: usize,
    pub(crate) faults: usize,
    pub(crate) power_losses: usize,
    pub(crate) taken_back: usize,
    pub(crate) without_leaves: usize,
}

impl Counts {
    pub(crate) const fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.faults += other.faults;
        self.power_losses += other.power_losses;
        self.taken_back += other.taken_back;
        self.without_leaves += other.without_leaves;
    }
}

pub(crate) struct History {
    pub(crate) random: Random,
    pub(crate) timeline: Timeline,
    folder: tempfile::TempDir,
    pub(crate) disks: Vec<Arc<Disk>>,
    /// The same, for what opens them by their paths: a spare may have come after the import.
    known: Arc<Mutex<Vec<Arc<Disk>>>>,
    pub(crate) ashift: u32,
    pub(crate) model: PoolModel,
    pub(crate) states: States,
    pub(crate) chooser: Chooser,
    /// Disks that may have wrong bytes, which a scrub sets right.
    pub(crate) rotten: BTreeSet<usize>,
    /// Disks with faults that may strike.
    pub(crate) faulty: BTreeSet<usize>,
    /// Disks that a change of the pool's guid left behind: a power loss brings back what they had.
    pub(crate) left_by_reguid: BTreeSet<usize>,
    /// The files as the checkpoint has them, and from which event of the disks on it is there after a power loss.
    pub(crate) checkpoint: Option<(PoolModel, u64)>,
    pub(crate) counts: Counts,
}

impl History {
    /// A new pool, as a seed draws it, that nobody has open.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xD15C);
        let ashift = *random.pick(&[9, 12]);
        let limits = Limits {
            file_bytes: 200_000,
            names: 60,
            unnamed: false,
            synchronous: false,
        };
        let mut history = Self {
            random,
            timeline: Timeline::new(),
            folder: tempfile::tempdir().unwrap(),
            disks: Vec::new(),
            known: Arc::default(),
            ashift,
            model: PoolModel::new(POOL),
            states: States::default(),
            chooser: Chooser::within(seed, limits),
            rotten: BTreeSet::new(),
            faulty: BTreeSet::new(),
            left_by_reguid: BTreeSet::new(),
            checkpoint: None,
            counts: Counts::default(),
        };
        history.create(seed);
        history
    }

    fn create(&mut self, seed: u64) {
        // One in two has no parity: of such, devices can be removed.
        let with_parity = self.random.one_in(2);
        let tops = if with_parity {
            1 + self.random.below(2)
        } else {
            3
        };
        let mut described = Vec::new();
        let mut vdev = |history: &mut Self, with_parity: bool| {
            if with_parity && history.random.one_in(3) {
                let (width, vdev) = history.new_draid();
                println!("{width:?}");
                return vdev;
            }
            let parity =
                (with_parity && !history.random.one_in(4)).then(|| 1 + history.random.below(3));
            let width = match parity {
                Some(parity) => parity + 1 + history.random.below(2),
                None => 1 + history.random.below(3),
            };
            described.push((parity, width));
            history.new_vdev(parity, width)
        };
        let vdevs: Vec<_> = (0..tops).map(|_| vdev(self, with_parity)).collect();
        let mut others = Vec::new();
        for role in [VdevRole::Special, VdevRole::Log] {
            if self.random.one_in(3) {
                others.push((role, vdev(self, false)));
            }
        }
        let spares = if self.random.one_in(2) {
            1 + self.random.below(2)
        } else {
            0
        };
        println!(
            "{described:?}, others {:?}, {spares} spares, ashift {}",
            others.iter().map(|(role, _)| role).collect::<Vec<_>>(),
            self.ashift
        );
        let mut options = CreateOptions::new(POOL, vdevs);
        options.others = others;
        options.spares = (0..spares).map(|_| self.new_device().1).collect();
        options.ashift = Some(self.ashift);
        options.root.populate = Some(millpond_torture::pool_model::real::populate());
        let test_pool = TestPool::create_as(options).unwrap();
        test_pool.draw_storage(seed, true, Some(&mut self.model));
        test_pool.export().unwrap();
        self.settle();
    }

    /// A new disk for a place, as large as the others or somewhat larger.
    pub(crate) fn new_device(&mut self) -> (usize, NewDevice) {
        let more = (self.random.below(3) as u64) * (16 << 20);
        self.new_disk(SIZE + more)
    }

    fn new_disk(&mut self, size: u64) -> (usize, NewDevice) {
        let number = self.disks.len();
        let seed = self.random.draw();
        let disk = Disk::new(number, (size, seed), self.folder.path(), &self.timeline);
        self.disks.push(Arc::clone(&disk));
        self.known.lock().unwrap().push(Arc::clone(&disk));
        let device = NewDevice::Open(disk.path(), Arc::new(Plug(disk)));
        (number, device)
    }

    pub(crate) fn new_vdev(&mut self, parity: Option<usize>, width: usize) -> NewVdev {
        let mut devices: Vec<_> = (0..width).map(|_| self.new_disk(SIZE).1).collect();
        match parity {
            Some(parity) => NewVdev::RaidZ(parity as u64, devices),
            None if width == 1 => NewVdev::Single(devices.remove(0)),
            None => NewVdev::Mirror(devices),
        }
    }

    /// A dRAID, with distributed spares or without.
    fn new_draid(&mut self) -> (DraidWidth, NewVdev) {
        let mut below = |count: usize| self.random.below(count);
        let (parity, data, spares) = (1 + below(2), 1 + below(3), below(3));
        let count = (parity + data + spares + below(2)).max(2);
        let width = DraidWidth {
            parity: parity as u64,
            data,
            spares,
        };
        let devices = (0..count).map(|_| self.new_disk(SIZE).1).collect();
        (width, NewVdev::Draid(width, devices))
    }

    /// Nobody has the pool open: what is on the disks is there for certain.
    fn settle(&mut self) {
        for disk in &self.disks {
            if disk.away_since().is_none() {
                disk.settle();
            }
        }
        self.states.begin(self.timeline.now(), &self.model);
    }

    pub(crate) fn options(&self) -> ImportOptions {
        let known = Arc::clone(&self.known);
        let folder = self.folder.path().to_owned();
        let mut options = ImportOptions::new(vec![folder], Selection::Name(POOL.to_owned()));
        options.force = true;
        options.between = Some(Arc::new(move |device: Arc<dyn device::BlockDevice>| {
            let name = device.describe();
            let known = known.lock().unwrap();
            let disk = known
                .iter()
                .find(|disk| name == disk.path().display().to_string());
            disk.map_or(device, |disk| Arc::new(Plug(Arc::clone(disk))) as _)
        }));
        options
    }

    /// Imports the pool as it was exported.
    pub(crate) fn import(&mut self) -> TestPool {
        let test_pool = TestPool::import_as(&self.options()).unwrap();
        self.same(&test_pool, "imported");
        self.states.begin(self.timeline.now(), &self.model);
        test_pool
    }

    /// Disks that are not to be relied on.
    pub(crate) fn troubled(&self) -> BTreeSet<usize> {
        let away = self.disks.iter().filter(|disk| disk.away_since().is_some());
        let mut troubled: BTreeSet<usize> = away.map(|disk| disk.number()).collect();
        troubled.extend(&self.rotten);
        troubled.extend(&self.faulty);
        troubled
    }

    /// Whether the pool has everything without this disk, too, as far as it knows and the test.
    pub(crate) fn may_lose(&self, pool: &Pool, disk: usize) -> bool {
        // A distributed spare that steps in is rebuilt: what is wrong on another device would be in its room, too.
        let view = View::of(pool);
        let mut tops = view.there().filter(|top| top.kind == "draid");
        if tops.any(|top| top.has(disk) && self.is_unreliable(top)) {
            return false;
        }
        let mut troubled = self.troubled();
        troubled.insert(disk);
        // One that is replaced, or that stands in, goes by itself when the other one has everything.
        let own = view.there().filter(|top| top.has(disk));
        troubled.extend(own.flat_map(|top| top.beside(disk)));
        can_do_without(pool, &troubled)
    }

    /// Whether a disk of a top-level vdev may give wrong bytes: they would be copied to others.
    pub(crate) fn is_unreliable(&self, top: &Whole) -> bool {
        let mut disks = self.rotten.iter().chain(&self.faulty);
        disks.any(|disk| top.has(*disk))
    }

    /// Something happens to a disk that is not asked for.
    pub(crate) fn strike(&mut self, test_pool: &TestPool) {
        self.end_faults(test_pool);
        // What a device lacks no more is on disk, too.
        self.sync(test_pool);
        let pool = &test_pool.pool;
        let disk = self.random.below(self.disks.len());
        let disk = Arc::clone(&self.disks[disk]);
        let number = disk.number();
        if disk.away_since().is_some() {
            let loses = self.random.one_in(2).then(|| self.random.draw());
            println!("disk {number} is back, losing: {}", loses.is_some());
            disk.put_back(loses);
            pool.reopen_devices(false).unwrap();
            pool.clear(&|_| true).unwrap();
            return;
        }
        if !View::of(pool).is_part(number) || !self.may_lose(pool, number) {
            return;
        }
        self.counts.faults += 1;
        let count = Times::Count(1 + self.random.below(20) as u32);
        let fault = |kind| Fault {
            kind,
            range: disk.data(),
            times: count,
        };
        let mut kind = self.random.below(6);
        if (pool.is_expanding() || pool.is_rebuilding()) && [1, 3, 4].contains(&kind) {
            // Wrong bytes would be copied to several devices, unverified: no other one may be lost.
            kind = 2;
        }
        println!("fault {kind} of disk {number}");
        match kind {
            0 => disk.inject(fault(FaultKind::ReadError)),
            1 => disk.inject(fault(FaultKind::RottenRead)),
            2 => disk.inject(fault(FaultKind::WriteError)),
            3 => disk.inject(fault(FaultKind::LostWrite)),
            4 => {
                let (seed, data) = (self.random.draw(), disk.data());
                disk.rot(data.start..data.start + (24 << 20), 400, seed);
            }
            _ => disk.pull_out(),
        }
        match kind {
            0..3 => drop(self.faulty.insert(number)),
            3 => {
                self.faulty.insert(number);
                self.rotten.insert(number);
            }
            4 => drop(self.rotten.insert(number)),
            _ => {}
        }
    }

    /// No fault strikes any more.
    pub(crate) fn end_faults(&mut self, test_pool: &TestPool) {
        let faulty = std::mem::take(&mut self.faulty);
        if faulty.is_empty() {
            return;
        }
        self.disks.iter().for_each(|disk| disk.heal());
        test_pool.pool.clear(&|_| true).unwrap();
    }

    /// The power goes at a moment of late, and the pool is imported again.
    pub(crate) fn lose_power(&mut self, test_pool: TestPool) -> TestPool {
        let since = self.states.since();
        let span = (self.timeline.now() - since) as usize;
        // One in four goes while nothing waits: after the last event.
        let moment = match self.random.one_in(4) {
            true => self.timeline.now(),
            false => since + self.random.below(span + 1) as u64,
        };
        println!(
            "power loss at {moment}, of {since} to {}",
            self.timeline.now()
        );
        self.counts.power_losses += 1;
        let _ = test_pool.try_close_all();
        test_pool.pool.abandon();
        drop(test_pool);
        for disk in self.disks.clone() {
            let away = disk.away_since().filter(|away| *away < since);
            disk.lose_power(moment, self.random.draw());
            if away.is_some() && self.random.one_in(2) {
                disk.leave_out();
            }
        }
        self.faulty.clear();
        // Whether one that was taken later is there only the pool knows.
        self.checkpoint.take_if(|(_, since)| moment < *since);
        let test_pool = TestPool::import_as(&self.options()).unwrap();
        let model = {
            let mut possible = self.states.possible(moment);
            let found = possible.find(|model| differences(model, &test_pool).is_empty());
            found.cloned()
        };
        let Some(model) = model else {
            let all = self.states.possible(moment);
            let lines = all.map(|model| differences(model, &test_pool).join("\n"));
            panic!(
                "after a power loss:\n{}",
                lines.collect::<Vec<_>>().join("\nor:\n")
            );
        };
        self.model = model;
        self.wipe_left(&View::of(&test_pool.pool));
        self.states.begin(self.timeline.now(), &self.model);
        self.same(&test_pool, "imported after a power loss");
        test_pool
    }

    /// The pool is taken back to its checkpoint.
    pub(crate) fn take_back(&mut self, test_pool: TestPool) -> TestPool {
        let Some((model, _)) = self.checkpoint.take() else {
            return test_pool;
        };
        self.counts.taken_back += 1;
        println!("taken back to the checkpoint");
        self.put_all_back(&test_pool);
        test_pool.export().unwrap();
        self.settle();
        let mut options = self.options();
        options.to_checkpoint = true;
        let test_pool = TestPool::import_as(&options).unwrap();
        self.model = model;
        self.same(&test_pool, "taken back");
        self.states.begin(self.timeline.now(), &self.model);
        test_pool
    }

    pub(crate) fn put_all_back(&mut self, test_pool: &TestPool) {
        self.end_faults(test_pool);
        let mut is_any = false;
        for disk in &self.disks {
            if disk.away_since().is_some() {
                disk.put_back(None);
                is_any = true;
            }
        }
        if is_any {
            test_pool.pool.reopen_devices(false).unwrap();
            test_pool.pool.clear(&|_| true).unwrap();
        }
    }

    pub(crate) fn export(&mut self, test_pool: TestPool) {
        println!("exported");
        test_pool.export().unwrap();
        self.settle();
    }

    /// Takes away devices that the pool says it does not need, and reads it: as after a power loss in this moment.
    pub(crate) fn do_without(&mut self, test_pool: &TestPool) {
        let pool = &test_pool.pool;
        let view = View::of(pool);
        let disks = view.sides().map(|(_, side)| side.disk);
        let mut left: Vec<usize> = disks.filter(|disk| *disk != NO_DISK).collect();
        let mut without = self.troubled();
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        while !left.is_empty() {
            let disk = left.swap_remove(self.random.below(left.len()));
            without.insert(disk);
            if can_do_without(pool, &without) {
                gone.insert(disk);
            } else if !self.troubled().contains(&disk) {
                without.remove(&disk);
            }
        }
        // What they lack no more is on disk, too.
        self.sync(test_pool);
        let folder = tempfile::tempdir().unwrap();
        let (moment, seed) = (self.timeline.now(), self.random.draw());
        for disk in &self.disks {
            if !gone.contains(&disk.number()) && disk.away_since().is_none() {
                disk.copy_as_of(moment, seed ^ disk.number() as u64, folder.path());
            }
        }
        // A device that stood for another may have gone meanwhile, for it was replaced.
        if gone.is_empty()
            || !can_do_without(pool, &without)
            || View::of(pool).shape() != view.shape()
        {
            return;
        }
        self.counts.without_leaves += 1;
        let copy = TestPool::import(folder.path(), false);
        let copy = copy.unwrap_or_else(|error| panic!("without {gone:?}: {error:?} {view:#?}"));
        self.same(&copy, &format!("without {gone:?} of {view:#?}"));
        copy.pool.abandon();
    }

    /// Copies of the disks as they are.
    pub(crate) fn copies(&self, folder: &Path) {
        self.disks.iter().for_each(|disk| disk.copy(folder));
    }
}
