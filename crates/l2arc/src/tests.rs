//! Devices as the pool uses them: offers in, copies out, before and after an import.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Guid, ObjectSetId, Txg, VdevId};
use device::BlockDevice;
use format::Dva;
use format::l2arc::HEADER_OFFSET;
use sim::{MemoryDisk, SimulatedDisk};
use sys::Buffer;

use crate::{CopyKey, Offer, SecondLevel, tunables};

const POOL: Guid = Guid(11);
const DEVICE: Guid = Guid(12);
/// Memory for which the index is not the limit.
const MEMORY: u64 = 1 << 40;

fn content(number: u64, size: usize) -> Vec<u8> {
    let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    word.repeat(size / 8)
}

fn offer(number: u64, size: usize) -> Offer {
    Offer {
        set: ObjectSetId(7),
        address: Dva {
            vdev: VdevId(1),
            offset: number << 20,
            asize: size as u64,
            gang: false,
        },
        birth: Txg(number + 1),
        logical_size: size as u64,
        compression: 2,
        is_metadata: false,
        is_encrypted: false,
        is_prefetched: false,
        stored: Buffer::from_slice(&content(number, size)),
    }
}

fn key(number: u64) -> CopyKey {
    offer(number, 512).key()
}

fn read(level: &SecondLevel, number: u64, size: usize) -> Option<Buffer> {
    let expected = content(number, size);
    level.read(&key(number), size as u64, &|found| found == expected)
}

fn in_use(disk: &Arc<MemoryDisk>) -> SecondLevel {
    let level = SecondLevel::new(MEMORY);
    let device: Arc<dyn BlockDevice> = Arc::clone(disk) as _;
    level.add(POOL, DEVICE, 12, device).unwrap();
    level
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        base::thread::sleep(Duration::from_millis(5));
    }
}

/// Has these written, some at a time: what is offered at once is bounded.
fn write(level: &SecondLevel, numbers: std::ops::Range<u64>, size: usize) {
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let room = || level.has_room(2 * size as u64 + 8192);
        until("room for offers", room);
        let before = level.statistics(DEVICE).unwrap().write_bytes;
        while room()
            && let Some(number) = numbers.next()
        {
            level.offer(offer(number, size));
        }
        let written = || level.statistics(DEVICE).unwrap().write_bytes > before;
        until("offers are written", written);
    }
}

#[test]
fn what_is_offered_is_read_until_it_is_written_over() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(64 << 20));
    let level = in_use(&disk);
    assert!(read(&level, 0, 65_536).is_none());
    // Room for some 950.
    write(&level, 0..2000, 65_536);
    until("the last one is there", || {
        read(&level, 1999, 65_536).is_some()
    });
    let there: Vec<u64> = (0..2000)
        .filter(|n| read(&level, *n, 65_536).is_some())
        .collect();
    assert!(there.len() > 800, "{} copies", there.len());
    assert!(there[0] > 1000 && there.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let found = level.statistics(DEVICE).unwrap();
    assert_eq!(found.checksum_errors, 0);
    assert_eq!(found.in_use_bytes, there.len() as u64 * 65_536);
    assert!(found.in_use_bytes <= found.room_bytes);
    assert!(level.remove(DEVICE).is_some() && level.remove(DEVICE).is_none());
    assert!(read(&level, 1999, 65_536).is_none() && !level.is_used());
}

#[test]
fn what_is_wrong_is_forgotten_and_too_much_of_it_ends_the_use() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(64 << 20));
    let level = in_use(&disk);
    write(&level, 0..40, 8192);
    until("the last one is there", || read(&level, 39, 8192).is_some());
    let noise = vec![7; 20 * 8192];
    disk.write(HEADER_OFFSET + 4096, &noise).unwrap();
    let lost = (0..9).filter(|n| read(&level, *n, 8192).is_none());
    assert_eq!(lost.count(), 9);
    // Each is counted once, for it is no more.
    assert!(read(&level, 3, 8192).is_none());
    assert_eq!(level.statistics(DEVICE).unwrap().checksum_errors, 9);
    assert!(read(&level, 39, 8192).is_some());
    assert!(read(&level, 10, 8192).is_none());
    assert!(read(&level, 39, 8192).is_none(), "faulted");
    level.clear(DEVICE);
    assert!(read(&level, 39, 8192).is_some());
}

/// Enough for logs; each log block lists so many copies.
const LOGGED: u64 = (1 << 30) + (64 << 20);
const LISTED: u64 = 67;

