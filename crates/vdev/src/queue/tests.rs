use super::*;
use crate::group::Reports;
use crate::node::Children;
use crate::testing::MemoryDevice;
use crate::top::KeptWrites;
use crate::{Leaf, LeafConfig, Node, WriteGroup};
use base::{Guid, VdevId};
use device::BlockDevice;
use proptest::prelude::*;

const SIZE: usize = 1 << 20;

fn leaf(device: &Arc<MemoryDevice>, queue: QueueConfig) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(1),
        path: "/d".to_owned(),
        ashift: 9,
        spare_room: None,
    };
    Leaf::with_queue(
        config,
        Some(Arc::clone(device) as Arc<dyn BlockDevice>),
        queue,
    )
}

fn push(leaf: &Arc<Leaf>, group: &Arc<WriteGroup>, offset: u64, bytes: &[u8]) {
    push_as(IoClass::AsyncWrite, leaf, group, offset, bytes);
}

fn push_as(class: IoClass, leaf: &Arc<Leaf>, group: &Arc<WriteGroup>, offset: u64, bytes: &[u8]) {
    let data = Buffer::from_slice(bytes);
    let kept = &KeptWrites::new();
    let reports = Reports {
        count: 1,
        tolerance: 0,
        members: Arc::clone(Children::new(&Node::Leaf(Arc::clone(leaf))).members()),
    };
    let place = (VdevId(0), offset, group.txg());
    let completion = WriteCompletion::new((group, kept), place, data.clone(), class, reports);
    leaf.write(offset, data, completion);
}

#[test]
fn adjacent_writes_are_merged() {
    let device = MemoryDevice::new(SIZE);
    let leaf = leaf(&device, QueueConfig::default());
    let group = WriteGroup::new(Txg(4));
    // Scattered arrival, one contiguous range; below the size at which threads start.
    for i in (0..64u64).rev().step_by(2).chain((0..64).step_by(2)) {
        push(&leaf, &group, i * 4096, &[i as u8; 4096]);
    }
    group.wait().unwrap();
    assert_eq!(device.writes.load(Ordering::Relaxed), 1);
    assert_eq!(leaf.statistics().merged, 63);
    let bytes = device.bytes.lock().unwrap();
    assert!((0..64).all(|i| {
        bytes[i * 4096..(i + 1) * 4096]
            .iter()
            .all(|b| *b == i as u8)
    }));
}

#[test]
fn the_queue_is_bounded_and_the_producer_helps() {
    let device = MemoryDevice::new(SIZE);
    device.delay_us.store(200, Ordering::Relaxed);
    let config = QueueConfig {
        bytes_max: 64 << 10,
        start_bytes: 4096,
        threads: 1,
    };
    let leaf = leaf(&device, config);
    let group = WriteGroup::new(Txg(4));
    for i in 0..200u64 {
        // Every other block, so that nothing merges.
        push(&leaf, &group, i * 4096, &[1; 2048]);
    }
    group.wait().unwrap();
    let statistics = leaf.statistics();
    assert!(
        statistics.queued_bytes_high_water <= 64 << 10,
        "{statistics:?}"
    );
    assert!(statistics.producer_helps > 0);
}

#[test]
fn the_newer_of_two_writes_wins_and_both_are_done() {
    let device = MemoryDevice::new(SIZE);
    let leaf = leaf(&device, QueueConfig::default());
    let (first, second) = (WriteGroup::new(Txg(4)), WriteGroup::new(Txg(4)));
    push(&leaf, &first, 0, &[1; 4096]);
    push(&leaf, &second, 0, &[2; 4096]);
    let read = leaf.read(0, 4096, IoClass::SyncRead).unwrap();
    assert_eq!(read[0], 2);
    first.wait().unwrap();
    second.wait().unwrap();
    assert_eq!(device.writes.load(Ordering::Relaxed), 1);
    assert_eq!(device.bytes.lock().unwrap()[0], 2);
}

#[test]
fn dropping_a_leaf_writes_what_is_queued() {
    let device = MemoryDevice::new(SIZE);
    let leaf = leaf(&device, QueueConfig::default());
    push(&leaf, &WriteGroup::new(Txg(4)), 512, &[3; 512]);
    drop(leaf);
    assert_eq!(device.bytes.lock().unwrap()[600], 3);
}

#[test]
fn without_threads_the_waiter_writes() {
    let device = MemoryDevice::new(SIZE);
    let config = QueueConfig {
        threads: 0,
        ..QueueConfig::default()
    };
    let leaf = leaf(&device, config);
    let group = WriteGroup::new(Txg(4));
    for i in 0..100u64 {
        push(&leaf, &group, i * 8192, &[5; 4096]);
    }
    group.wait().unwrap();
    assert_eq!(leaf.statistics().producer_helps, 100);
    assert_eq!(device.bytes.lock().unwrap()[99 * 8192], 5);
}

