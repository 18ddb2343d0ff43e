use format::block_pointer::BlockPointer;
use format::intent_log::{CloneRangeFields, WriteFields, encode_record, kind};
use proptest::prelude::*;

use super::*;
use crate::keys::tests::keys;

const ORDER: ByteOrder = ByteOrder::NATIVE;

/// A block with a write, a clone and a rename, and how much of it they fill.
fn block() -> (Vec<u8>, usize) {
    let mut block = vec![0; ChainElement::SIZE];
    block[LOG_CHAIN].fill(1);
    let write = WriteFields {
        object: base::ObjectId(5),
        offset: 8,
        length: 16,
        pointer: BlockPointer::HOLE,
    };
    let clone = [&[0; 32][..], &[6; 32], &1_u64.to_ne_bytes(), &[7; 128]].concat();
    let rename = [&[0; 32][..], &[3; 16]].concat();
    block.extend(encode_record(
        kind::WRITE,
        &write.to_bytes(ORDER),
        &[&[2; 16]],
    ));
    block.extend(encode_record(kind::CLONE_RANGE, &clone, &[]));
    block.extend(encode_record(kind::RENAME, &rename, &[b"from\0to\0"]));
    let used = block.len();
    block.resize(4096, 0);
    (block, used)
}

#[test]
fn what_a_claim_needs_is_plain() {
    let (plain, used) = block();
    let keys = keys(8);
    let mut sealed = plain.clone();
    let mark = keys.new_mark().unwrap();
    let mac = keys.seal_log(&mark, &mut sealed, used).unwrap();
    let write = ChainElement::SIZE;
    let clone = write + WriteFields::SIZE + 16;
    let rename = clone + CloneRangeFields::SIZE + 128;
    let differ = |range: std::ops::Range<usize>| plain[range.clone()] != sealed[range];
    assert!(!differ(0..write + 32));
    assert!(differ(write + 32..write + 64) && differ(write + 192..clone));
    assert!(!differ(write + 64..write + 192));
    assert!(differ(clone + 32..clone + 64) && !differ(clone + 64..rename));
    assert!(!differ(rename..rename + 32) && differ(rename + 32..used));
    assert!(!differ(used..4096));
    keys.open_log((&mark, &mac), &mut sealed, (used, ORDER))
        .unwrap();
    assert_eq!(sealed, plain);
}

proptest! {
    #[test]
    fn a_changed_bit_is_found(at in 0_usize..1024, bit in 0_u8..8) {
        let (plain, used) = block();
        let keys = keys(8);
        let mut sealed = plain;
        let mark = keys.new_mark().unwrap();
        let mac = keys.seal_log(&mark, &mut sealed, used).unwrap();
        // Magic and checksum are proven by the checksum; behind the records are zeros.
        let at = at % used;
        prop_assume!(!(LOG_CHAIN.end..ChainElement::SIZE).contains(&at));
        sealed[at] ^= 1 << bit;
        prop_assert!(keys.open_log((&mark, &mac), &mut sealed, (used, ORDER)).is_err());
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..600), used in 0_usize..700) {
        let _ = parts(&bytes, used, ORDER);
    }
}