#[test]
fn an_import_finds_what_log_blocks_list() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(LOGGED));
    let level = in_use(&disk);
    write(&level, 0..1000, 16_384);
    until("the last one is there", || {
        read(&level, 999, 16_384).is_some()
    });
    level.close();
    let level = in_use(&disk);
    let listed = 1000 / LISTED * LISTED;
    until("the first one is there", || {
        read(&level, 0, 16_384).is_some()
    });
    for number in 0..listed {
        assert!(read(&level, number, 16_384).is_some(), "{number}");
    }
    assert!(read(&level, listed, 16_384).is_none());
    write(&level, 2000..2100, 16_384);
    until("the new one is there", || {
        read(&level, 2099, 16_384).is_some()
    });
    assert_eq!(level.statistics(DEVICE).unwrap().checksum_errors, 0);
    level.close();
    // Nobody else's.
    let other = SecondLevel::new(MEMORY);
    other
        .add(Guid(99), DEVICE, 12, Arc::clone(&disk) as _)
        .unwrap();
    write(&other, 5000..5001, 16_384);
    assert!(read(&other, 0, 16_384).is_none());
}

#[test]
fn an_import_finds_nothing_that_was_written_over() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(LOGGED));
    let size = 1 << 20;
    let level = in_use(&disk);
    // Once round and a part of it again.
    write(&level, 0..1500, size);
    until("the last one is there", || {
        read(&level, 1499, size).is_some()
    });
    level.close();
    let level = in_use(&disk);
    let newest = 1500 - LISTED;
    until("one of the last is there", || {
        (newest..1500).any(|n| read(&level, n, size).is_some())
    });
    let count = || {
        (0..1500)
            .filter(|n| read(&level, *n, size).is_some())
            .count()
    };
    until("the oldest that are left are there", || count() > 700);
    let found = level.statistics(DEVICE).unwrap();
    assert_eq!(found.checksum_errors, 0, "{found:?}");
}

#[test]
fn noise_is_no_cache() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(LOGGED));
    let level = in_use(&disk);
    write(&level, 0..400, 16_384);
    until("the last one is there", || {
        read(&level, 399, 16_384).is_some()
    });
    level.close();
    for seed in 0..200_u64 {
        // A byte of the header, or of what lies behind it.
        let offset = HEADER_OFFSET + (seed * 7919) % if seed < 100 { 4096 } else { 8 << 20 };
        let mut byte = [0];
        disk.read(offset, &mut byte).unwrap();
        disk.write(offset, &[!byte[0]]).unwrap();
        let level = in_use(&disk);
        for number in (0..400).step_by(37) {
            let _right_or_nothing = read(&level, number, 16_384);
        }
        level.close();
        disk.write(offset, &byte).unwrap();
    }
}

#[test]
fn an_index_has_a_limit() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(MemoryDisk::new(64 << 20));
    // For 409 copies.
    let level = SecondLevel::new(512 << 10);
    level.add(POOL, DEVICE, 12, Arc::clone(&disk) as _).unwrap();
    write(&level, 0..1000, 4096);
    until("the last one is there", || {
        read(&level, 999, 4096).is_some()
    });
    let there = (0..1000).filter(|n| read(&level, *n, 4096).is_some());
    assert_eq!(there.count(), 409);
}

#[test]
fn a_device_that_fails_is_left_alone() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(SimulatedDisk::new(64 << 20, 5));
    let level = SecondLevel::new(MEMORY);
    level.add(POOL, DEVICE, 12, Arc::clone(&disk) as _).unwrap();
    write(&level, 0..10, 4096);
    until("the last one is there", || read(&level, 9, 4096).is_some());
    disk.set_writable(false);
    for number in 10..100 {
        level.offer(offer(number, 4096));
        base::thread::sleep(Duration::from_millis(3));
    }
    until("the device is faulted", || read(&level, 9, 4096).is_none());
    assert!(level.statistics(DEVICE).unwrap().write_errors >= 10);
}

/// A device that takes writes and never says so.
struct Silent(MemoryDisk, std::sync::Mutex<()>);

impl BlockDevice for Silent {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), device::DeviceError> {
        self.0.read(offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), device::DeviceError> {
        drop(self.1.lock());
        self.0.write(offset, bytes)
    }
    fn flush(&self) -> Result<(), device::DeviceError> {
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), device::DeviceError> {
        self.0.discard(offset, len)
    }
    fn is_writable(&self) -> bool {
        true
    }
    fn sector_size(&self) -> u32 {
        self.0.sector_size()
    }
    fn kind(&self) -> device::DeviceKind {
        self.0.kind()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn failure(&self) -> Option<device::DeviceError> {
        None
    }
    fn clear_failure(&self) {}
}

#[test]
fn a_device_that_does_not_answer_is_removed_and_closed_all_the_same() {
    tunables::FEED_MS.set(1);
    let disk = Arc::new(Silent(MemoryDisk::new(64 << 20), std::sync::Mutex::new(())));
    let level = SecondLevel::new(MEMORY);
    level.add(POOL, DEVICE, 12, Arc::clone(&disk) as _).unwrap();
    write(&level, 0..10, 4096);
    until("the last one is there", || read(&level, 9, 4096).is_some());
    let held = disk.1.lock().unwrap();
    level.offer(offer(20, 4096));
    base::thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    assert!(level.remove(DEVICE).is_some());
    assert!(read(&level, 9, 4096).is_none());
    level.close();
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(held);
}
