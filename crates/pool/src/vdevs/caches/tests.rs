use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CacheStatus;
use crate::pool::Pool;
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Rewind, Selection};
use base::Bookmark;
use dmu::{AllocateObject, Reservation, Tx};
use format::ObjectType;
use pipeline::ReadRequest;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

fn file(folder: &Path, name: &str, size: u64) -> NewDevice {
    let path = folder.join(name);
    device::FileDevice::create(&path, size).unwrap();
    NewDevice::Path(path)
}

fn create(folder: &Path) -> Arc<Pool> {
    let vdev = NewVdev::Single(file(folder, "data.img", 96 << 20));
    let mut options = CreateOptions::new("tank", vec![vdev]);
    options.caches = vec![file(folder, "cache.img", 96 << 20)];
    Pool::create(options).unwrap()
}

fn import(folder: &Path, change: impl FnOnce(&mut ImportOptions)) -> Arc<Pool> {
    let selection = Selection::Name("tank".to_owned());
    let mut options = ImportOptions::new(vec![folder.to_owned()], selection);
    change(&mut options);
    Pool::import(&options).unwrap()
}

/// Bytes that do not become fewer when they are compressed.
fn content(block: u64) -> Vec<u8> {
    let mut word = block + 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    };
    (0..BLOCK / 8).flat_map(|_| next()).collect()
}

/// An object with some blocks in the pool's own object set.
fn write(pool: &Pool) -> base::ObjectId {
    let engine = pool.engine().unwrap();
    let tx = Tx::assign(engine, &Reservation::default()).unwrap();
    let kind = AllocateObject {
        object_type: ObjectType::PACKED_NVLIST,
        block_size: u32::try_from(BLOCK).unwrap(),
        bonus_type: ObjectType::PACKED_NVLIST_SIZE,
        bonus_len: 8,
        ..AllocateObject::default()
    };
    let object = pool.services.mos.allocate(&tx, &kind).unwrap();
    for block in 0..BLOCKS {
        object
            .write(&tx, block * BLOCK as u64, &content(block))
            .unwrap();
    }
    drop(tx);
    pool.sync().unwrap();
    object.id()
}

/// Reads it as blocks that are nowhere in memory.
fn read(pool: &Pool, id: base::ObjectId) {
    pool.pipeline.cache().clear();
    let object = pool.services.mos.object(id).unwrap();
    for block in 0..BLOCKS {
        let pointer = object.block_pointer(block).unwrap();
        let request = ReadRequest::new(Bookmark::default());
        let bytes = pool.pipeline.read(&pointer, &request).unwrap();
        assert!(*bytes == content(block), "block {block}");
    }
}

fn only(pool: &Pool) -> CacheStatus {
    let mut caches = pool.caches();
    assert_eq!(caches.len(), 1);
    caches.remove(0)
}

fn read_bytes(pool: &Pool) -> u64 {
    only(pool).statistics.map_or(0, |found| found.read_bytes)
}

/// Reads until there are copies of all of it, and some are read.
fn warm(pool: &Pool, id: base::ObjectId) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let in_use = || only(pool).statistics.map_or(0, |found| found.in_use_bytes);
    while read_bytes(pool) == 0 || in_use() < BLOCKS * BLOCK as u64 {
        assert!(Instant::now() < deadline, "{:?}", only(pool));
        read(pool, id);
        base::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn blocks_are_read_from_a_cache_device_while_it_says_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(folder.path());
    assert!(only(&pool).is_there && only(&pool).statistics.is_some());
    let id = write(&pool);
    warm(&pool, id);
    // A device that lies all over costs reads of the pool, and then its own use.
    let path = folder.path().join("cache.img");
    let noise = vec![0x5a; 8 << 20];
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::File::options().write(true).open(&path).unwrap(),
        &noise,
        (4 << 20) + 512,
    )
    .unwrap();
    read(&pool, id);
    assert!(only(&pool).is_faulted());
    read(&pool, id);
    assert_eq!(pool.clear_caches(&|_| true), 1);
    assert!(!only(&pool).is_faulted());
    let guid = only(&pool).guid;
    pool.remove_cache(guid).unwrap();
    assert_eq!(pool.caches(), []);
    read(&pool, id);
    pool.export().unwrap();
    drop(pool);
    let pool = import(folder.path(), |_| ());
    assert_eq!(pool.caches(), []);
    pool.export().unwrap();
}

#[test]
fn a_cache_device_that_moved_is_found_and_one_that_is_gone_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(folder.path());
    let id = write(&pool);
    let guid = only(&pool).guid;
    pool.export().unwrap();
    drop(pool);
    let (from, to): (PathBuf, PathBuf) = (
        folder.path().join("cache.img"),
        folder.path().join("moved.img"),
    );
    std::fs::rename(&from, &to).unwrap();
    let pool = import(folder.path(), |_| ());
    assert_eq!(only(&pool).path, to.display().to_string());
    assert!(only(&pool).statistics.is_some());
    pool.export().unwrap();
    drop(pool);
    std::fs::remove_file(&to).unwrap();
    let pool = import(folder.path(), |_| ());
    assert!(!only(&pool).is_there);
    read(&pool, id);
    pool.remove_cache(guid).unwrap();
    pool.export().unwrap();
}

#[test]
fn nothing_of_a_txg_that_is_no_more_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(folder.path());
    let id = write(&pool);
    warm(&pool, id);
    pool.export().unwrap();
    drop(pool);
    let pool = import(folder.path(), |options| options.rewind = Rewind::Safe);
    assert_eq!(only(&pool).statistics.unwrap().in_use_bytes, 0);
    pool.export().unwrap();
    drop(pool);
    let pool = import(folder.path(), |options| options.read_only = true);
    let found = only(&pool);
    assert!(found.is_there && found.statistics.is_none());
}

#[test]
fn a_destroyed_pool_gives_its_cache_device_back() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(folder.path());
    pool.destroy().unwrap();
    drop(pool);
    let path = folder.path().join("cache.img");
    let vdev = NewVdev::Single(NewDevice::Path(path));
    let pool = Pool::create(CreateOptions::new("other", vec![vdev])).unwrap();
    pool.export().unwrap();
}
