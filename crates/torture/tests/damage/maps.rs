//! Space maps that cannot be read: what is free there is out of use or written anew, and the pool goes on.

use crate::between::{DISK_BYTES, leaked_bytes, on_disk, rig, spoil, work_on};
use crate::stage::path;
use crate::walk::{Block, Walk};
use format::ObjectType;
use millpond_torture::test_pool::{TestPool, image};
use pool::{ImportOptions, Pool, Selection};
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;

/// The maps of metaslabs have blocks of this size, the logs longer ones.
const MAP_BLOCK: u64 = 16 << 10;
/// More often no import here reads a block of a map from the device.
const READS_MAX: u32 = 2;

/// The pool on a disk in memory, without a cache.
fn import(disk: &Arc<SimulatedDisk>, folder: &Path) -> Result<TestPool, pool::PoolError> {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    options.cache_bytes = 1;
    let disk = Arc::clone(disk);
    options.between = Some(Arc::new(move |_| Arc::clone(&disk) as _));
    Ok(TestPool::open(Pool::import(&options)?, false))
}

/// An exported pool in that folder, and the blocks of its metaslabs' maps.
fn exported(folder: &Path) -> Vec<Block> {
    let disk = Arc::new(SimulatedDisk::new(DISK_BYTES, 7));
    rig(&disk).export().unwrap();
    disk.write_to_file(&image(folder, "disk")).unwrap();
    let test_pool = TestPool::import(folder, true).unwrap();
    let is_map = |block: &Block| {
        let mut places = block.places.iter();
        block.pointer.lsize() == MAP_BLOCK
            && places.any(|place| place.kind == ObjectType::SPACE_MAP && place.at.0 == 0)
    };
    let mut blocks = Walk::new(&test_pool.pool).blocks();
    blocks.retain(is_map);
    blocks
}

/// A block of a map is bad from a read on, and well again before the export or after it.
fn trial(folder: &Path, block: &Block, after: u32, heals_early: bool) -> Vec<String> {
    let disk = Arc::new(SimulatedDisk::from_file(&image(folder, "disk"), 7).unwrap());
    let what = format!("{block} after {after} reads");
    spoil(&disk, block, after);
    let test_pool = match import(&disk, folder) {
        Ok(test_pool) => test_pool,
        Err(error) => return vec![format!("{what}: import: {error}")],
    };
    let systems = ["work", "calm"].map(|name| test_pool.system(&path(name)));
    let mut faults = work_on(&test_pool, &systems, &what);
    let leaked = leaked_bytes(&test_pool);
    drop(systems);
    if heals_early {
        disk.heal();
    }
    if faults.is_empty()
        && let Err(error) = test_pool.export()
    {
        faults.push(format!("{what}: export: {error}"));
    }
    disk.heal();
    if faults.is_empty() {
        let folder = tempfile::tempdir().unwrap();
        faults.extend(on_disk(&disk, folder.path(), leaked, &what));
        if let Some(zdb) =
            golden::Zdb::from_environment().filter(|_| after == 0 && faults.is_empty())
        {
            zdb.assert_clean(folder.path(), millpond_torture::test_pool::POOL);
        }
    }
    faults
}

/// In all its copies, from the import on or later: allocations go elsewhere, what is freed stays in the logs, and a map
/// that is known is written anew.
#[test]
fn a_space_map_that_goes_bad_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = exported(folder.path());
    println!("{} blocks of maps", blocks.len());
    assert!(!blocks.is_empty());
    let mut faults = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        for after in 0..READS_MAX {
            let heals_early = (index as u32 + after).is_multiple_of(2);
            faults.extend(trial(folder.path(), block, after, heals_early));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
