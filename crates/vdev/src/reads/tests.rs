use super::*;
use crate::testing::MemoryDevice;
use crate::{Condition, LeafConfig};
use base::Guid;
use device::BlockDevice;
use std::sync::atomic::Ordering;

const SIZE: usize = 1 << 20;
const PLACE: u64 = 64 << 10;

fn leaves(count: u8) -> Vec<(Arc<MemoryDevice>, Arc<Leaf>)> {
    let leaf = |number: u8| {
        let device = MemoryDevice::new(SIZE);
        device.bytes.lock().unwrap().fill(number);
        let config = LeafConfig {
            guid: Guid(u64::from(number) + 1),
            path: format!("/d{number}"),
            ashift: 9,
            spare_room: None,
        };
        let leaf = Leaf::new(config, Some(device.clone() as Arc<dyn BlockDevice>));
        (device, leaf)
    };
    (0..count).map(leaf).collect()
}

fn read(leaves: &[(Arc<MemoryDevice>, Arc<Leaf>)], threads: &ReadThreads) -> Vec<ReadResult> {
    let wanted = |(_, leaf): &(_, Arc<Leaf>)| (Arc::clone(leaf), PLACE, 4096);
    let wanted: Vec<_> = leaves.iter().map(wanted).collect();
    read_all(&wanted, IoClass::SyncRead, threads)
}

#[test]
fn each_piece_has_its_own_result() {
    let leaves = leaves(6);
    leaves[1].0.fail_reads.store(true, Ordering::Relaxed);
    let offline = Condition::new(VdevState::Offline, VdevAux::None);
    leaves[4].1.set_condition(offline);
    let results = read(&leaves, &ReadThreads::new());
    for (number, result) in results.into_iter().enumerate() {
        match number {
            1 => assert!(matches!(result, Err(Failure::Device(_)))),
            4 => assert_eq!(result.unwrap_err(), offline_failure()),
            _ => assert!(result.unwrap().iter().all(|byte| *byte == number as u8)),
        }
    }
    assert_eq!(leaves[1].1.errors().read, 1);
    // Nothing is left of them: no turn, nothing under way.
    for (_, leaf) in &leaves {
        let statistics = leaf.statistics();
        let reads = &statistics.classes[IoClass::SyncRead as usize];
        assert_eq!(
            (reads.active, reads.pending, leaf.handle().active()),
            (0, 0, 0)
        );
    }
}

fn offline_failure() -> Failure {
    Failure::Unavailable(VdevState::Offline, VdevAux::None)
}

/// Without threads, and with fewer than there are pieces, the rest is done by who waits.
#[test]
fn threads_that_are_not_to_be_had_make_no_difference() {
    let leaves = leaves(12);
    for threads in [0, 1, 3] {
        let queue = Bounded::new("test", threads);
        let role = ("vdev-read", sys::thread::ORDINARY);
        let threads = ReadThreads(ThreadPool::new(role, threads, queue));
        for _ in 0..50 {
            for (number, result) in read(&leaves, &threads).into_iter().enumerate() {
                assert!(result.unwrap().iter().all(|byte| *byte == number as u8));
            }
        }
    }
}

/// Many more blocks at once than leaves give turns.
#[test]
fn turns_come_to_all_who_wait_for_several_leaves() {
    let leaves = leaves(5);
    let threads = ReadThreads::new();
    std::thread::scope(|scope| {
        for reader in 0..40 {
            let (leaves, threads) = (&leaves, &threads);
            scope.spawn(move || {
                // In different orders, as columns are.
                let mut leaves = leaves.clone();
                leaves.rotate_left(reader % 5);
                for round in 0..50 {
                    let class = [IoClass::Scan, IoClass::SyncRead][round % 2];
                    let wanted = |(_, leaf): &(_, Arc<Leaf>)| (Arc::clone(leaf), PLACE, 512);
                    let wanted: Vec<_> = leaves.iter().map(wanted).collect();
                    let results = read_all(&wanted, class, threads);
                    assert!(results.iter().all(Result::is_ok));
                    assert!(leaves[0].1.read(PLACE, 512, class).is_ok());
                }
            });
        }
    });
}
