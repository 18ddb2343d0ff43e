use base::{ByteOrder, Txg};

use super::*;
use crate::ObjectType;

#[test]
fn shorter_bonuses_read_as_zeros_behind() {
    let full = BpobjPhys {
        pointer_count: 1,
        bytes: 2,
        compressed: 3,
        uncompressed: 4,
        subobjects: ObjectId(5),
        subobject_count: 6,
        freed_count: 7,
    };
    let bytes = full.to_bytes(ByteOrder::Little);
    let short = BpobjPhys::decode_padded(&bytes[..BpobjPhys::SIZE_V1], ByteOrder::Little);
    assert_eq!(short.uncompressed, 4);
    assert_eq!(short.subobject_count, 0);
    assert_eq!(BpobjPhys::decode(&bytes, ByteOrder::Little).unwrap(), full);
    let mut out = [0; BpobjPhys::SIZE_V2];
    full.encode(&mut out, ByteOrder::Little);
    assert_eq!(out, bytes[..48]);
}

#[test]
fn a_stored_pointer_loses_fill_and_checksum() {
    let mut pointer = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 131_072, 4096);
    pointer.words[10] = 44;
    pointer.words[11] = 1;
    pointer.words[12] = 99;
    let stored = stored_pointer(&pointer, false);
    assert_eq!(
        (stored.words[10], stored.words[11], stored.words[12]),
        (44, 0, 0)
    );
    assert!(!is_freed(&stored));
    assert!(is_freed(&stored_pointer(&pointer, true)));
    let embedded = BlockPointer::embedded(
        ObjectType::PLAIN_FILE,
        512,
        codec::Compression::Lz4,
        Txg(7),
        &[0xFF; 100],
    )
    .unwrap();
    let stored = stored_pointer(&embedded, true);
    assert!(stored.is_embedded() && !is_freed(&stored));
    assert_eq!(stored.words.iter().filter(|word| **word != 0).count(), 2);
}
