//! What a copy of stored blocks costs, and what becomes of it when its blocks are damaged or it has to be made durable
//! before its txg.

use device::BlockDevice;
use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::counters::counter;
use millpond_torture::pool_model::real::populate;
use millpond_torture::real::new_file;
use millpond_torture::test_pool::{POOL, TestPool, image, mount};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::WriteOptions;
use posix::{Credentials, Errno, FileSystem, OpenFile, OpenOptions};
use sim::{MemoryDisk, SimulatedDisk};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BLOCK: usize = 128 << 10;

/// The counters are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pond(device: Arc<dyn BlockDevice>) -> TestPool {
    let device = NewDevice::Open("/simulated/disk".into(), device);
    pond_on(NewVdev::Single(device))
}

fn pond_on(vdev: NewVdev) -> TestPool {
    let mut options = CreateOptions::new(POOL, vec![vdev]);
    options.root.populate = Some(populate());
    options.cache_bytes = 16 << 20;
    TestPool::open(Pool::create(options).unwrap(), false)
}

fn file(system: &FileSystem, name: &str) -> OpenFile {
    new_file(system, system.root(), name.as_bytes())
}

/// The bytes of one block of a file: no two blocks are the same.
fn block(number: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8 | 1; BLOCK];
    bytes[..8].copy_from_slice(&(number as u64 + 1).to_ne_bytes());
    bytes
}

fn filled(system: &Arc<FileSystem>, name: &str, blocks: usize) -> OpenFile {
    let file = file(system, name);
    for number in 0..blocks {
        let at = (number * BLOCK) as u64;
        file.write(at, &block(number), WriteOptions::default())
            .unwrap();
    }
    file
}

fn copy(from: &OpenFile, to: &OpenFile) {
    let size = from.attributes().unwrap().size;
    let copied = to.copy_from(from, 0..size, 0, WriteOptions::default());
    assert_eq!(copied.unwrap(), size);
}

#[test]
fn a_copy_of_a_large_file_reads_nothing_and_dirties_only_pointers() {
    const BLOCKS: usize = 2048;
    let _alone = alone();
    let test_pool = pond(Arc::new(MemoryDisk::new(512 << 20)));
    let system = mount(&test_pool.pool, POOL, false);
    let source = filled(&system, "source", BLOCKS);
    let target = file(&system, "target");
    test_pool.pool.sync().unwrap();
    let counts = || {
        [
            "pipeline.blocks_read",
            "pipeline.blocks_written",
            "dirty.dirtied_bytes",
        ]
        .map(counter)
    };
    let before = counts();
    copy(&source, &target);
    let after = counts();
    let [read, _, dirtied] = [0, 1, 2].map(|index| after[index] - before[index]);
    println!("256 MiB: {read} blocks read, {dirtied} bytes dirtied");
    assert!(after[2] > 0, "a counter that counts");
    // Of the tree above the data there are three blocks.
    assert!(read < 10, "{read} blocks were read");
    assert!(dirtied < 4 << 20, "{dirtied} bytes were dirtied");
    // Readers see it before the sync.
    let mut found = vec![0; BLOCK];
    for number in [0, 1000, BLOCKS - 1] {
        target.read((number * BLOCK) as u64, &mut found).unwrap();
        assert!(found == block(number));
    }
    test_pool.pool.sync().unwrap();
    let synced = counts();
    let [read, written, _] = [0, 1, 2].map(|index| synced[index] - after[index]);
    println!("its sync: {read} blocks read, {written} written");
    assert!(read < 50 && written < 500, "{read} read, {written} written");
    for number in (0..BLOCKS).step_by(100) {
        target.read((number * BLOCK) as u64, &mut found).unwrap();
        assert!(found == block(number));
    }
}

