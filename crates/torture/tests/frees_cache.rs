//! Removing a long file that a snapshot has as well takes no room in the cache, however long it is: of what is read and
//! written for that, nothing stays. In a process of its own, whose one cache is looked at.

use base::metrics::{Value, registry};
use dsl::tasks::Snapshot;
use dsl::{PropertyChange, PropertyValue, SetProperties};
use millpond_torture::operation::{Operation, Place};
use millpond_torture::random::Random;
use millpond_torture::real;
use millpond_torture::test_pool::{POOL, TestPool, image, mount};
use pool::NewDevice;
use posix::{Credentials, FileSystem};
use sim::SimulatedDisk;
use std::sync::Arc;

const RECORD: usize = 512;
/// Records below one indirect block of 128 KiB, and in one block of a deadlist.
const POINTERS: usize = 1024;

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// A file of records that do not compress, below so many indirect blocks.
fn write_file(system: &FileSystem, name: &str, indirect_blocks: usize) {
    real::apply(system, &Operation::Create(place(name), 0o644)).unwrap();
    let mut random = Random::new(indirect_blocks as u64);
    for index in 0..indirect_blocks {
        let words = (0..POINTERS * RECORD / 8).flat_map(|_| random.draw().to_ne_bytes());
        let bytes: Vec<u8> = words.collect();
        let write = Operation::Write(place(name), index * bytes.len(), bytes, false);
        real::apply(system, &write).unwrap();
    }
}

/// A pool with two files, one short and one long, that a snapshot has as well; imported, with nothing in memory.
fn test_pool(folder: &std::path::Path, long: usize) -> TestPool {
    let disk = Arc::new(SimulatedDisk::new(160 << 20, 1));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let record_size = PropertyChange::Set(PropertyValue::Number(RECORD as u64));
    let set = SetProperties {
        name: POOL.to_owned(),
        changes: vec![("recordsize".to_owned(), record_size)],
    };
    test_pool.pool.dsl().run(set).unwrap();
    test_pool.renew_properties().unwrap();
    write_file(&test_pool.root(), "short", 2);
    write_file(&test_pool.root(), "long", long);
    let snapshot = Snapshot {
        names: vec![format!("{POOL}@kept")],
        properties: Vec::new(),
    };
    test_pool.pool.dsl().run(snapshot).unwrap();
    test_pool.export().unwrap();
    disk.write_to_file(&image(folder, "0")).unwrap();
    TestPool::import(folder, false).unwrap()
}

/// Bytes that the cache of blocks has.
fn cached() -> u64 {
    let samples = registry().snapshot();
    let found = samples.iter().find(|sample| sample.name == "cache.bytes");
    match found.map(|sample| &sample.value) {
        Some(Value::Gauge { level, .. }) => level.cast_unsigned(),
        other => panic!("no cache: {other:?}"),
    }
}

#[test]
fn removing_a_long_file_that_a_snapshot_has_takes_no_room_in_the_cache() {
    const LONG: usize = 16;
    dmu::tunables::FREE_BLOCKS_PIECE.set(2 * POINTERS as u64);
    dmu::tunables::FREE_BLOCKS_TXG.set(4 * POINTERS as u64);
    let folder = tempfile::tempdir().unwrap();
    let test_pool = test_pool(folder.path(), LONG);
    let system = test_pool.root();
    let remove = |name| {
        let before = cached();
        real::apply(&system, &Operation::Unlink(place(name))).unwrap();
        test_pool.pool.sync().unwrap();
        assert_eq!(system.unlinked().unwrap(), 0);
        cached().saturating_sub(before)
    };
    // What each removal needs: the directory, space maps, the dataset's records.
    let short = remove("short");
    let long = remove("long");
    // Of the indirect blocks, which were read, and of as many blocks of the deadlist, which were written, two or three
    // may be there: the last of the list, and the root of the file's tree.
    let max = (LONG / 4 * 128) << 10;
    assert!(
        long <= max as u64,
        "{long} bytes more in the cache; the short file: {short}"
    );

    let kept = mount(&test_pool.pool, &format!("{POOL}@kept"), true);
    let root = Credentials::root();
    let found = kept.lookup(&root, kept.root(), b"long").unwrap();
    assert_eq!(found.size as usize, LONG * POINTERS * RECORD);
    drop((kept, system));
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}
