use super::*;
use crate::testing::MemoryDevice;
use crate::{Interior, InteriorKind, LeafConfig};
use base::Txg;
use device::BlockDevice;
use format::label::DATA_START;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

mod moved;
mod several_stripes;
mod spare_rooms;
mod stripe;
mod unflushed;

pub(super) const SIZE: usize = 65 << 20;

pub(super) fn leaf(guid: u64, device: &Arc<MemoryDevice>) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(guid),
        path: format!("/d{guid}"),
        ashift: 12,
        spare_room: None,
    };
    Leaf::new(config, Some(Arc::clone(device) as Arc<dyn BlockDevice>))
}

pub(super) fn top(devices: &[Arc<MemoryDevice>]) -> Arc<Top> {
    let leaves = devices.iter().zip(1..).map(|(d, i)| Node::Leaf(leaf(i, d)));
    let node = Node::Interior(Interior {
        guid: Guid(99),
        kind: InteriorKind::Mirror,
        children: leaves.collect(),
    });
    let asize = 60 << 20;
    Top::new(
        TopConfig {
            id: VdevId(0),
            guid: Guid(99),
            ashift: 12,
            asize,
            is_log: false,
        },
        node,
    )
}

pub(super) fn pair() -> ([Arc<MemoryDevice>; 2], Arc<Top>) {
    let devices = [MemoryDevice::new(SIZE), MemoryDevice::new(SIZE)];
    let top = top(&devices);
    (devices, top)
}

fn range(offset: u64, len: usize) -> BlockRange {
    BlockRange {
        offset,
        len,
        birth: Txg(5),
    }
}

pub(super) fn put(top: &Top, offset: u64, byte: u8, len: usize) -> Arc<WriteGroup> {
    let group = WriteGroup::new(Txg(5));
    let data = Buffer::from_slice(&vec![byte; len]);
    top.write(offset, data, IoClass::AsyncWrite, &group);
    group
}

fn is(byte: u8) -> impl FnMut(&[u8]) -> Verdict {
    move |bytes| Verdict::proof(bytes.iter().all(|b| *b == byte))
}

/// What is said of blocks without a checksum.
fn anything(_: &[u8]) -> Verdict {
    Verdict::Unproven
}

#[test]
fn every_side_gets_every_write() {
    let (devices, top) = pair();
    let group = put(&top, 8192, 7, 4096);
    let queued = top
        .read(range(8192, 4096), IoClass::SyncRead, &mut is(7))
        .unwrap();
    assert!(
        queued.failures.is_empty(),
        "served from the queue or the device"
    );
    group.wait().unwrap();
    top.flush().unwrap();
    for device in &devices {
        let at = DATA_START as usize + 8192;
        assert!(
            device.bytes.lock().unwrap()[at..at + 4096]
                .iter()
                .all(|b| *b == 7)
        );
        assert!(device.flushes.load(Ordering::Relaxed) >= 1);
    }
}

#[test]
fn wrong_bytes_are_an_error_of_a_device_when_somebody_says_so() {
    let (devices, top) = pair();
    put(&top, 0, 7, 8192).wait().unwrap();
    let counted = |at: usize| top.leaves()[at].errors().checksum;
    let read = || top.read(range(0, 8192), IoClass::SyncRead, &mut is(8));
    let error = read().unwrap_err();
    assert_eq!((counted(0), counted(1)), (0, 0));
    let VdevError::ReadFailed { failures, .. } = error else {
        panic!("{error}");
    };
    top.blame(&failures, Txg(7));
    assert_eq!((counted(0), counted(1)), (1, 1));
    // What a device says itself is counted as what it is.
    devices[1].fail_reads.store(true, Ordering::Relaxed);
    let Err(VdevError::ReadFailed { failures, .. }) = read() else {
        panic!("read");
    };
    top.blame(&failures, Txg(7));
    assert_eq!((counted(0), counted(1)), (2, 1));
    assert_eq!(top.leaves()[1].errors().read, 1);
}

#[test]
fn a_bad_copy_is_healed_from_the_good_one() {
    let (devices, top) = pair();
    put(&top, 0, 7, 8192).wait().unwrap();
    devices[0].bytes.lock().unwrap()[DATA_START as usize + 100] ^= 1;
    // Offset 0 is asked of the first side first.
    let outcome = top
        .read(range(0, 8192), IoClass::SyncRead, &mut is(7))
        .unwrap();
    assert_eq!((outcome.failures.len(), outcome.lacking.len()), (1, 1));
    assert_eq!(top.repair_read(&outcome, range(0, 8192)).healed, 1);
    assert_eq!(outcome.failures[0].failure, Failure::Checksum);
    top.blame(&outcome.failures, Txg(7));
    assert_eq!(top.leaves()[0].errors().checksum, 1);
    assert_eq!(
        devices[0].bytes.lock().unwrap()[DATA_START as usize + 100],
        7
    );
    let again = top
        .read(range(0, 8192), IoClass::SyncRead, &mut is(7))
        .unwrap();
    assert!(again.failures.is_empty());
}

