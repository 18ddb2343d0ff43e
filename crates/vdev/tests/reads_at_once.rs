//! How long blocks on several disks take to read, in virtual time: all pieces of a block are under way at once.
#![cfg(debug_assertions)]

use base::clock::monotonic_ns;
use base::random::{Rng, SeededRng};
use base::{Guid, Txg, VdevId, schedule, thread};
use device::{BlockDevice, DeviceError, DeviceKind, Operation};
use layout::{Column, Content, RaidZ};
use millpond_vdev::{
    BlockRange, Condition, Interior, InteriorKind, IoClass, Leaf, LeafConfig, Node, Top, TopConfig,
    VdevAux, VdevState, Verdict, WriteGroup,
};
use sim::{DeviceModel, MemoryDisk};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use sys::{Buffer, Errno};

const ASHIFT: u32 = 12;
const WIDTH: usize = 8;
const SIZE: u64 = 1 << 30;

/// A disk of which reads take their time and then fail, if it is told so.
struct Failing {
    disk: MemoryDisk,
    fails: AtomicBool,
    reads: AtomicUsize,
    /// Who read.
    readers: Mutex<HashSet<ThreadId>>,
}

impl BlockDevice for Failing {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let reader = std::thread::current().id();
        self.readers.lock().unwrap().insert(reader);
        self.disk.read(offset, bytes)?;
        // The labels are read to find out whether the device is there, and are.
        if self.fails.load(Ordering::Relaxed) && offset > 4 << 20 && offset < SIZE - (1 << 20) {
            return Err(DeviceError::Io {
                device: "failing".into(),
                operation: Operation::Read,
                offset,
                len: bytes.len() as u64,
                error: Errno::IO,
            });
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(offset, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.disk.discard(offset, len)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Memory
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn failure(&self) -> Option<DeviceError> {
        None
    }

    fn clear_failure(&self) {}
}

/// A vdev on disks of these models.
struct Pool {
    models: Vec<DeviceModel>,
    disks: Vec<Arc<Failing>>,
    top: Arc<Top>,
    random: SeededRng,
    /// Where the next block is written.
    end: u64,
}

type Block = (BlockRange, Vec<u8>);

impl Pool {
    fn new(kind: InteriorKind, models: Vec<DeviceModel>) -> Self {
        let disk = |model: &DeviceModel| Failing {
            disk: MemoryDisk::paced(SIZE, *model),
            fails: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
            readers: Mutex::default(),
        };
        let disks: Vec<_> = models.iter().map(|model| Arc::new(disk(model))).collect();
        let leaf = |(number, disk): (usize, &Arc<Failing>)| {
            let config = LeafConfig {
                guid: Guid(number as u64 + 1),
                path: format!("/disk{number}"),
                ashift: ASHIFT,
                spare_room: None,
            };
            Node::Leaf(Leaf::new(
                config,
                Some(disk.clone() as Arc<dyn BlockDevice>),
            ))
        };
        let node = Node::Interior(Interior {
            guid: Guid(99),
            kind,
            children: disks.iter().enumerate().map(leaf).collect(),
        });
        let config = TopConfig {
            id: VdevId(0),
            guid: Guid(99),
            ashift: ASHIFT,
            asize: SIZE - (8 << 20),
            is_log: false,
        };
        Self {
            models,
            disks,
            top: Top::new(config, node),
            random: SeededRng::new(7),
            end: 0,
        }
    }

    /// A RAID-Z of disks of which each is a bit slower than the one before it.
    fn raidz(parity: u64, model: DeviceModel) -> Self {
        let slower = |percent: u64| match model {
            DeviceModel::HardDisk {
                seek_ns,
                bytes_per_second,
            } => DeviceModel::HardDisk {
                seek_ns: seek_ns + seek_ns * percent / 100,
                bytes_per_second,
            },
            DeviceModel::SolidState {
                channels,
                latency_ns,
                bytes_per_second,
            } => DeviceModel::SolidState {
                channels,
                latency_ns: latency_ns + latency_ns * percent / 100,
                bytes_per_second,
            },
        };
        let models = (0..WIDTH as u64).map(|child| slower(child * 3)).collect();
        let raidz = RaidZ::new(parity, WIDTH).unwrap();
        Self::new(InteriorKind::RaidZ(raidz), models)
    }

    /// Writes a block behind the others, not next to the last one.
    fn write(&mut self, len: usize) -> Block {
        let bytes: Vec<_> = (0..len).map(|_| self.random.next_u64() as u8).collect();
        let range = BlockRange {
            offset: self.end,
            len,
            birth: Txg(5),
        };
        let far = (1 + self.random.below(8)) << ASHIFT;
        self.end += self.top.allocated_size(len as u64, range.birth) + far;
        let group = WriteGroup::new(Txg(5));
        let data = Buffer::from_slice(&bytes);
        self.top
            .write(range.offset, data, IoClass::AsyncWrite, &group);
        group.wait().unwrap();
        (range, bytes)
    }

    fn columns(&self, range: BlockRange) -> Vec<Column> {
        let len = range.len as u64;
        let block = layout::Block {
            offset: range.offset,
            psize: len,
            birth: range.birth,
        };
        self.top.layout().columns(&block, WIDTH).collect()
    }

    /// What the slowest of the columns of data takes alone.
    fn slowest_ns(&self, range: BlockRange) -> u64 {
        let columns = self.columns(range).into_iter();
        let data = columns.filter(|column| matches!(column.content, Content::Data { .. }));
        let cost = |column: Column| self.models[column.child].cost_ns(0, 1, column.len);
        data.map(cost).max().unwrap()
    }

    /// Reads a block; answers how long that took.
    fn read_ns(&self, (range, bytes): &Block) -> u64 {
        let start_ns = monotonic_ns();
        let mut accept = |read: &[u8]| Verdict::proof(read == bytes);
        self.top
            .read(*range, IoClass::SyncRead, &mut accept)
            .unwrap();
        monotonic_ns() - start_ns
    }

    fn set(&self, child: usize, state: VdevState) {
        self.top.leaves()[child].set_condition(Condition::new(state, VdevAux::None));
    }
}

const LENS: [usize; 5] = [4096, 12_288, 131_072, 135_168, 1 << 20];

fn ratio(taken_ns: u64, slowest_ns: u64) -> f64 {
    taken_ns as f64 / slowest_ns as f64
}

/// Runs under schedules of several seeds; one of them twice, which makes no difference.
fn scheduled(body: fn()) {
    let run =
        |seed| schedule::run(seed, body).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let first: Vec<_> = (0..5).map(run).collect();
    assert_eq!(first[1], run(1));
}

#[test]
fn a_block_takes_hardly_longer_than_the_slowest_of_its_columns() {
    scheduled(|| {
        for model in [DeviceModel::DISK, DeviceModel::FLASH] {
            let mut pool = Pool::raidz(2, model);
            let blocks: Vec<_> = LENS.into_iter().map(|len| pool.write(len)).collect();
            for block in blocks {
                let ratio = ratio(pool.read_ns(&block), pool.slowest_ns(block.0));
                assert!(ratio <= 1.1, "{model:?}, {} bytes: {ratio}", block.0.len);
            }
        }
    });
}

#[test]
fn a_device_that_is_away_costs_no_further_round() {
    scheduled(|| {
        let mut pool = Pool::raidz(2, DeviceModel::DISK);
        let blocks: Vec<_> = (0..4).map(|_| pool.write(131_072)).collect();
        for (away, block) in blocks.iter().enumerate() {
            pool.set(away, VdevState::Offline);
            pool.set(away + 1, VdevState::Offline);
            // Parity may be on a slower disk than data.
            let slowest = pool.models[WIDTH - 1].cost_ns(0, 1, 24_576);
            let ratio = ratio(pool.read_ns(block), slowest);
            assert!(ratio <= 1.1, "without {away} and the next: {ratio}");
            pool.set(away, VdevState::Healthy);
            pool.set(away + 1, VdevState::Healthy);
        }
    });
}

#[test]
fn a_column_that_fails_costs_one_further_round() {
    scheduled(|| {
        let mut pool = Pool::raidz(3, DeviceModel::DISK);
        let block = pool.write(131_072);
        let columns = pool.columns(block.0);
        let data = columns
            .iter()
            .filter(|column| matches!(column.content, Content::Data { .. }));
        for column in data.take(2) {
            pool.disks[column.child]
                .fails
                .store(true, Ordering::Relaxed);
        }
        let slowest = pool.models[WIDTH - 1].cost_ns(0, 1, 28_672);
        // A device that failed is asked for a label, too.
        let ratio = ratio(pool.read_ns(&block), slowest);
        assert!(ratio <= 3.3, "{ratio}");
    });
}

#[test]
fn parity_is_read_only_when_it_is_needed() {
    scheduled(|| {
        let mut pool = Pool::raidz(2, DeviceModel::FLASH);
        let block = pool.write(131_072);
        pool.read_ns(&block);
        for column in pool.columns(block.0) {
            let reads = pool.disks[column.child].reads.load(Ordering::Relaxed);
            let expected = usize::from(matches!(column.content, Content::Data { .. }));
            assert_eq!(reads, expected, "{column:?}");
        }
    });
}

#[test]
fn a_device_that_answers_at_once_wakes_no_thread() {
    scheduled(|| {
        let memory = DeviceModel::SolidState {
            channels: 8,
            latency_ns: 2_000,
            bytes_per_second: 80_000_000_000,
        };
        for (model, is_prompt) in [(memory, true), (DeviceModel::FLASH, false)] {
            let mut pool = Pool::raidz(2, model);
            let blocks: Vec<_> = (0..3).map(|_| pool.write(131_072)).collect();
            // How long reads take is not known at first.
            pool.read_ns(&blocks[0]);
            pool.read_ns(&blocks[1]);
            let mut readers = HashSet::new();
            let clear = |disk: &Arc<Failing>| disk.readers.lock().unwrap().clear();
            pool.disks.iter().for_each(clear);
            pool.read_ns(&blocks[2]);
            for disk in &pool.disks {
                readers.extend(disk.readers.lock().unwrap().iter().copied());
            }
            assert_eq!(readers.len() == 1, is_prompt, "{model:?}: {readers:?}");
        }
    });
}

#[test]
fn a_scan_keeps_every_disk_busy() {
    scheduled(|| {
        let mut pool = Pool::raidz(2, DeviceModel::FLASH);
        let blocks: Vec<_> = (0..96).map(|_| pool.write(131_072)).collect();
        let next = AtomicUsize::new(0);
        let start_ns = monotonic_ns();
        let read = || {
            while let Some((range, bytes)) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut accept = |read: &[u8]| Verdict::proof(read == bytes);
                let outcome = pool.top.scrub(*range, true, &mut accept).unwrap();
                assert!(outcome.failures.is_empty());
            }
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                let reader = thread::named("reader", thread::Role::PART);
                reader.spawn_scoped(scope, read).unwrap();
            }
        });
        let taken_ns = monotonic_ns() - start_ns;
        for leaf in pool.top.leaves() {
            let statistics = leaf.statistics();
            let scan = &statistics.classes[IoClass::Scan as usize];
            let at_once = scan.latency_ns.mean() as f64 * scan.latency_ns.count() as f64;
            let at_once = at_once / taken_ns as f64;
            assert!(at_once >= 2.0, "{at_once} operations at once on {leaf:?}");
        }
    });
}
