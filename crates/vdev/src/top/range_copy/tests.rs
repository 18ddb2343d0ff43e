use super::*;
use crate::testing::MemoryDevice;
use crate::top::tests::{SIZE, leaf, pair, put};
use crate::{Condition, Interior, InteriorKind, LeafConfig, Node, TopConfig, VdevAux, VdevState};
use base::{Guid, VdevId};
use format::label::DATA_START;
use layout::Draid;
use std::sync::atomic::Ordering;

const PIECE: u64 = 1 << 20;

fn targets(leaves: &[&Arc<Leaf>]) -> Arc<[Arc<Leaf>]> {
    leaves.iter().map(|leaf| Arc::clone(leaf)).collect()
}

fn lack(leaf: &Leaf) {
    leaf.set_missing([(Txg(1), 100)].into_iter().collect());
    leaf.begin_rebuild();
}

fn group() -> Arc<WriteGroup> {
    WriteGroup::of_copies(&Arc::default())
}

/// Copies a range; what came of it, when it is written.
fn copy(top: &Arc<Top>, range: Range<u64>, targets: &Arc<[Arc<Leaf>]>) -> Copied {
    let group = group();
    let mut whole = Copied::default();
    for copy in top.begin_copies(std::iter::once(range), targets).unwrap() {
        whole += copy.run(&group).unwrap();
    }
    group.wait().unwrap();
    whole
}

fn bytes(device: &MemoryDevice, range: Range<u64>) -> Vec<u8> {
    let (start, end) = (range.start + DATA_START, range.end + DATA_START);
    device.bytes.lock().unwrap()[start as usize..end as usize].to_vec()
}

#[test]
fn a_side_gets_what_the_other_one_has_and_what_is_queued_for_it() {
    let (devices, top) = pair();
    let behind = &top.leaves()[1];
    let written = put(&top, 0, 1, 64 << 10);
    written.wait().unwrap();
    devices[1].bytes.lock().unwrap()[DATA_START as usize..].fill(0);
    lack(behind);
    // Still in the queues.
    let queued = put(&top, 64 << 10, 2, 64 << 10);
    let copied = copy(&top, 0..PIECE, &targets(&[behind]));
    assert_eq!((copied.read, copied.written), (PIECE, PIECE));
    queued.wait().unwrap();
    assert_eq!(bytes(&devices[1], 0..PIECE), bytes(&devices[0], 0..PIECE));
    assert_eq!(bytes(&devices[1], 0..4)[0], 1);
    assert_eq!(bytes(&devices[1], 64 << 10..PIECE)[0], 2);
}

#[test]
fn what_is_written_while_a_range_is_copied_stays() {
    let (devices, top) = pair();
    let behind = &top.leaves()[1];
    put(&top, 0, 1, 128 << 10).wait().unwrap();
    lack(behind);
    let group = group();
    let copies = top.begin_copies(std::iter::once(0..PIECE), &targets(&[behind]));
    // Neither what the copy reads nor what it reads it from is to come after this.
    put(&top, 8 << 10, 7, 16 << 10).wait().unwrap();
    devices[0].bytes.lock().unwrap()[DATA_START as usize + (8 << 10)..][..16 << 10].fill(9);
    for copy in copies.unwrap() {
        let copied = copy.run(&group).unwrap();
        assert_eq!(copied.written, PIECE - (16 << 10));
    }
    group.wait().unwrap();
    let found = bytes(&devices[1], 0..PIECE);
    assert!(found[..8 << 10].iter().all(|byte| *byte == 1));
    assert!(found[8 << 10..24 << 10].iter().all(|byte| *byte == 7));
    assert!(found[24 << 10..128 << 10].iter().all(|byte| *byte == 1));
}

#[test]
fn a_leaf_that_lacks_something_is_no_source() {
    let devices: Vec<_> = (0..3).map(|_| MemoryDevice::new(SIZE)).collect();
    let top = crate::top::tests::top(&devices);
    put(&top, 0, 1, 4096).wait().unwrap();
    let [first, second, third] = top.leaves() else {
        panic!("three leaves")
    };
    lack(third);
    // It missed one txg: nobody knows whether what lies there is of that.
    first.set_missing([(Txg(50), 1)].into_iter().collect());
    devices[0].bytes.lock().unwrap()[DATA_START as usize] = 9;
    copy(&top, 0..4096, &targets(&[third]));
    assert_eq!(bytes(&devices[2], 0..1), [1]);
    // Without the other one nothing is copied, and nothing taken for right.
    second.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
    let copies = top
        .begin_copies(std::iter::once(0..4096), &targets(&[third]))
        .unwrap();
    let group = group();
    assert!(copies.into_iter().all(|copy| copy.run(&group).is_err()));
}