#[test]
fn a_dead_side_is_faulted_and_the_other_serves() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    devices[0].fail_reads.store(true, Ordering::Relaxed);
    devices[0].fail_writes.store(true, Ordering::Relaxed);
    let outcome = top
        .read(range(0, 4096), IoClass::SyncRead, &mut is(7))
        .unwrap();
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(top.repair_read(&outcome, range(0, 4096)).healed, 0);
    let condition = Condition::new(VdevState::Faulted, VdevAux::ErrorsExceeded);
    assert_eq!(top.leaves()[0].condition(), condition);
    assert_eq!(top.condition().state, VdevState::Degraded);
    assert!(top.leaves()[0].take_changed());
    put(&top, 4096, 8, 4096).wait().unwrap();
    assert!(top.leaves()[0].misses(Txg(5)) && !top.leaves()[1].misses(Txg(5)));
    // It comes back: the stale copy is asked last and not blamed.
    devices[0].fail_reads.store(false, Ordering::Relaxed);
    devices[0].fail_writes.store(false, Ordering::Relaxed);
    top.leaves()[0].clear().unwrap();
    assert_eq!(top.condition(), Condition::HEALTHY);
    let outcome = top
        .read(range(4096, 4096), IoClass::SyncRead, &mut is(8))
        .unwrap();
    assert!(outcome.failures.is_empty());
    assert_eq!(top.leaves()[0].errors(), crate::ErrorCounts::default());
    let scrub = || top.scrub(range(4096, 4096), true, &mut is(8)).unwrap();
    let scrubbed = scrub();
    assert_eq!((scrubbed.failures.len(), scrubbed.repaired.healed), (1, 1));
    top.leaves()[0].set_missing(crate::TxgRanges::new());
    assert!(scrub().failures.is_empty());
}

/// One side missed the write of 8 over 7 at offset 0; there is no checksum.
fn outdated() -> ([Arc<MemoryDevice>; 2], Arc<Top>) {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    top.flush().unwrap();
    let condition = Condition::new(VdevState::Offline, VdevAux::None);
    top.leaves()[0].set_condition(condition);
    put(&top, 0, 8, 4096).wait().unwrap();
    top.flush().unwrap();
    top.leaves()[0].set_condition(Condition::HEALTHY);
    assert!(top.leaves()[0].misses(Txg(5)));
    (devices, top)
}

fn on_side(device: &MemoryDevice) -> u8 {
    device.bytes.lock().unwrap()[DATA_START as usize]
}

#[test]
fn a_side_that_missed_a_block_without_checksum_is_written_by_a_resilver() {
    let (devices, top) = outdated();
    top.leaves()[0].begin_resilver();
    let outcome = top.scrub(range(0, 4096), true, &mut anything).unwrap();
    assert_eq!(outcome.data.unwrap()[0], 8);
    assert_eq!(
        outcome.repaired,
        Repaired {
            healed: 1,
            unrepaired: 0
        }
    );
    assert_eq!(on_side(&devices[0]), 8);
    top.flush().unwrap();
    top.leaves()[0].end_resilver();
    assert!(!top.leaves()[0].misses(Txg(5)));
}

#[test]
fn a_side_that_missed_a_block_without_checksum_is_no_source() {
    let (devices, top) = outdated();
    let bad_read = |at: usize| devices[1].bad_read.store(at, Ordering::Relaxed);
    bad_read(DATA_START as usize);
    let read = || top.read(range(0, 4096), IoClass::SyncRead, &mut anything);
    read().unwrap_err();
    top.leaves()[0].begin_resilver();
    let outcome = top.scrub(range(0, 4096), true, &mut anything).unwrap();
    assert_eq!((outcome.data.is_none(), outcome.failures.len()), (true, 2));
    top.leave_range_behind(range(0, 4096));
    // The loss is not forgotten, and the fresh side keeps what it has.
    top.leaves()[0].end_resilver();
    assert!(top.leaves()[0].misses(Txg(5)));
    assert_eq!((on_side(&devices[0]), on_side(&devices[1])), (7, 8));
    bad_read(usize::MAX);
    assert_eq!(read().unwrap().data[0], 8);
}

#[test]
fn a_side_that_is_away_again_has_not_been_resilvered() {
    let (devices, top) = outdated();
    let leaf = &top.leaves()[0];
    leaf.begin_resilver();
    leaf.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
    top.scrub(range(0, 4096), true, &mut anything).unwrap();
    leaf.set_condition(Condition::HEALTHY);
    leaf.end_resilver();
    assert!(leaf.misses(Txg(5)));
    assert_eq!(on_side(&devices[0]), 7);
}

