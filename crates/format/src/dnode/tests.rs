use super::*;
use crate::object_type::SwapClass;
use proptest::prelude::*;

fn sample(slots: u8, spill: bool) -> DnodePhys {
    let mut dnode = DnodePhys::new(
        ObjectType::PLAIN_FILE,
        131_072,
        17,
        ObjectType::SYSTEM_ATTRIBUTES,
        168,
        slots,
    );
    dnode.max_block_id = 7;
    dnode.used = 12345;
    dnode.flags.set(DnodeFlags::USED_BYTES, true);
    dnode.pointers[0].words[3] = 0x0102_0304_0506_0708;
    if spill {
        dnode.spill = Some(BlockPointer { words: [9; 16] });
        dnode.flags.set(DnodeFlags::SPILL, true);
        dnode.bonus.truncate(dnode.bonus_capacity());
    }
    for (index, byte) in dnode.bonus.iter_mut().enumerate() {
        *byte = index as u8;
    }
    dnode
}

fn swap(block: &mut [u8]) {
    crate::swap::class(SwapClass::Dnode, block);
}

#[test]
fn round_trips_with_and_without_spill_and_extra_slots() {
    for (slots, spill) in [(1, false), (1, true), (2, false), (32, true)] {
        let dnode = sample(slots, spill);
        let mut bytes = vec![0xEE; dnode.size() + 512];
        dnode.encode(&mut bytes).unwrap();
        assert_eq!(DnodePhys::decode(&bytes).unwrap(), dnode);
        assert_eq!(bytes[dnode.size()], 0xEE);
    }
}

#[test]
fn a_new_dnode_has_the_pointers_that_its_bonus_leaves_room_for() {
    let count = |kind, len| pointer_count_for(1, ObjectType(kind), len);
    assert_eq!(count(0, 0), 3);
    assert_eq!(count(12, 256), 1);
    assert_eq!(count(16, 320), 1);
    assert_eq!(count(6, 48), 3);
    assert_eq!(count(44, 168), 1);
    assert_eq!(sample(1, false).bonus_capacity(), 320);
    assert_eq!(sample(1, true).bonus_capacity(), 192);
}

#[test]
fn swapping_twice_is_the_identity() {
    let mut block = vec![0; BLOCK_SIZE];
    let mut dnode = sample(2, true);
    dnode.bonus_type = ObjectType::DSL_DATASET;
    dnode.encode(&mut block[512..]).unwrap();
    sample(1, false).encode(&mut block[512 * 5..]).unwrap();
    let before = block.clone();
    swap(&mut block);
    assert_ne!(block, before);
    // The pointer count and flags are bytes, but the bonus length is not: swap back by hand order.
    let mut again = block.clone();
    swap(&mut again);
    assert_eq!(again, before);
}

#[test]
fn slots_are_walked_without_interiors() {
    let mut block = vec![0; BLOCK_SIZE];
    sample(3, false).encode(&mut block[512..]).unwrap();
    let found: Vec<_> = slots(&block).take(3).collect();
    assert_eq!(
        found,
        [
            (0, Slot::Free),
            (1, Slot::Allocated { slots: 3 }),
            (4, Slot::Free)
        ]
    );
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let _ = DnodePhys::decode(&bytes);
        let _ = slots(&bytes).count();
        swap(&mut bytes);
    }

    #[test]
    fn what_decodes_encodes_to_the_same(
        seed in proptest::collection::vec(any::<u8>(), 512),
        pointers in 1u8..=3,
        flags in 0u8..16,
    ) {
        let mut bytes = seed;
        bytes[0] = 19;
        bytes[1] = 17;
        bytes[2] = 1;
        bytes[3] = pointers;
        bytes[4] = 44;
        bytes[7] = flags & !4;
        bytes[8..10].copy_from_slice(&256u16.to_ne_bytes());
        bytes[10..12].copy_from_slice(&0u16.to_ne_bytes());
        bytes[12] = 0;
        let dnode = DnodePhys::decode(&bytes).unwrap();
        let mut out = vec![0; 512];
        dnode.encode(&mut out).unwrap();
        prop_assert_eq!(DnodePhys::decode(&out).unwrap(), dnode);
    }
}
