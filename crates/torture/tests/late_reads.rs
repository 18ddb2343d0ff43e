//! Reads that reach the device when the block is no longer there, or has other bytes: no device is to blame for that.

use base::ObjectId;
use device::BlockDevice;
use dmu::ObjectSet;
use millpond_torture::aftermath;
use millpond_torture::pool_model::real::populate;
use millpond_torture::test_pool::{POOL, TestPool, mount};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{Credentials, FileSystem, FileType, NewNode, OpenFile, OpenOptions, WriteOptions};
use sim::{MemoryDisk, WatchedDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LATE: &str = "late-reader";
const LATE_BY: Duration = Duration::from_millis(2);

/// A mirror on whose devices the reads of late readers wait before they are done.
fn pool_with_late_reads() -> TestPool {
    let watch = |_, _| {
        if std::thread::current().name() == Some(LATE) {
            std::thread::sleep(LATE_BY);
        }
    };
    let side = |name: &str| {
        let disk: Arc<dyn BlockDevice> = Arc::new(MemoryDisk::new(128 << 20));
        NewDevice::Open(name.into(), Arc::new(WatchedDevice::reads(disk, watch)))
    };
    let mirror = NewVdev::Mirror(["/simulated/a", "/simulated/b"].map(side).into());
    let mut options = CreateOptions::new(POOL, vec![mirror]);
    options.root.populate = Some(populate());
    // Next to nothing is in memory.
    options.cache_bytes = 4096;
    TestPool::open(Pool::create(options).unwrap(), false)
}

/// Reads the first blocks of every object, none of them from memory.
fn read_all(set: &ObjectSet) {
    const BLOCKS: u64 = 4;
    let mut last = ObjectId(0);
    while let Ok(Some(id)) = set.next_object(last) {
        last = id;
        let Ok(object) = set.object(id) else { continue };
        let size = u64::from(object.info().block_size);
        for block in 0..BLOCKS {
            object.forget_block(block);
            // An object may have gone since.
            let _ = object.read(block * size, &mut [0; 512]);
        }
    }
}

fn file(system: &Arc<FileSystem>) -> OpenFile {
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    let root = system.root();
    let made = system.create(&Credentials::root(), root, b"file", &node, options);
    made.unwrap().0
}

/// The pool's own objects are rewritten where they are in the later passes of each sync.
#[test]
fn blocks_that_later_passes_rewrite_blame_no_device() {
    const TXGS: u8 = 150;
    // Nor what syncs need of the pool's own.
    pool::tunables::MOS_KEPT_BYTES.set(0);
    let test_pool = pool_with_late_reads();
    let system = mount(&test_pool.pool, POOL, false);
    let written = file(&system);
    let ended = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (set, ended) = (
                Arc::clone(&test_pool.pool.dsl().mos().set),
                Arc::clone(&ended),
            );
            let read = move || {
                while !ended.load(Ordering::Relaxed) {
                    read_all(&set);
                }
            };
            let thread = std::thread::Builder::new().name(LATE.to_owned());
            thread.spawn(read).unwrap()
        })
        .collect();
    for txg in 0..TXGS {
        written
            .write(
                u64::from(txg % 16) << 17,
                &[txg; 4096],
                WriteOptions::default(),
            )
            .unwrap();
        test_pool.pool.sync().unwrap();
    }
    ended.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(aftermath::blamed(&test_pool), Vec::<String>::new());
    let healed = |leaf: &Arc<vdev::Leaf>| leaf.statistics().healed;
    let tops = test_pool.pool.vdevs().tops();
    assert_eq!(tops[0].leaves().iter().map(healed).sum::<u64>(), 0);
    drop(written);
    system.unmount().unwrap();
    test_pool.export().unwrap();
}