#[test]
fn a_repair_that_is_not_durable_is_missing() {
    let (devices, top) = outdated();
    let leaf = &top.leaves()[0];
    leaf.begin_resilver();
    top.scrub(range(0, 4096), true, &mut anything).unwrap();
    leaf.end_resilver();
    assert!(!leaf.misses(Txg(5)));
    devices[0].fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap();
    assert!(leaf.misses(Txg(5)));
}

#[test]
fn a_write_that_no_side_takes_is_given_back() {
    let (devices, top) = pair();
    for device in &devices {
        device
            .bad_byte
            .store(DATA_START as usize + 5000, Ordering::Relaxed);
    }
    let group = WriteGroup::new(Txg(5));
    for i in 0..4u64 {
        let data = Buffer::from_slice(&[i as u8 + 1; 4096]);
        top.write(i * 4096, data, IoClass::AsyncWrite, &group);
    }
    let error = group.wait().unwrap_err();
    assert!(
        matches!(error, VdevError::WriteFailed { offset: 4096, .. }),
        "{error}"
    );
    let failed = group.take_failed();
    assert_eq!(
        failed.len(),
        1,
        "the neighbours of the bad sector are written"
    );
    assert_eq!(
        (failed[0].offset, &failed[0].data[..]),
        (4096, &[2; 4096][..])
    );
    assert!(group.wait().is_ok(), "taken");
    devices[1].bad_byte.store(usize::MAX, Ordering::Relaxed);
    for write in failed {
        top.write(write.offset, write.data, write.class, &group);
    }
    group.wait().unwrap();
}

#[test]
fn all_sides_wrong_is_a_checksum_error_that_names_them() {
    let (_devices, top) = pair();
    let error = top
        .read(range(0, 4096), IoClass::SyncRead, &mut is(7))
        .unwrap_err();
    assert!(error.is_checksum());
    let text = error.to_string();
    assert!(
        text.contains("/d1: checksum mismatch; /d2: checksum mismatch"),
        "{text}"
    );
}

#[test]
fn a_failed_flush_keeps_the_writes_for_later() {
    let device = MemoryDevice::new(SIZE);
    let top = top(std::slice::from_ref(&device));
    put(&top, 0, 7, 4096).wait().unwrap();
    device.fail_flush.store(true, Ordering::Relaxed);
    assert!(matches!(top.flush(), Err(VdevError::FlushFailed { .. })));
    assert!(
        put(&top, 4096, 8, 4096).wait().is_err(),
        "refused until cleared"
    );
    // What a kernel does after a failed flush: the dirty pages are gone.
    device.bytes.lock().unwrap()[DATA_START as usize..][..4096].fill(0);
    device.fail_flush.store(false, Ordering::Relaxed);
    top.leaves()[0].clear().unwrap();
    top.flush().unwrap();
    assert!(
        device.bytes.lock().unwrap()[DATA_START as usize..][..4096]
            .iter()
            .all(|b| *b == 7)
    );
}

#[test]
fn one_side_that_cannot_flush_is_taken_out() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    devices[1].fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap();
    let condition = Condition::new(VdevState::Faulted, VdevAux::IoFailure);
    assert_eq!(top.leaves()[1].condition(), condition);
    assert!(top.leaves()[1].misses(Txg(5)));
    top.flush().unwrap();
}

#[test]
fn one_side_that_is_gone_when_it_is_flushed_is_removed() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    devices[1].is_gone.store(true, Ordering::Relaxed);
    devices[1].fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap();
    assert_eq!(top.leaves()[1].condition(), Condition::REMOVED);
    assert!(top.leaves()[1].misses(Txg(5)));
}

#[test]
fn one_side_that_was_found_gone_during_a_flush_is_not_faulted_by_it() {
    let (devices, top) = pair();
    put(&top, 0, 7, 4096).wait().unwrap();
    devices[1].fail_flush.store(true, Ordering::Relaxed);
    let leaf = Arc::downgrade(&top.leaves()[1]);
    let find = move || {
        let leaf = leaf.upgrade().unwrap();
        leaf.set_condition(Condition::REMOVED);
    };
    *devices[1].on_flush.lock().unwrap() = Some(Arc::new(find));
    top.flush().unwrap();
    assert_eq!(top.leaves()[1].condition(), Condition::REMOVED);
    assert!(top.leaves()[1].misses(Txg(5)));
}