/// A queue that is full of writes that nobody waits for: nothing is written but by who needs it.
fn full_queue(device: &Arc<MemoryDevice>) -> (Arc<Leaf>, Arc<WriteGroup>) {
    let config = QueueConfig {
        bytes_max: 32 << 10,
        start_bytes: 2048,
        threads: 0,
    };
    let leaf = leaf(device, config);
    let group = WriteGroup::new(Txg(4));
    for i in 0..8u64 {
        push(&leaf, &group, i * 8192, &[5; 4096]);
    }
    (leaf, group)
}

#[test]
fn a_log_block_does_not_wait_for_room() {
    let device = MemoryDevice::new(SIZE);
    let (leaf, others) = full_queue(&device);
    let group = WriteGroup::new(Txg(4));
    push_as(IoClass::SyncWrite, &leaf, &group, 4096, &[6; 4096]);
    push_as(IoClass::SyncWrite, &leaf, &group, 3 * 4096, &[6; 4096]);
    assert_eq!(leaf.statistics().producer_helps, 0);
    group.wait().unwrap();
    assert_eq!(leaf.statistics().producer_helps, 2, "only its own");
    let written = |at: usize| device.bytes.lock().unwrap()[at];
    assert_eq!((written(4096), written(3 * 4096)), (6, 6));
    assert_eq!((written(0), written(8192)), (0, 0), "not its neighbours");
    others.wait().unwrap();
    assert_eq!((written(0), written(8192)), (5, 5));
}

#[test]
fn a_write_that_nobody_waits_for_does_not_take_a_log_block_along() {
    let device = MemoryDevice::new(SIZE);
    let leaf = leaf(
        &device,
        QueueConfig {
            threads: 0,
            ..QueueConfig::default()
        },
    );
    let group = WriteGroup::new(Txg(4));
    push(&leaf, &group, 0, &[5; 4096]);
    push_as(IoClass::SyncWrite, &leaf, &group, 4096, &[6; 4096]);
    push(&leaf, &group, 8192, &[7; 4096]);
    group.wait().unwrap();
    assert_eq!(device.writes.load(Ordering::Relaxed), 3);
    let bytes = device.bytes.lock().unwrap();
    assert_eq!((bytes[0], bytes[4096], bytes[8192]), (5, 6, 7));
}

#[test]
fn many_producers_and_a_slow_device() {
    let device = MemoryDevice::new(SIZE);
    device.delay_us.store(20, Ordering::Relaxed);
    let config = QueueConfig {
        bytes_max: 32 << 10,
        start_bytes: 2048,
        threads: 2,
    };
    let leaf = leaf(&device, config);
    std::thread::scope(|scope| {
        for producer in 0..4u64 {
            let leaf = &leaf;
            scope.spawn(move || {
                for round in 0..20u64 {
                    let group = WriteGroup::new(Txg(4));
                    for i in 0..20u64 {
                        let offset = (producer * 20 + i) * 1024;
                        push(leaf, &group, offset, &[(round + producer) as u8; 1024]);
                    }
                    group.wait().unwrap();
                }
            });
        }
    });
    let bytes = device.bytes.lock().unwrap();
    for producer in 0..4 {
        let mine = &bytes[producer * 20 * 1024..(producer + 1) * 20 * 1024];
        assert!(mine.iter().all(|b| *b == 19 + producer as u8));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written in whatever order, overlapping or not, a read sees the newest bytes.
    #[test]
    fn reads_see_the_newest_bytes(
        steps in proptest::collection::vec(
            (0u64..40, 1usize..6, 0u64..40, 1usize..10, prop::bool::weighted(0.1)), 1..60),
        delay_us in 0usize..30,
    ) {
        let device = MemoryDevice::new(64 << 10);
        device.delay_us.store(delay_us, Ordering::Relaxed);
        let config = QueueConfig { bytes_max: 8 << 10, start_bytes: 2048, threads: 2 };
        let leaf = leaf(&device, config);
        let mut model = vec![0u8; 64 << 10];
        let mut group = WriteGroup::new(Txg(4));
        for (n, (at, sectors, from, span, wait)) in steps.into_iter().enumerate() {
            let bytes = vec![n as u8 + 1; sectors * 512];
            push(&leaf, &group, at * 512, &bytes);
            model[at as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
            let read = leaf.read(from * 512, span * 512, IoClass::SyncRead).unwrap();
            prop_assert_eq!(&read[..], &model[from as usize * 512..][..span * 512]);
            if wait {
                group.wait().unwrap();
                group = WriteGroup::new(Txg(4));
            }
        }
        group.wait().unwrap();
        prop_assert_eq!(&device.bytes.lock().unwrap()[..], &model[..]);
    }
}