#[test]
fn a_device_that_cannot_be_read_is_not_needed_where_another_one_is_whole() {
    let devices: Vec<_> = (0..3).map(|_| MemoryDevice::new(SIZE)).collect();
    let top = crate::top::tests::top(&devices);
    put(&top, 0, 3, 4096).wait().unwrap();
    let third = &top.leaves()[2];
    lack(third);
    devices[2].bytes.lock().unwrap()[DATA_START as usize] = 0;
    let bad = DATA_START as usize + 100;
    devices[0].bad_read.store(bad, Ordering::Relaxed);
    copy(&top, 0..4096, &targets(&[third]));
    assert_eq!(bytes(&devices[2], 0..1), [3]);
}

/// A device whose errors were too many.
fn degrade(leaf: &Leaf) {
    leaf.set_condition(Condition::new(VdevState::Degraded, VdevAux::ErrorsExceeded));
}

#[test]
fn a_degraded_device_is_read_only_if_no_other_has_it() {
    let devices: Vec<_> = (0..3).map(|_| MemoryDevice::new(SIZE)).collect();
    let top = crate::top::tests::top(&devices);
    put(&top, 0, 1, 4096).wait().unwrap();
    let [first, second, third] = top.leaves() else {
        panic!("three leaves")
    };
    lack(third);
    degrade(first);
    devices[0].bytes.lock().unwrap()[DATA_START as usize] = 9;
    copy(&top, 0..4096, &targets(&[third]));
    assert_eq!(bytes(&devices[2], 0..1), [1]);
    second.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
    copy(&top, 0..4096, &targets(&[third]));
    assert_eq!(bytes(&devices[2], 0..1), [9]);
}

#[test]
fn who_still_writes_without_the_new_leaf_is_waited_for() {
    let (devices, old) = pair();
    let third = MemoryDevice::new(SIZE);
    let leaves = old.leaves().iter().cloned().chain([leaf(3, &third)]);
    let node = Node::Interior(Interior {
        guid: Guid(99),
        kind: InteriorKind::Mirror,
        children: leaves.map(Node::Leaf).collect(),
    });
    let new = old.regrouped(*old.config(), node);
    let target = targets(&[&new.leaves()[2]]);
    lack(&target[0]);
    assert!(
        new.begin_copies(std::iter::once(0..PIECE), &target)
            .is_none()
    );
    // The other two sides have it, the third one does not know.
    put(&old, 0, 5, 4096).wait().unwrap();
    drop(old);
    copy(&new, 0..PIECE, &target);
    assert_eq!(bytes(&third, 0..4096), bytes(&devices[0], 0..4096));
}

#[test]
fn what_was_copied_and_lost_is_counted() {
    let (devices, top) = pair();
    let behind = &top.leaves()[1];
    put(&top, 0, 1, 4096).wait().unwrap();
    top.flush().unwrap();
    lack(behind);
    copy(&top, 0..PIECE, &targets(&[behind]));
    assert_eq!(behind.lost_copies(), 0);
    devices[1].fail_flush.store(true, Ordering::Relaxed);
    top.flush().unwrap();
    assert!(behind.lost_copies() > 0);
    assert!(!behind.is_writable());
    // Of which txg it is nobody says.
    assert_eq!(behind.missing().bounds(), Some((Txg(1), Txg(100))));
}

#[test]
fn a_range_that_is_given_up_keeps_nobody_waiting() {
    let (_devices, top) = pair();
    let behind = &top.leaves()[1];
    let copies = top.begin_copies([0..PIECE, PIECE..2 * PIECE], &targets(&[behind]));
    drop(copies);
    put(&top, 0, 1, 4096).wait().unwrap();
    assert!(top.copies.is_idle());
}

#[test]
fn writes_of_many_threads_beside_copies_are_on_all_sides() {
    const ROUNDS: u8 = 60;
    let (devices, top) = pair();
    let behind = &top.leaves()[1];
    lack(behind);
    let target = targets(&[behind]);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let top = &top;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let place = thread * (256 << 10) + u64::from(round % 7) * (16 << 10);
                    put(top, place, round * 4 + thread as u8, 24 << 10)
                        .wait()
                        .unwrap();
                }
            });
        }
        for _ in 0..ROUNDS {
            copy(&top, 0..PIECE, &target);
        }
    });
    assert!(bytes(&devices[1], 0..PIECE) == bytes(&devices[0], 0..PIECE));
}

const CHILDREN: usize = 7;
const DRAID_SIZE: usize = 100 << 20;

fn room(number: usize) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(70 + number as u64),
        path: format!("draid2-0-{number}"),
        ashift: 12,
        spare_room: Some(number),
    };
    Leaf::new(config, None)
}

