//! Sequential rebuilds on simulated disks: the power goes at any moment and nothing is lost; and how long one takes.

use base::{Guid, ObjectId};
use device::BlockDevice;
use millpond_torture::aftermath;
use millpond_torture::pool_model::real::populate;
use millpond_torture::random::{Random, seeds};
use millpond_torture::real::new_file;
use millpond_torture::test_pool::{POOL, TestPool, image, mount};
use millpond_torture::tunables::{by_default, drawn};
use pool::{
    AttachOptions, CreateOptions, DraidWidth, Fill, NewDevice, NewVdev, OutOfUse, Pool, VdevConfig,
};
use posix::{Credentials, FileSystem, OpenFile, OpenOptions, WriteOptions};
use sim::{
    DeviceModel, Fault, FaultKind, MemoryDisk, PacedDisk, SimulatedDisk, Timeline, Times,
    VirtualClock,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REPLACE: AttachOptions = AttachOptions {
    replace: true,
    ashift: None,
    force: false,
    fill: Fill::Sequential,
};
const ATTACH: AttachOptions = AttachOptions {
    replace: false,
    ..REPLACE
};

/// What a pool is made of, and what is done to it.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// A third side comes.
    Mirror,
    /// The only device is replaced.
    Single,
    /// A device is replaced.
    Draid,
    /// A distributed spare steps in for a device that went.
    Spare,
}

const SHAPES: [Shape; 4] = [Shape::Mirror, Shape::Single, Shape::Draid, Shape::Spare];
const SIZE: u64 = 160 << 20;
const WIDTH: DraidWidth = DraidWidth {
    parity: 1,
    data: 2,
    spares: 1,
};

impl Shape {
    const fn devices(self) -> usize {
        match self {
            Self::Mirror => 2,
            Self::Single => 1,
            Self::Draid | Self::Spare => 5,
        }
    }

    fn vdev(self, mut devices: Vec<NewDevice>) -> NewVdev {
        match self {
            Self::Mirror => NewVdev::Mirror(devices),
            Self::Single => NewVdev::Single(devices.remove(0)),
            Self::Draid | Self::Spare => NewVdev::Draid(WIDTH, devices),
        }
    }

    /// Which of the disks are not needed when the rebuild has ended, the new one being the last.
    const fn spared(self) -> &'static [usize] {
        match self {
            Self::Mirror => &[0, 1],
            Self::Single => &[0],
            Self::Draid => &[0, 3],
            Self::Spare => &[0, 2],
        }
    }
}

/// A file, and from which event of the disks on it is there after a crash.
struct Written {
    name: String,
    content: Vec<u8>,
    durable: u64,
}

struct Run {
    shape: Shape,
    random: Random,
    timeline: Timeline,
    disks: Vec<Arc<SimulatedDisk>>,
    files: Vec<Written>,
}

fn path(number: usize) -> String {
    format!("/simulated/disk{number}")
}

impl Run {
    fn device(&mut self) -> NewDevice {
        let number = self.disks.len();
        let seed = self.random.draw();
        let disk = Arc::new(SimulatedDisk::on_timeline(SIZE, seed, &self.timeline));
        self.disks.push(Arc::clone(&disk));
        NewDevice::Open(path(number).into(), disk)
    }

    /// Files of all sizes, some of which are removed again; a part of them under a sync of its own.
    fn write(&mut self, test_pool: &TestPool, count: usize) {
        let system = test_pool.root();
        let first = self.files.len();
        for number in 0..count {
            let name = format!("file{}", self.files.len());
            let most = 4096 << self.random.below(7);
            let len = 1 + self.random.below(most);
            let content = self.random.bytes(len);
            let file = new_file(&system, system.root(), name.as_bytes());
            file.write(0, &content, WriteOptions::default()).unwrap();
            if number % 5 == 0 {
                // The log's blocks are given long before they are written.
                file.fsync().unwrap();
            }
            self.files.push(Written {
                name,
                content,
                durable: u64::MAX,
            });
        }
        test_pool.pool.sync().unwrap();
        let now = self.timeline.now();
        let files = self.files[first..].iter_mut();
        files.for_each(|file| file.durable = now);
    }