fn judge(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

/// Damages the block of a file that the pool has stored.
fn damage(disk: &SimulatedDisk, test_pool: &TestPool, file: &OpenFile, number: u64) {
    let head = test_pool.pool.dsl().head(POOL).unwrap();
    let object = head.object_set().unwrap().object(file.object()).unwrap();
    let pointer = object.block_pointer(number).unwrap();
    let start = pointer.dva(0).unwrap().offset + format::label::DATA_START;
    disk.rot(start..start + 64, 9, number);
}

/// A pool on a disk in memory, with a file of some blocks that are stored and are in no cache any more.
fn on_a_disk(blocks: usize) -> (Arc<SimulatedDisk>, TestPool, Arc<FileSystem>, OpenFile) {
    let disk = Arc::new(SimulatedDisk::new(160 << 20, 7));
    let test_pool = pond(Arc::clone(&disk) as _);
    let system = mount(&test_pool.pool, POOL, false);
    let source = filled(&system, "source", blocks);
    test_pool.pool.sync().unwrap();
    filled(&system, "filler", 24 << 20 >> 17);
    test_pool.pool.sync().unwrap();
    (disk, test_pool, system, source)
}

#[test]
fn a_damaged_block_is_copied_as_it_is_and_costs_no_more() {
    let _alone = alone();
    let (disk, test_pool, system, source) = on_a_disk(16);
    damage(&disk, &test_pool, &source, 3);
    let target = file(&system, "target");
    copy(&source, &target);
    let check = |file: &OpenFile, when: &str| {
        let mut found = vec![0; BLOCK];
        for number in 0..16 {
            let read = file.read((number * BLOCK) as u64, &mut found);
            if number == 3 {
                assert_eq!(read.unwrap_err().errno(), Errno::EIO, "{when}");
            } else {
                assert!(read.unwrap() == BLOCK && found == block(number), "{when}");
            }
        }
    };
    check(&target, "unsynced");
    // The log would have to write what nobody can read: it waits for the txg.
    target.fsync().unwrap();
    check(&target, "synced");
    // A part of the block is not to be had.
    let change = target.write((3 * BLOCK + 5) as u64, &[1; 10], WriteOptions::default());
    assert_eq!(change.unwrap_err().errno(), Errno::EIO);
    target
        .write((3 * BLOCK) as u64, &block(3), WriteOptions::default())
        .unwrap();
    test_pool.pool.sync().unwrap();
    assert!(test_pool.pool.suspended().is_none());
    let mut found = vec![0; BLOCK];
    target.read((3 * BLOCK) as u64, &mut found).unwrap();
    assert!(found == block(3));
    check(&source, "the source");
}

#[test]
fn a_copy_that_was_made_durable_is_there_after_a_crash() {
    let _alone = alone();
    let (disk, test_pool, system, source) = on_a_disk(24);
    // The first commit begins the chain.
    source.fsync().unwrap();
    let target = file(&system, "target");
    target.fsync().unwrap();
    test_pool.pool.sync().unwrap();
    let synced = test_pool.pool.engine().unwrap().synced_txg();
    copy(&source, &target);
    // One block of the source is another now, and one of the copy.
    source
        .write(0, &block(100), WriteOptions::default())
        .unwrap();
    target
        .write(
            (2 * BLOCK + 100) as u64,
            &[7; 1000],
            WriteOptions::default(),
        )
        .unwrap();
    target.fsync().unwrap();
    assert_eq!(test_pool.pool.engine().unwrap().synced_txg(), synced);
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "left");
    disk.crash_at(disk.log_len(), 3)
        .write_to_file(&path)
        .unwrap();
    drop((source, target, system));
    test_pool.export().unwrap();
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let system = test_pool.root();
    let who = Credentials::root();
    let found = system.lookup(&who, system.root(), b"target").unwrap();
    let id = found.object;
    let reading = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let target = system.open(&who, id, reading).unwrap();
    let mut found = vec![0; BLOCK];
    for number in 0..24 {
        target.read((number * BLOCK) as u64, &mut found).unwrap();
        let mut wanted = block(number);
        if number == 2 {
            wanted[100..1100].fill(7);
        }
        assert!(found == wanted, "block {number}");
    }
    drop((target, system));
    test_pool.export().unwrap();
    judge(folder.path());
}

/// Who sets `copies` or `checksum` and copies files has them written so.
#[test]
fn blocks_that_would_be_written_otherwise_now_are_not_shared() {
    let _alone = alone();
    let (_disk, test_pool, system, source) = on_a_disk(16);
    let head = test_pool.pool.dsl().head(POOL).unwrap();
    let written = counter("dmu.references_written");
    for (name, property, value) in [("two", "copies", 2), ("sha256", "checksum", 8)] {
        let value = PropertyChange::Set(PropertyValue::Number(value));
        let change = SetProperties {
            name: POOL.to_owned(),
            changes: vec![(property.to_owned(), value)],
        };
        test_pool.pool.dsl().run(change).unwrap();
        let target = file(&system, name);
        let referenced = counter("dmu.blocks_referenced");
        copy(&source, &target);
        assert_eq!(counter("dmu.blocks_referenced"), referenced);
        test_pool.pool.sync().unwrap();
        let objects = head.object_set().unwrap();
        let pointers = [&source, &target].map(|file| {
            let object = objects.object(file.object()).unwrap();
            object.block_pointer(5).unwrap()
        });
        assert!(pointers[0].dva(0) != pointers[1].dva(0));
        assert_eq!(pointers[1].copies(), 2);
    }
    assert_eq!(counter("dmu.references_written"), written);
}

/// A device goes missing while a copy waits for its sync: a resilver that follows must find each block where it was.
#[test]
fn a_sync_that_may_not_share_writes_the_blocks_of_a_copy() {
    const BLOCKS: u64 = 8;
    let _alone = alone();
    let disks = [1, 2].map(|seed| Arc::new(SimulatedDisk::new(160 << 20, seed)));
    let device = |disk: &Arc<SimulatedDisk>| {
        NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _)
    };
    let test_pool = pond_on(NewVdev::Mirror(disks.iter().map(device).collect()));
    let system = mount(&test_pool.pool, POOL, false);
    let source = filled(&system, "source", BLOCKS as usize);
    let (target, other) = (file(&system, "target"), file(&system, "other"));
    test_pool.pool.sync().unwrap();
    let engine = test_pool.pool.engine().unwrap();
    // A txg that syncs is held up, and one waits behind it.
    disks[0].hold_flushes(true);
    for number in 0..2 {
        other
            .write(0, &block(number), WriteOptions::default())
            .unwrap();
        engine.wait_open(None).unwrap();
    }
    let counts = || ["dmu.blocks_referenced", "dmu.references_written"].map(counter);
    let before = counts();
    copy(&source, &target);
    assert_eq!(counts(), [before[0] + BLOCKS, before[1]]);
    disks[1].set_writable(false);
    disks[0].hold_flushes(false);
    test_pool.pool.sync().unwrap();
    assert_eq!(counts(), [before[0] + BLOCKS, before[1] + BLOCKS]);
    let mut found = vec![0; BLOCK];
    for number in 0..BLOCKS as usize {
        target.read((number * BLOCK) as u64, &mut found).unwrap();
        assert!(found == block(number));
    }
    // From now on it is known beforehand.
    let another = file(&system, "another");
    copy(&source, &another);
    assert_eq!(counts(), [before[0] + BLOCKS, before[1] + BLOCKS]);
}
