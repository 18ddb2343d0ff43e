//! Blocks with parity.

use super::*;
use itertools::Itertools;
use layout::RaidZ;

const ASHIFT: u32 = 12;

fn raidz_node(parity: u64, nodes: Vec<Node>) -> Node {
    let raidz = RaidZ::new(parity, nodes.len()).unwrap();
    Node::Interior(Interior {
        guid: Guid(99),
        kind: InteriorKind::RaidZ(raidz),
        children: nodes,
    })
}

pub(super) fn top_of(node: Node, width: u64) -> Arc<Top> {
    let config = TopConfig {
        id: VdevId(0),
        guid: Guid(99),
        ashift: ASHIFT,
        asize: (width * 60) << 20,
        is_log: false,
    };
    Top::new(config, node)
}

fn raidz(parity: u64, width: usize) -> (Vec<Arc<MemoryDevice>>, Arc<Top>) {
    let devices: Vec<_> = (0..width).map(|_| MemoryDevice::new(SIZE)).collect();
    let leaves = devices.iter().zip(1..).map(|(d, i)| Node::Leaf(leaf(i, d)));
    let top = top_of(raidz_node(parity, leaves.collect()), width as u64);
    (devices, top)
}

/// Bytes of which no two sectors are alike.
pub(super) fn block(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| byte()).collect()
}

pub(super) fn write(top: &Top, offset: u64, bytes: &[u8]) -> Result<(), VdevError> {
    let group = WriteGroup::new(Txg(5));
    top.write(
        offset,
        Buffer::from_slice(bytes),
        IoClass::AsyncWrite,
        &group,
    );
    group.wait()
}

pub(super) fn equals(bytes: &[u8]) -> impl FnMut(&[u8]) -> Verdict {
    move |read| Verdict::proof(read == bytes)
}

pub(super) fn read(top: &Top, offset: u64, bytes: &[u8]) -> Result<ReadOutcome, VdevError> {
    let range = range(offset, bytes.len());
    top.read(range, IoClass::SyncRead, &mut equals(bytes))
}

pub(super) fn set_away(top: &Top, leaf: usize, is_away: bool) {
    let condition = if is_away {
        Condition::new(VdevState::Offline, VdevAux::None)
    } else {
        Condition::HEALTHY
    };
    top.leaves()[leaf].set_condition(condition);
}

fn columns(top: &Top, offset: u64, len: usize) -> Vec<layout::Column> {
    top.placement(offset, len, Txg(5)).columns().to_vec()
}

/// Spoils what a child has of a block; answers in how many pieces that lay.
pub(super) fn spoil(
    top: &Top,
    devices: &[Arc<MemoryDevice>],
    (offset, len): (u64, usize),
    child: usize,
) -> usize {
    let placement = top.placement(offset, len, Txg(5));
    let pieces = placement.pieces().iter();
    let pieces: Vec<_> = pieces.filter(|piece| piece.child == child).collect();
    for piece in &pieces {
        let at = place_of(piece) as usize;
        let mut bytes = devices[child].bytes.lock().unwrap();
        bytes[at..at + piece.len as usize]
            .iter_mut()
            .for_each(|byte| *byte ^= 0x5c);
    }
    pieces.len()
}

/// Blocks one after the other: of one sector, of a part of a row, of whole rows and a bit.
fn blocks(top: &Top) -> Vec<(u64, Vec<u8>)> {
    let mut offset = (1 << 20) - 8192;
    let mut next = |(index, len): (usize, usize)| {
        let place = offset;
        offset += top.layout().asize(len as u64, Txg(5));
        (place, block(len, index as u64))
    };
    let lens = [512, 4096, 9000, 65536, 131_072, 70_000];
    lens.into_iter().enumerate().map(&mut next).collect()
}