    /// A disk fails to flush, once, and is cleared at some moment after that. If the pool cannot do without it, it is
    /// suspended meanwhile.
    fn fail_a_flush(&mut self, pool: &Arc<Pool>) {
        let number = self.random.below(self.disks.len());
        let disk = &self.disks[number];
        disk.inject(Fault::everywhere(FaultKind::FlushError, Times::Count(1)));
        let _ = pool.sync();
        std::thread::sleep(Duration::from_millis(self.random.below(20) as u64));
        disk.heal();
        pool.clear(&|_| true).unwrap();
        pool.sync().unwrap();
    }

    fn check(&self, test_pool: &TestPool, moment: u64, what: &str) {
        let system = test_pool.root();
        let root = Credentials::root();
        for file in self.files.iter().filter(|file| file.durable <= moment) {
            let found = system.lookup(&root, system.root(), file.name.as_bytes());
            let found = found.unwrap_or_else(|error| panic!("{what}: {}: {error}", file.name));
            let open = open(&system, found.object);
            let mut bytes = vec![0; file.content.len()];
            open.read(0, &mut bytes)
                .unwrap_or_else(|error| panic!("{what}: {}: {error}", file.name));
            assert!(bytes == file.content, "{what}: {}", file.name);
        }
    }

    /// The pool after a power loss at a moment.
    fn crash(&mut self, moment: u64) {
        let folder = tempfile::tempdir().unwrap();
        for (number, disk) in self.disks.iter().enumerate() {
            let crashed = disk.crash_at_moment(moment, moment ^ number as u64);
            let path = image(folder.path(), &format!("disk{number}"));
            crashed.write_to_file(&path).unwrap();
        }
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let what = format!("{:?} at {moment}", self.shape);
        self.check(&test_pool, moment, &what);
        wait_whole(&test_pool.pool, &what);
        let is_done = is_done(self.shape, &test_pool.pool);
        let _ = test_pool.pool.start_scrub();
        test_pool.pool.wait_scrub().unwrap();
        let scan = test_pool.pool.scan().unwrap().unwrap();
        assert_eq!(
            (scan.function, scan.errors, scan.processed),
            (1, 0, 0),
            "{what}"
        );
        test_pool.export().unwrap();
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), POOL);
        }
        if !is_done {
            return;
        }
        for number in self.shape.spared() {
            let _ = std::fs::remove_file(image(folder.path(), &format!("disk{number}")));
        }
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        self.check(&test_pool, moment, &format!("{what}, without others"));
        aftermath::leave(test_pool);
    }
}

/// Whether what was begun is part of the pool, and the devices have come that it is for.
fn is_done(shape: Shape, pool: &Pool) -> bool {
    let config = pool.config();
    let top = &config.root.children[0];
    let leaves = top.leaves();
    let named = |name: &str| {
        let mut leaves = leaves.iter();
        leaves.any(|leaf: &&VdevConfig| leaf.path().unwrap_or_default().ends_with(name))
    };
    let new = format!("disk{}", shape.devices());
    match shape {
        Shape::Mirror => top.children.len() == 3,
        Shape::Single | Shape::Draid => named(&new) || named(&format!("{new}.img")),
        Shape::Spare => named("draid1-0-0"),
    }
}

/// What takes longer goes on for ever.
const PATIENCE: Duration = Duration::from_secs(240);

fn wait_whole(pool: &Arc<Pool>, what: &str) {
    let begun = Instant::now();
    let lacks = || {
        let tops = pool.vdevs().tops();
        let leaves = tops[0].leaves().iter();
        let mut there = leaves.filter(|leaf| leaf.is_writable());
        there.any(|leaf| !leaf.missing().is_empty())
    };
    while lacks() || pool.is_rebuilding() {
        let leaves = || {
            let tops = pool.vdevs().tops();
            let leaves = tops[0].leaves().iter();
            let states = leaves.map(|leaf| (leaf.path(), leaf.condition(), leaf.missing()));
            states.collect::<Vec<_>>()
        };
        assert!(
            begun.elapsed() < PATIENCE,
            "{what}: {:#?}, {:#?}, {:?}",
            leaves(),
            pool.facts().rebuilds(),
            pool.scan()
        );
        std::thread::sleep(Duration::from_millis(3));
    }
    pool.wait_scrub().unwrap();
}

