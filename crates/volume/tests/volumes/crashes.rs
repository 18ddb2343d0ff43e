//! Power loss at any moment: what was flushed is there, and each byte is as it was after some operation since.

use super::{contents, create, open, set_policy};
use format::intent_log::kind;
use intent::{LogBias, SyncPolicy};
use millpond_volume::{Durability, Volume};
use pool::NewDevice;
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;
use sys::Buffer;
use torture::hesitant;
use torture::random::{Random, seed, seeds};
use torture::test_pool::{POOL, TestPool, image};
use torture::tunables;

const DISK: u64 = 96 << 20;
const SIZE: usize = 768 << 10;

/// A history, and what it promised.
struct History {
    disk: Arc<SimulatedDisk>,
    name: String,
    /// The contents after each operation, and how long the disk's log was before it began.
    states: Vec<(usize, Vec<u8>)>,
    /// From an event on, the state of that number is durable.
    promises: Vec<(usize, usize)>,
    /// When the volume was there.
    first: usize,
}

struct Player<'a> {
    test_pool: &'a TestPool,
    disk: &'a SimulatedDisk,
    volume: &'a Volume,
    random: Random,
    now: Vec<u8>,
}

impl Player<'_> {
    fn range(&mut self) -> (usize, usize) {
        // Blocks, sectors, bytes.
        let unit = *self.random.pick(&[1, 512, 4096, 65_536]);
        let longest = *self.random.pick(&[1, 8, 200_000 / unit + 1]);
        let offset = self.random.below(SIZE / unit) * unit;
        let length = (self.random.below(longest) + 1) * unit;
        (offset, length.min(SIZE - offset))
    }

    /// Bytes in buffers that end where blocks do, and now and then before.
    fn cut(&mut self, offset: usize, bytes: &[u8]) -> Vec<Buffer> {
        let block = self.volume.block_size() as usize;
        let mut at = offset;
        let mut left = bytes;
        let mut buffers = Vec::new();
        while !left.is_empty() {
            let longest = left.len().min(block - at % block);
            let length = match self.random.one_in(8) {
                true => 1 + self.random.below(longest),
                false => longest,
            };
            let (piece, rest) = left.split_at(length);
            buffers.push(Buffer::from_slice(piece));
            at += length;
            left = rest;
        }
        buffers
    }

    /// One operation; whether all is durable then.
    fn step(&mut self) -> bool {
        let (offset, length) = self.range();
        let durability = match self.random.one_in(4) {
            true => Durability::AtOnce,
            false => Durability::Later,
        };
        let at = offset as u64;
        match self.random.below(10) {
            0..=4 => {
                let bytes = self.random.bytes(length);
                if self.random.one_in(2) {
                    self.volume.write_at(at, &bytes, durability).unwrap();
                } else {
                    let buffers = self.cut(offset, &bytes);
                    self.volume.write_buffers(at, buffers, durability).unwrap();
                }
                self.now[offset..offset + length].copy_from_slice(&bytes);
                durability == Durability::AtOnce
            }
            5 => {
                self.volume
                    .write_zeroes(at, length as u64, durability)
                    .unwrap();
                self.now[offset..offset + length].fill(0);
                durability == Durability::AtOnce
            }
            6 => {
                self.volume.discard(at, length as u64, durability).unwrap();
                let block = self.volume.block_size() as usize;
                let (first, end) = (
                    offset.div_ceil(block) * block,
                    (offset + length) / block * block,
                );
                if first < end {
                    self.now[first..end].fill(0);
                }
                durability == Durability::AtOnce
            }
            7 | 8 => {
                self.volume.flush().unwrap();
                true
            }
            _ => {
                self.test_pool.pool.sync().unwrap();
                true
            }
        }
    }
}

fn record(seed: u64, steps: usize) -> History {
    let disk = Arc::new(SimulatedDisk::new(DISK, seed));
    let device = NewDevice::Open(
        "/simulated/disk".into(),
        hesitant::device(Arc::clone(&disk) as _, seed),
    );
    let mut random = Random::new(seed);
    let block_size = 512 << random.below(9);
    let test_pool = TestPool::create_drawn(vec![device], seed).unwrap();
    let name = create(&test_pool.pool, "v", SIZE as u64, block_size);
    let bias = *random.pick(&[LogBias::Latency, LogBias::Throughput]);
    set_policy(&test_pool.pool, &name, SyncPolicy::Standard, bias);
    println!("blocks of {block_size} bytes, {bias:?}");
    let (volume, _) = open(&test_pool.pool, &name);
    test_pool.pool.sync().unwrap();
    let first = disk.log_len();
    let mut player = Player {
        test_pool: &test_pool,
        disk: &disk,
        volume: &volume,
        random,
        now: vec![0; SIZE],
    };
    let mut history = History {
        disk: Arc::clone(&disk),
        name,
        states: vec![(0, player.now.clone())],
        promises: vec![(first, 0)],
        first,
    };
    for step in 1..=steps {
        let began = player.disk.log_len();
        let durable = player.step();
        history.states.push((began, player.now.clone()));
        if durable {
            history.promises.push((player.disk.log_len(), step));
        }
        assert!(contents(&volume) == player.now, "step {step}");
    }
    // Left as at a crash: not exported.
    drop(volume);
    drop(test_pool);
    history
}

