use super::*;
use crate::block_pointer::BlockPointer;

#[test]
fn labels_lie_at_both_ends() {
    let size = (256 << 20) + 1000;
    assert_eq!(offset(size, 0), Some(0));
    assert_eq!(offset(size, 1), Some(SIZE));
    assert_eq!(offset(size, 2), Some((256 << 20) - 2 * SIZE));
    assert_eq!(offset(size, 3), Some((256 << 20) - SIZE));
    assert_eq!(offset(size, 4), None);
    assert_eq!(offset(1 << 20, 0), None);
    assert_eq!(leaf_asize(268_435_456), 263_716_864);
    assert_eq!(leaf_asize(7), 0);
}

#[test]
fn slots_follow_the_sector_size() {
    assert_eq!(
        (slot_count(9), slot_count(12), slot_count(16)),
        (128, 32, 16)
    );
    assert_eq!(slot_of(Txg(130), 9, false), 2);
    assert_eq!(slot_of(Txg(127), 9, true), 0);
    assert_eq!(slot_offset(2, 12), RING_OFFSET + 8192);
}

#[test]
fn a_configuration_verifies_only_at_its_own_place() {
    let mut config = NvList::new();
    config.set("name", "tank").set("txg", 4_u64);
    let piece = encode_config(&config, 16_384).unwrap();
    assert_eq!(piece.len(), CONFIG_SIZE);
    assert_eq!(decode_config(&piece, 16_384).unwrap(), config);
    assert!(decode_config(&piece, 16_384 + SIZE).is_err());
    config.set("comment", "x".repeat(CONFIG_SIZE));
    assert!(encode_config(&config, 0).is_err());
}

#[test]
fn a_blank_ring_holds_no_uberblock() {
    let uberblock = Uberblock::new(5000, Txg(9), 1, 2, BlockPointer::HOLE);
    for ashift in [9, 12, 16] {
        let ring = blank_ring(&uberblock, RING_OFFSET);
        let size = 1 << slot_shift(ashift);
        for (index, slot) in ring.chunks(size).enumerate() {
            let at = RING_OFFSET + (index * size) as u64;
            assert!(decode_uberblock(slot, at).is_err());
        }
        let slot = encode_uberblock(&uberblock, ashift, 555);
        assert_eq!(decode_uberblock(&slot, 555).unwrap(), uberblock);
    }
}