fn open(system: &FileSystem, object: ObjectId) -> OpenFile {
    let reading = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    system.open(&Credentials::root(), object, reading).unwrap()
}

fn leaf(pool: &Pool, number: usize) -> Guid {
    let config = pool.config();
    let leaves = config.root.leaves();
    let name = format!("disk{number}");
    let mut leaves = leaves.iter();
    let found = leaves.find(|leaf| leaf.path().unwrap_or_default().ends_with(&name));
    found.unwrap().guid()
}

fn explore(seed: u64, moments: usize) {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test rebuilds -- \
         the_power_goes --nocapture"
    );
    let _limits = drawn(seed);
    let mut random = Random::new(seed ^ 0x5EB1);
    let shape = *random.pick(&SHAPES);
    let mut run = Run {
        shape,
        random,
        timeline: Timeline::new(),
        disks: Vec::new(),
        files: Vec::new(),
    };
    let devices = (0..shape.devices()).map(|_| run.device()).collect();
    let mut options = CreateOptions::new(POOL, vec![shape.vdev(devices)]);
    options.root.populate = Some(populate());
    let test_pool = TestPool::create_as(options).unwrap();
    run.write(&test_pool, 120);
    let pool = Arc::clone(&test_pool.pool);
    let before = run.timeline.now();
    match shape {
        Shape::Mirror => {
            let device = run.device();
            pool.attach_device(leaf(&pool, 0), &device, &ATTACH)
                .unwrap();
        }
        Shape::Single | Shape::Draid => {
            let device = run.device();
            pool.attach_device(leaf(&pool, 0), &device, &REPLACE)
                .unwrap();
        }
        Shape::Spare => {
            let how = OutOfUse {
                faulted: false,
                temporary: false,
            };
            pool.take_out(leaf(&pool, 0), how).unwrap();
            run.write(&test_pool, 10);
            let room = NewDevice::Path("draid1-0-0".into());
            pool.attach_device(leaf(&pool, 0), &room, &REPLACE).unwrap();
        }
    }
    for _ in 0..3 {
        run.write(&test_pool, 8);
        if run.random.one_in(2) {
            run.fail_a_flush(&pool);
        }
    }
    wait_whole(&pool, "uninterrupted");
    let after = run.timeline.now();
    run.check(&test_pool, after, "uninterrupted");
    drop(pool);
    test_pool.export().unwrap();
    println!("{shape:?}: events {before} to {after}");
    for _ in 0..moments {
        let moment = before + run.random.below((after - before) as usize + 1) as u64;
        run.crash(moment);
    }
}

#[test]
fn the_power_goes_while_devices_are_rebuilt() {
    for seed in seeds(0..8) {
        explore(seed, 2);
    }
}

