//! A pool that is dropped without an export: the library's caller has its memory, threads and devices back.

use device::BlockDevice;
use millpond_torture::pool_model::real::populate;
use millpond_torture::test_pool::{POOL, TestPool, mount};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::{Credentials, FileType, NewNode, OpenOptions, WriteOptions};
use sim::MemoryDisk;
use std::sync::Arc;

#[test]
fn a_pool_that_is_dropped_with_unwritten_changes_lets_go_of_its_devices() {
    for round in 0..20_u32 {
        let disk: Arc<dyn BlockDevice> = Arc::new(MemoryDisk::new(128 << 20));
        let watched = Arc::downgrade(&disk);
        let device = NewDevice::Open("/simulated/disk".into(), disk);
        let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
        options.root.populate = Some(populate());
        let test_pool = TestPool::open(Pool::create(options).unwrap(), false);
        let system = mount(&test_pool.pool, POOL, false);
        let options = OpenOptions {
            write: true,
            ..OpenOptions::default()
        };
        let node = NewNode {
            file_type: FileType::Regular,
            permissions: 0o644,
            umask: 0,
            device: (0, 0),
        };
        for number in 0..round {
            let name = format!("file{number}");
            let made = system.create(
                &Credentials::root(),
                system.root(),
                name.as_bytes(),
                &node,
                options,
            );
            let (file, _) = made.unwrap();
            file.write(0, &[1; 9000], WriteOptions::default()).unwrap();
            if number % 4 == 1 {
                test_pool.pool.sync().unwrap();
            }
        }
        drop(system);
        drop(test_pool);
        assert!(watched.upgrade().is_none(), "round {round}");
    }
}
