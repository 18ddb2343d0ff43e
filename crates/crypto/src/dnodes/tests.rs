use base::ByteOrder;
use format::ObjectType;
use format::block_pointer::MAC_SIZE;
use format::dnode::{BLOCK_SIZE, DnodeFlags, DnodePhys};
use proptest::prelude::*;

use super::*;

const ORDER: ByteOrder = ByteOrder::NATIVE;

/// A block with an object whose bonus is encrypted, one whose bonus is not, one of two slots, and free slots.
pub(crate) fn block() -> Vec<u8> {
    let mut block = vec![0; BLOCK_SIZE];
    let kinds = [
        (0, ObjectType::SYSTEM_ATTRIBUTES, 1),
        (1, ObjectType::ZNODE, 1),
        (4, ObjectType::SYSTEM_ATTRIBUTES, 2),
    ];
    for (slot, bonus_type, slots) in kinds {
        let mut dnode = DnodePhys::new(ObjectType::PLAIN_FILE, 512, 17, bonus_type, 64, slots);
        dnode.bonus.fill(u8::try_from(slot).unwrap() + 1);
        dnode.encode(&mut block[slot * SLOT_SIZE..]).unwrap();
    }
    block
}

fn parts_of(block: &[u8]) -> Parts {
    parts(block, ORDER, 1).unwrap()
}

#[test]
fn bonuses_of_encrypted_types_are_the_message_and_all_else_is_known() {
    let found = parts_of(&block());
    let slot = |number| number * SLOT_SIZE;
    let first = CORE_SIZE + BLOCK_POINTER_SIZE;
    assert_eq!(
        found.sealed,
        [first..slot(1), slot(4) + first..slot(6)],
        "whole capacities, in order"
    );
    // Of each dnode the core, 32 bytes a pointer and the plain bonuses; of each free slot all.
    let znode = DnodePhys::decode(&block()[slot(1)..]).unwrap();
    let plain = CORE_SIZE + 32 * usize::from(znode.pointer_count) + znode.bonus_capacity();
    let free = BLOCK_SIZE / SLOT_SIZE - 4;
    assert_eq!(
        found.known.len(),
        2 * (CORE_SIZE + 32) + plain + free * SLOT_SIZE
    );
}

#[test]
fn space_counts_and_accounting_flags_are_not_known() {
    let known = parts_of(&block()).known;
    let mut counted = block();
    counted[DnodeCore::AT.used.offset] = 9;
    counted[DnodeCore::AT.flags.offset] |=
        (DnodeFlags::USED_BYTES | DnodeFlags::USER_ACCOUNTED).bits();
    assert_eq!(parts_of(&counted).known, known);
    let mut grown = block();
    grown[DnodeCore::AT.max_block_id.offset] = 9;
    assert_ne!(parts_of(&grown).known, known);
}

#[test]
fn only_the_message_is_opened() {
    let mut opened = block();
    parts_of(&block())
        .change(&mut opened, |_, message| {
            message.iter_mut().for_each(|byte| *byte ^= 0xff);
            Ok(())
        })
        .unwrap();
    let expected = parts_of(&block());
    for (at, (before, after)) in block().iter().zip(&opened).enumerate() {
        let is_sealed = expected.sealed.iter().any(|range| range.contains(&at));
        assert_eq!(before != after, is_sealed, "byte {at}");
    }
}

#[test]
fn a_block_that_is_none_is_an_error() {
    assert!(parts(&[0; 513], ORDER, 1).is_err());
    let mut cut = block();
    let last = BLOCK_SIZE - SLOT_SIZE;
    cut[last] = 19;
    cut[last + DnodeCore::AT.extra_slots.offset] = 1;
    assert!(parts(&cut, ORDER, 1).is_err());
    let mut full = block();
    full[DnodeCore::AT.pointer_count.offset] = 4;
    assert!(parts(&full, ORDER, 1).is_err());
    assert_eq!(MAC_SIZE, 16);
}

proptest! {
    #[test]
    fn any_bytes(block in prop::collection::vec(any::<u8>(), 0..4 * SLOT_SIZE), version in 0_u64..2) {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            if let Ok(parts) = parts(&block, order, version) {
                let mut copy = block.clone();
                parts.change(&mut copy, |_, _| Ok(())).unwrap();
                prop_assert_eq!(&copy, &block);
            }
        }
    }
}