#[test]
#[ignore = "as long as MILLPOND_SECONDS says"]
fn many_rebuilds_lose_power() {
    let seconds = millpond_torture::random::asked("MILLPOND_SECONDS").unwrap_or(600);
    let (begun, mut seed) = (Instant::now(), millpond_torture::random::seed(1000));
    while begun.elapsed() < Duration::from_secs(seconds) {
        explore(seed, 4);
        seed += 1;
    }
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::*;

        const BYTES_PER_SECOND: u64 = 150_000_000;
        const FLUSH_NS: u64 = 8_300_000;
        const DISK_BYTES: u64 = 640 << 20;

        fn write(system: &Arc<FileSystem>, name: &str, bytes: usize, random: &mut Random) {
            let file = new_file(system, system.root(), name.as_bytes());
            file.write(0, &random.bytes(bytes), WriteOptions::default())
                .unwrap();
        }

        const FILES_A_ROUND: usize = 100;

        /// Files of all sizes, of which each round removes a third as many as it made, and others in the gaps, until
        /// about half is in use.
        fn fill_half(pool: &Arc<Pool>) {
            let system = mount(pool, POOL, false);
            let mut random = Random::new(7);
            let mut names: Vec<String> = Vec::new();
            let half = || pool.space().allocated * 2 >= pool.space().size;
            for round in 0.. {
                for number in 0..FILES_A_ROUND {
                    let name = format!("{round}.{number}");
                    let bytes = 4096 << random.below(9);
                    write(&system, &name, bytes + random.below(bytes), &mut random);
                    names.push(name);
                }
                pool.sync().unwrap();
                if half() {
                    break;
                }
                for _ in 0..FILES_A_ROUND / 3 {
                    let name = names.swap_remove(random.below(names.len()));
                    let root = Credentials::root();
                    system
                        .unlink(&root, system.root(), name.as_bytes())
                        .unwrap();
                }
                pool.sync().unwrap();
            }
            system.unmount().unwrap();
            pool.sync().unwrap();
        }

        /// How many times as long a replacement takes as to read what is in use of the disk from one that has as much,
        /// and to write it, one after the other and in sequence.
        fn ratio(children: usize, vdev: &dyn Fn(Vec<NewDevice>) -> NewVdev) -> f64 {
            // Time moves when all threads wait, those of other tests too.
            let _turn = by_default();
            pool::tunables::REBUILD_SCRUB.set(0);
            let clock = VirtualClock::of_several(DeviceModel::DISK, children + 1);
            let device = |number: usize| {
                let memory = Arc::new(MemoryDisk::new(DISK_BYTES));
                let paced = PacedDisk::new(memory, &clock, FLUSH_NS).with_reads();
                let disk: Arc<dyn BlockDevice> = Arc::new(paced.on_device(number));
                NewDevice::Open(path(number).into(), disk)
            };
            let devices: Vec<_> = (0..children).map(device).collect();
            let mut options = CreateOptions::new(POOL, vec![vdev(devices)]);
            options.root.populate = Some(populate());
            options.cache_bytes = 32 << 20;
            let test_pool = TestPool::create_as(options).unwrap();
            let pool = &test_pool.pool;
            fill_half(pool);
            let (size, allocated) = (pool.space().size, pool.space().allocated);
            let asize = pool.vdevs().tops()[0].leaves()[0].asize();
            // As much of each disk is in use as of the vdev.
            let share = (asize as u128 * allocated as u128 / size as u128) as u64;
            let (over, before_ns) = (AtomicBool::new(false), clock.now_ns());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !clock.is_running() {
                        std::thread::yield_now();
                    }
                    let old = leaf(pool, 0);
                    pool.attach_device(old, &device(children), &REPLACE)
                        .unwrap();
                    pool.wait_rebuilds().unwrap();
                    over.store(true, Ordering::SeqCst);
                });
                clock.run(|| over.load(Ordering::SeqCst));
            });
            let taken_ns = clock.now_ns() - before_ns;
            let rebuild = pool.facts().rebuilds().remove(0).rebuild;
            assert_eq!(rebuild.errors, 0);
            let at_best_ns = 2 * share * 1_000_000_000 / BYTES_PER_SECOND;
            let ratio = taken_ns as f64 / at_best_ns as f64;
            println!(
                "{children} disks, {} MiB of each in use, {} MiB written: {:.2} s, at best {:.2} s: {ratio:.2}",
                share >> 20,
                rebuild.rebuilt >> 20,
                taken_ns as f64 / 1e9,
                at_best_ns as f64 / 1e9
            );
            pool.export().unwrap();
            pool::tunables::REBUILD_SCRUB.reset();
            ratio
        }

        #[test]
        #[ignore = "sim: a minute"]
        fn a_rebuild_of_a_fragmented_pool_takes_as_long_as_reading_and_writing() {
            let mirror = ratio(2, &NewVdev::Mirror);
            assert!(mirror <= 1.1, "{mirror:.2}");
            let width = DraidWidth {
                parity: 1,
                data: 3,
                spares: 1,
            };
            let draid = ratio(5, &|devices| NewVdev::Draid(width, devices));
            assert!(draid <= 1.1, "{draid:.2}");
        }
    }
}
