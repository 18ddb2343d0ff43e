//! Pieces cover the range, none costs more than it may, and what was freed piece by piece is gone.

use format::{ObjectSetKind, ObjectType};

use crate::object_set::AllocateObject;
use crate::testing::Harness;

const SIZE: u64 = 512;

/// An object with data in some of its blocks: of 4 KiB indirect blocks each holds 32 pointers.
fn filled(
    harness: &mut Harness,
    blocks: impl Iterator<Item = u64>,
) -> std::sync::Arc<crate::Object> {
    let tx = harness.tx();
    let shape = AllocateObject {
        object_type: ObjectType::OTN_U8_DATA,
        block_size: SIZE as u32,
        indirect_shift: 12,
        ..AllocateObject::default()
    };
    let object = harness.set.allocate(&tx, &shape).unwrap();
    for block in blocks {
        object
            .write(&tx, block * SIZE, &[1; SIZE as usize])
            .unwrap();
    }
    object
}

/// Frees `from..to` (in blocks) piece by piece.
fn free(
    harness: &mut Harness,
    object: &std::sync::Arc<crate::Object>,
    (from, to): (u64, u64),
    limit: u64,
) {
    let mut end = to * SIZE;
    let mut pieces = 0;
    while end > from * SIZE {
        let piece = object.last_free_piece(from * SIZE, end, limit);
        assert!(
            piece.offset < end && piece.offset >= from * SIZE,
            "{piece:?}"
        );
        assert!(
            piece.cost_blocks <= limit.max(super::INDIRECT_COST),
            "{piece:?}"
        );
        let tx = harness.tx();
        object
            .free_range(&tx, piece.offset, end - piece.offset)
            .unwrap();
        end = piece.offset;
        pieces += 1;
        if pieces % 40 == 0 {
            harness.sync();
        }
    }
    harness.sync();
}

#[test]
fn pieces_cover_a_range_and_cost_what_they_may() {
    for limit in [1, 40, 100, 5000] {
        for (from, to) in [(0, 300), (7, 201), (100, 101), (299, 300)] {
            let mut harness = Harness::new(ObjectSetKind::Other);
            let object = filled(&mut harness, 0..300);
            harness.sync();
            free(&mut harness, &object, (from, to), limit);
            for block in [0, 6, 7, 99, 100, 101, 199, 200, 201, 299] {
                let mut byte = [0];
                object.read(block * SIZE, &mut byte).unwrap();
                let is_freed = (from..to).contains(&block);
                assert_eq!(byte[0] == 0, is_freed, "block {block} of {from}..{to}");
            }
        }
    }
}

#[test]
fn holes_cost_nothing_and_reading_costs_something() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    // One block under each lowest indirect block, a thousand of them.
    let object = filled(&mut harness, (0..1000).map(|index| index * 32));
    harness.sync();
    let whole = object.last_free_piece(0, u64::MAX, 1 << 20);
    assert_eq!(
        (whole.offset, whole.cost_blocks),
        (0, 1000 * (super::INDIRECT_COST + 1))
    );
    let some = object.last_free_piece(0, u64::MAX, 100 * (super::INDIRECT_COST + 1));
    assert_eq!(some.offset, 900 * 32 * SIZE);
    // Nothing is left above: the next piece is as long.
    let end = object.last_free_piece(0, some.offset, 100 * (super::INDIRECT_COST + 1));
    assert_eq!(end.offset, 800 * 32 * SIZE);
}

#[test]
fn what_is_not_synced_counts_as_well() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = filled(&mut harness, 0..1);
    harness.sync();
    let tx = harness.tx();
    object.write(&tx, SIZE, &[1; 99 * SIZE as usize]).unwrap();
    let piece = object.last_free_piece(0, u64::MAX, 10);
    assert_eq!(piece.offset, 90 * SIZE);
    assert!(object.free_cost_blocks() >= 100);
}