#[test]
fn short_blocks_are_padded_to_sectors() {
    let (devices, top) = pair();
    devices[0].bytes.lock().unwrap()[DATA_START as usize..][..4096].fill(0xee);
    put(&top, 0, 7, 512).wait().unwrap();
    let outcome = top
        .read(range(0, 512), IoClass::SyncRead, &mut is(7))
        .unwrap();
    assert_eq!(outcome.data.len(), 512);
    let bytes = devices[0].bytes.lock().unwrap();
    assert!(
        bytes[DATA_START as usize + 512..][..3584]
            .iter()
            .all(|b| *b == 0)
    );
}

#[test]
fn nothing_outside_is_touched() {
    let (_devices, top) = pair();
    let beyond = range(60 << 20, 512);
    let read = top.read(beyond, IoClass::SyncRead, &mut is(0));
    assert!(matches!(read, Err(VdevError::OutOfRange { .. })));
    assert_eq!(put(&top, 8192, 1, 4096).findings().first(), None);
    for offset in [60 << 20, (60 << 20) - 2048, u64::MAX - 4095] {
        let group = put(&top, offset, 1, 4096);
        assert!(group.wait().is_err());
        // Nobody is given such a place: whoever has it is wrong about it.
        assert_eq!(group.findings().first().unwrap().name, "vdev.inside");
    }
    assert_eq!(top.leaves()[0].errors().write, 0);
}

#[test]
fn of_two_writes_to_a_place_the_newer_is_written_again() {
    let device = MemoryDevice::new(SIZE);
    let single = top(std::slice::from_ref(&device));
    let tree = crate::VdevTree::new(vec![Some(Arc::clone(&single))]);
    device
        .bad_byte
        .store(DATA_START as usize, Ordering::Relaxed);
    let group = put(&single, 0, 1, 4096);
    group.wait().unwrap_err();
    let again = |byte: u8, offset: u64| {
        let data = Buffer::from_slice(&vec![byte; 4096]);
        single.write(offset, data, IoClass::AsyncWrite, &group);
        group.wait()
    };
    again(2, 0).unwrap_err();
    device.bad_byte.store(usize::MAX, Ordering::Relaxed);
    group.write_again(&tree);
    group.wait().unwrap();
    single
        .read(range(0, 4096), IoClass::SyncRead, &mut is(2))
        .unwrap();
    // Once a newer write to the place was done well, the failure of the older is no matter.
    device
        .bad_byte
        .store(DATA_START as usize, Ordering::Relaxed);
    again(3, 0).unwrap_err();
    device.bad_byte.store(usize::MAX, Ordering::Relaxed);
    again(4, 0).unwrap();
    assert!(group.take_failed().is_empty());
    single
        .read(range(0, 4096), IoClass::SyncRead, &mut is(4))
        .unwrap();
}

#[test]
fn what_no_leaf_took_is_read_until_it_is_written_again() {
    let device = MemoryDevice::new(SIZE);
    let single = top(std::slice::from_ref(&device));
    let tree = crate::VdevTree::new(vec![Some(Arc::clone(&single))]);
    let read = |offset: u64, len: usize, accept: &mut dyn FnMut(&[u8]) -> Verdict| {
        let found = single.read(range(offset, len), IoClass::SyncRead, accept);
        found.map(|outcome| {
            single.blame(&outcome.failures, Txg(7));
            outcome.data
        })
    };
    let bad_byte = DATA_START as usize + 5000;
    device.bad_byte.store(bad_byte, Ordering::Relaxed);
    let group = WriteGroup::new(Txg(5));
    for (place, byte) in [(0, 1), (4096, 2), (8192, 3)] {
        let data = Buffer::from_slice(&[byte; 4096]);
        single.write(place, data, IoClass::AsyncWrite, &group);
    }
    group.wait().unwrap_err();
    // Without a checksum too: what the device has there was never this block.
    assert_eq!(read(4096, 4096, &mut anything).unwrap()[..], [2; 4096]);
    read(4096, 4096, &mut is(2)).unwrap();
    read(8192, 4096, &mut is(3)).unwrap();
    // Several blocks at once, one of which the device does not have.
    read(0, 12_288, &mut anything).unwrap_err();
    assert_eq!(single.leaves()[0].errors().checksum, 0);
    // The device is back, and has it.
    device.bad_byte.store(usize::MAX, Ordering::Relaxed);
    group.write_again(&tree);
    group.wait().unwrap();
    assert!(!single.kept.any());
    read(4096, 4096, &mut is(2)).unwrap();
    // Who gives a pool up lets go of what was kept.
    device.bad_byte.store(bad_byte, Ordering::Relaxed);
    let group = put(&single, 4096, 9, 4096);
    group.wait().unwrap_err();
    drop(group);
    read(4096, 4096, &mut is(9)).unwrap_err();
    read(4096, 4096, &mut is(2)).unwrap();
}