#[test]
fn a_block_is_read_without_any_children_that_parity_stands_for() {
    for (parity, width) in [(1, 3), (1, 4), (2, 5), (3, 6)] {
        let (_devices, top) = raidz(parity, width);
        let blocks = blocks(&top);
        for (offset, bytes) in &blocks {
            write(&top, *offset, bytes).unwrap();
        }
        for away in (0..=parity as usize).flat_map(|count| (0..width).combinations(count)) {
            away.iter().for_each(|leaf| set_away(&top, *leaf, true));
            for (offset, bytes) in &blocks {
                let outcome = read(&top, *offset, bytes).unwrap();
                assert!(outcome.lacking.is_empty() && outcome.failures.is_empty());
            }
            away.iter().for_each(|leaf| set_away(&top, *leaf, false));
        }
        let too_many = 0..=parity as usize;
        too_many.clone().for_each(|leaf| set_away(&top, leaf, true));
        let (offset, bytes) = &blocks[4];
        let error = read(&top, *offset, bytes).unwrap_err();
        assert!(!error.is_checksum(), "{error}");
        assert_eq!(top.condition().state, VdevState::CantOpen);
        too_many.for_each(|leaf| set_away(&top, leaf, false));
    }
}

#[test]
fn devices_that_lie_are_found_out_and_repaired() {
    for (parity, width) in [(1, 4), (2, 5), (3, 6)] {
        let (devices, top) = raidz(parity, width);
        for (offset, bytes) in &blocks(&top) {
            write(&top, *offset, bytes).unwrap();
            for liars in (1..=parity as usize).flat_map(|count| (0..width).combinations(count)) {
                let place = (*offset, bytes.len());
                let spoilt = liars
                    .iter()
                    .filter(|child| spoil(&top, &devices, place, **child) > 0);
                let spoilt: Vec<_> = spoilt.map(|child| Guid(*child as u64 + 1)).collect();
                let mut accept = equals(bytes);
                let outcome = top
                    .scrub(range(*offset, bytes.len()), true, &mut accept)
                    .unwrap();
                let named = outcome.failures.iter().map(|failure| {
                    assert_eq!(failure.failure, Failure::Checksum);
                    failure.leaf
                });
                assert_eq!(named.sorted().collect::<Vec<_>>(), spoilt, "{liars:?}");
                assert_eq!(outcome.repaired.healed, spoilt.len());
                assert_eq!(outcome.repaired.unrepaired, 0);
                let again = top
                    .scrub(range(*offset, bytes.len()), true, &mut accept)
                    .unwrap();
                assert!(again.failures.is_empty() && again.data.is_some());
            }
        }
    }
}

#[test]
fn a_read_believes_the_checksum_and_names_who_had_something_else() {
    let (devices, top) = raidz(2, 6);
    let bytes = block(131_072, 3);
    write(&top, 8192, &bytes).unwrap();
    let place = (8192, bytes.len());
    // One of parity, one of data: what is not needed is not looked at.
    let columns = columns(&top, 8192, 131_072);
    let (parity, data) = (columns[0].child, columns[3].child);
    spoil(&top, &devices, place, parity);
    let outcome = read(&top, 8192, &bytes).unwrap();
    assert!(outcome.failures.is_empty());
    spoil(&top, &devices, place, data);
    let outcome = read(&top, 8192, &bytes).unwrap();
    let guids = [parity, data].map(|child| Guid(child as u64 + 1));
    let lacking = outcome.lacking.iter().map(|leaf| leaf.guid());
    assert_eq!(lacking.collect::<Vec<_>>(), guids);
    top.blame(&outcome.failures, Txg(7));
    let counted = top.leaves().iter().map(|leaf| leaf.errors().checksum);
    assert_eq!(counted.sum::<u64>(), 2);
    assert_eq!(
        top.repair_read(&outcome, range(8192, bytes.len())).healed,
        2
    );
    assert!(read(&top, 8192, &bytes).unwrap().failures.is_empty());
}