/// A dRAID with a spare in the place of child 2 and another device in that of child 4.
fn draid(devices: &[Arc<MemoryDevice>]) -> Arc<Top> {
    let draid = Draid::new(2, 3, CHILDREN, 2).unwrap();
    let beside = |index: usize, kind, leaf: Arc<Leaf>, other: Arc<Leaf>| {
        Node::Interior(Interior {
            guid: Guid(90 + index as u64),
            kind,
            children: vec![Node::Leaf(leaf), Node::Leaf(other)],
        })
    };
    let child = |index: usize| {
        let own = leaf(index as u64 + 1, &devices[index]);
        match index {
            2 => beside(index, InteriorKind::Spare, own, room(0)),
            4 => {
                let new = leaf(50, &devices[CHILDREN]);
                beside(index, InteriorKind::Replacing, own, new)
            }
            _ => Node::Leaf(own),
        }
    };
    let node = Node::Interior(Interior {
        guid: Guid(99),
        kind: InteriorKind::Draid(draid),
        children: (0..CHILDREN).map(child).collect(),
    });
    let layout = layout::Layout::new(layout::Kind::Draid(draid), 12);
    let config = TopConfig {
        id: VdevId(0),
        guid: Guid(99),
        ashift: 12,
        asize: layout.size(DRAID_SIZE as u64 - format::label::RESERVED),
        is_log: false,
    };
    Top::new(config, node)
}

#[test]
fn a_distributed_spare_and_a_new_device_get_their_columns() {
    let away = Condition::new(VdevState::Offline, VdevAux::None);
    columns_arrive(&|child| child.set_condition(away), &|_, _| {});
}

#[test]
fn a_distributed_spare_gets_nothing_wrong_of_the_device_that_it_stands_in_for() {
    columns_arrive(&|_| {}, &|device, child| {
        device.bytes.lock().unwrap()[DATA_START as usize..].fill(0xdb);
        degrade(child);
    });
}

/// A spare and a new device are filled; before and after the writes something becomes of the device that the spare
/// stands in for.
fn columns_arrive(before: &dyn Fn(&Leaf), after: &dyn Fn(&MemoryDevice, &Leaf)) {
    let devices: Vec<_> = (0..=CHILDREN)
        .map(|_| MemoryDevice::new(DRAID_SIZE))
        .collect();
    let top = draid(&devices);
    let named = |guid: u64| {
        let mut leaves = top.leaves().iter();
        leaves.find(|leaf| leaf.guid() == Guid(guid)).unwrap()
    };
    let (spare, new) = (named(70), named(50));
    // Blocks of many sizes, also over the end of a group, while both lack everything; one device is of no use.
    for leaf in [spare, new] {
        lack(leaf);
    }
    before(named(3));
    let group_bytes = 5 * (16 << 20);
    let mut blocks = Vec::new();
    for (begin, count) in [(0_u64, 40_u64), (group_bytes - (200 << 10), 20)] {
        let mut at = begin / (5 << 12) * (5 << 12);
        for number in 0..count {
            let len = 512 + number as usize * 7919 % (100 << 10);
            let data: Vec<u8> = (0..len)
                .map(|byte| (byte as u64 * 31 + number) as u8)
                .collect();
            blocks.push((at, data));
            at += top.allocated_size(len as u64, Txg(5));
        }
    }
    let group = WriteGroup::new(Txg(5));
    for (at, data) in &blocks {
        let data = Buffer::from_slice(data);
        top.write(*at, data, IoClass::AsyncWrite, &group);
    }
    group.wait().unwrap();
    after(&devices[2], named(3));
    // What was written to both by ordinary writes is gone: only the copy brings it.
    let fresh = &devices[CHILDREN];
    fresh.bytes.lock().unwrap().fill(0);
    let whole = 0..top.asize() / 2;
    let (target, mut copied) = (targets(&[spare, new]), Copied::default());
    let mut at = whole.start;
    while at < whole.end {
        copied += copy(&top, at..at + (3 << 20), &target);
        at += 3 << 20;
    }
    assert!(copied.written > 0 && copied.written < copied.read);
    for leaf in [spare, new] {
        assert!(!leaf.has_left() && leaf.end_rebuild() && leaf.is_whole());
    }
    // Without the two that they stand for, and two others.
    let away = Condition::new(VdevState::Offline, VdevAux::None);
    for guid in [3, 5, 1, 7] {
        named(guid).set_condition(away);
    }
    for (at, data) in &blocks {
        let range = BlockRange {
            offset: *at,
            len: data.len(),
            birth: Txg(5),
        };
        let mut is_it = |found: &[u8]| crate::Verdict::proof(found == data);
        top.read(range, IoClass::SyncRead, &mut is_it).unwrap();
    }
}