impl History {
    /// Leaves the disk after `event` events and looks at what a replay makes of it.
    fn check(&self, event: usize, survivors: u64, folder: &Path) -> u64 {
        let path = image(folder, "crashed");
        let _ = std::fs::remove_file(&path);
        let crashed = self.disk.crash_at(event, survivors);
        crashed.write_to_file(&path).unwrap();
        let test_pool = TestPool::import(folder, false).unwrap();
        let (volume, records) = open(&test_pool.pool, &self.name);
        let found = contents(&volume);
        let promised = self.promises.iter().rfind(|(at, _)| *at <= event);
        let from = promised.expect("the volume was there").1;
        let to = self.states.iter().rposition(|(began, _)| *began <= event);
        let allowed = &self.states[from..=to.unwrap_or(from).max(from)];
        for (at, byte) in found.iter().enumerate() {
            assert!(
                allowed.iter().any(|(_, state)| state[at] == *byte),
                "byte {at} is {byte}, which it never was after operation {from}"
            );
        }
        // It goes on from there.
        volume
            .write_at(4096, &[9; 10_000], Durability::AtOnce)
            .unwrap();
        volume.close().unwrap();
        drop(volume);
        torture::aftermath::export(test_pool, folder);
        if survivors.is_multiple_of(8)
            && let Some(zdb) = golden::Zdb::from_environment()
        {
            zdb.assert_clean(folder, POOL);
        }
        records
    }
}

fn explore(seed: u64, steps: usize, points: usize) -> u64 {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-volume --test volumes");
    let _limits = tunables::drawn(seed);
    let history = record(seed, steps);
    let folder = tempfile::tempdir().unwrap();
    let last = history.disk.log_len();
    let mut random = Random::new(seed ^ 0xC4A5);
    let mut records = 0;
    for point in 0..points {
        let event = history.first + random.below(last - history.first + 1);
        let survivors = random.draw();
        let survivors = match point % 8 {
            0 => survivors & !7,
            _ => survivors | 1,
        };
        println!("crash point {point}: event {event} of {last}, survivors {survivors}");
        records += history.check(event, survivors, folder.path());
    }
    records
}

#[test]
fn what_was_flushed_is_there_after_a_crash() {
    let mut records = 0;
    for seed in seeds(1..7) {
        records += explore(seed, 60, 8);
    }
    assert!(records > 0, "no log was replayed");
}

/// OpenZFS replays writes and truncations of a volume, and stops at any other record.
#[test]
fn no_record_only_tells_a_size() {
    let disk = Arc::new(SimulatedDisk::new(DISK, 3));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let name = create(&test_pool.pool, "v", 1 << 20, 65_536);
    let (volume, _) = open(&test_pool.pool, &name);
    volume.flush().unwrap();
    volume.write_at(0, &[1; 100], Durability::AtOnce).unwrap();
    test_pool.pool.sync().unwrap();
    let mut random = Random::new(seed(3));
    // The same blocks again and again before each commit: all are written once.
    for _ in 0..6 {
        let bytes = random.bytes(200_000);
        volume.write_at(1000, &bytes, Durability::Later).unwrap();
        volume.write_at(0, &bytes, Durability::Later).unwrap();
        volume.write_at(65_536, &bytes, Durability::Later).unwrap();
        volume.flush().unwrap();
    }
    let wanted = contents(&volume);
    let folder = tempfile::tempdir().unwrap();
    let crashed = disk.crash_at(disk.log_len(), 1);
    crashed
        .write_to_file(&image(folder.path(), "crashed"))
        .unwrap();
    drop(volume);
    drop(test_pool);
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let dataset = test_pool.pool.dsl().dataset(&name).unwrap();
    let log = test_pool.pool.intent_log(&dataset).unwrap().unwrap();
    assert!(log.is_owed());
    let header = log.objects().intent_log_header();
    let mut pointed = 0;
    let set = log.objects().id();
    intent::walk(test_pool.pool.pipeline(), set, &header, &mut |record| {
        assert!(
            [kind::WRITE, kind::TRUNCATE].contains(&record.header.kind),
            "a record of kind {}",
            record.header.kind
        );
        pointed += 1;
        true
    });
    assert!(pointed > 0);
    drop((log, dataset));
    let (volume, _) = open(&test_pool.pool, &name);
    assert!(contents(&volume) == wanted);
    drop(volume);
    test_pool.export().unwrap();
}