#[test]
fn more_liars_than_parity_are_an_error_of_all_and_nothing_is_written() {
    let (devices, top) = raidz(1, 4);
    let bytes = block(65536, 9);
    write(&top, 0, &bytes).unwrap();
    let place = (0, bytes.len());
    let spoilt = (0..4).filter(|child| spoil(&top, &devices, place, *child) > 0);
    assert_eq!(spoilt.take(2).count(), 2);
    let before: Vec<_> = devices
        .iter()
        .map(|d| d.writes.load(Ordering::Relaxed))
        .collect();
    let error = read(&top, 0, &bytes).unwrap_err();
    assert!(error.is_checksum(), "{error}");
    let outcome = top
        .scrub(range(0, bytes.len()), true, &mut equals(&bytes))
        .unwrap();
    assert!(outcome.data.is_none());
    let after: Vec<_> = devices
        .iter()
        .map(|d| d.writes.load(Ordering::Relaxed))
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_device_that_cannot_read_a_column_gets_it_again() {
    let (devices, top) = raidz(1, 3);
    let bytes = block(32768, 4);
    write(&top, 4096 * 7, &bytes).unwrap();
    let columns = columns(&top, 4096 * 7, 32768);
    let at = (DATA_START + columns[1].offset) as usize;
    devices[columns[1].child]
        .bad_read
        .store(at, Ordering::Relaxed);
    let outcome = read(&top, 4096 * 7, &bytes).unwrap();
    assert_eq!(outcome.lacking.len(), 1);
    assert!(matches!(outcome.failures[0].failure, Failure::Device(_)));
    let repaired = top.repair_read(&outcome, range(4096 * 7, bytes.len()));
    assert_eq!(repaired.healed, 1);
}

#[test]
fn a_write_that_parity_can_do_without_is_missed_by_those_that_failed() {
    let (devices, top) = raidz(2, 5);
    let bytes = block(131_072, 5);
    for device in &devices[..2] {
        device.fail_writes.store(true, Ordering::Relaxed);
    }
    write(&top, 0, &bytes).unwrap();
    let missed = top.leaves().iter().map(|leaf| leaf.misses(Txg(5)));
    assert_eq!(
        missed.collect::<Vec<_>>(),
        [true, true, false, false, false]
    );
    assert!(read(&top, 0, &bytes).unwrap().failures.is_empty());
    // They come back: a resilver gives them what they missed.
    for device in &devices[..2] {
        device.fail_writes.store(false, Ordering::Relaxed);
    }
    for leaf in &top.leaves()[..2] {
        leaf.set_condition(Condition::HEALTHY);
        leaf.begin_resilver();
    }
    let outcome = top
        .scrub(range(0, bytes.len()), true, &mut equals(&bytes))
        .unwrap();
    assert_eq!(
        (outcome.repaired.healed, outcome.repaired.unrepaired),
        (2, 0)
    );
    for leaf in &top.leaves()[..2] {
        assert!(leaf.end_resilver() && leaf.missing().is_empty());
        assert_eq!(leaf.errors().checksum, 0);
    }
    (2..4).for_each(|leaf| set_away(&top, leaf, true));
    read(&top, 0, &bytes).unwrap();
}

#[test]
fn a_write_of_which_too_much_failed_is_kept_and_written_again() {
    let (devices, top) = raidz(1, 4);
    let bytes = block(65536, 6);
    for device in &devices[..2] {
        device.fail_writes.store(true, Ordering::Relaxed);
    }
    let group = WriteGroup::new(Txg(5));
    top.write(0, Buffer::from_slice(&bytes), IoClass::AsyncWrite, &group);
    assert!(matches!(group.wait(), Err(VdevError::WriteFailed { .. })));
    // What was accepted is read meanwhile, and nobody has missed it.
    read(&top, 0, &bytes).unwrap();
    assert!(top.leaves().iter().all(|leaf| leaf.missing().is_empty()));
    for (device, leaf) in devices.iter().zip(top.leaves()) {
        device.fail_writes.store(false, Ordering::Relaxed);
        leaf.clear().unwrap();
    }
    let tree = crate::VdevTree::new(vec![Some(Arc::clone(&top))]);
    group.write_again(&tree);
    group.wait().unwrap();
    assert!(!top.kept.any());
    set_away(&top, 3, true);
    read(&top, 0, &bytes).unwrap();
}

#[test]
fn without_a_checksum_what_a_child_missed_is_computed_and_not_believed() {
    let (_devices, top) = raidz(1, 3);
    let (old, new) = (block(16384, 7), block(16384, 8));
    write(&top, 0, &old).unwrap();
    set_away(&top, 2, true);
    write(&top, 0, &new).unwrap();
    set_away(&top, 2, false);
    assert!(top.leaves()[2].misses(Txg(5)));
    let read = || top.read(range(0, 16384), IoClass::SyncRead, &mut anything);
    assert!(*read().unwrap().data == *new);
    // Without another one nobody knows.
    set_away(&top, 0, true);
    read().unwrap_err();
    set_away(&top, 0, false);
    let outcome = top.scrub(range(0, 16384), true, &mut anything).unwrap();
    assert!(*outcome.data.unwrap() == *new);
    assert_eq!(outcome.repaired.healed, 1);
}

#[test]
fn flushes_and_writes_count_children_not_leaves() {
    let devices: Vec<_> = (0..4).map(|_| MemoryDevice::new(SIZE)).collect();
    let mut leaves = devices.iter().zip(1..).map(|(d, i)| Node::Leaf(leaf(i, d)));
    let replacing = Node::Interior(Interior {
        guid: Guid(50),
        kind: InteriorKind::Replacing,
        children: leaves.by_ref().take(2).collect(),
    });
    let node = raidz_node(1, [replacing].into_iter().chain(leaves).collect());
    let top = top_of(node, 3);
    let bytes = block(65536, 10);
    // Both that stand for one child, or one of them and no other child.
    for failing in [&[0, 1][..], &[1], &[0], &[2]] {
        failing
            .iter()
            .for_each(|i| devices[*i].fail_flush.store(true, Ordering::Relaxed));
        write(&top, 0, &bytes).unwrap();
        top.flush().unwrap();
        read(&top, 0, &bytes).unwrap();
        for leaf in failing {
            devices[*leaf].fail_flush.store(false, Ordering::Relaxed);
            assert_eq!(top.leaves()[*leaf].condition().state, VdevState::Faulted);
            top.leaves()[*leaf].clear().unwrap();
            top.leaves()[*leaf].set_missing(crate::TxgRanges::new());
        }
    }
    // One of those that stand for the first child, and another child: parity stands for that.
    for leaf in [1, 2] {
        devices[leaf].fail_flush.store(true, Ordering::Relaxed);
    }
    write(&top, 0, &bytes).unwrap();
    top.flush().unwrap();
    assert_eq!(top.condition().state, VdevState::Degraded);
    read(&top, 0, &bytes).unwrap();
    // Two children are too many.
    devices[3].fail_flush.store(true, Ordering::Relaxed);
    write(&top, 0, &bytes).unwrap();
    assert!(matches!(top.flush(), Err(VdevError::FlushFailed { .. })));
}

#[test]
fn what_a_child_gives_back_belongs_to_the_range_alone() {
    let (_devices, top) = raidz(1, 3);
    let leaf = &top.leaves()[1];
    // Sectors 5 to 9 of the vdev are the child's 2 (of 7).
    top.discard(leaf, 5 << 12..9 << 12).unwrap();
    let beyond = top.discard(leaf, 0..(3 * 61) << 20).unwrap_err();
    assert!(matches!(
        beyond,
        VdevError::Device(DeviceError::OutOfRange { .. })
    ));
}

#[test]
fn what_lies_outside_of_the_vdev_is_left_behind_by_nobody() {
    let (_devices, top) = raidz(1, 3);
    for offset in [4 * SIZE as u64, u64::MAX - 511, u64::MAX] {
        top.leave_range_behind(range(offset, 16384));
    }
}
