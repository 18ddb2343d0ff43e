use base::ByteOrder;
use format::block_pointer::{BlockPointer, Protection};
use format::object_set::ObjectSetAreas;

use super::*;
use crate::keys::tests::keys;

/// A pointer that says what a seal says.
fn pointer(kind: ObjectType, size: usize, seal: &BlockSeal) -> BlockPointer {
    let size = size as u64;
    let mut pointer = BlockPointer::for_block(kind, 0, size, size);
    pointer.words[..2].fill(1);
    pointer.set_fill(7);
    pointer.set_encrypted();
    pointer.set_mac(seal.mac.unwrap_or_default());
    if let Some(mark) = seal.mark {
        pointer.set_salt_and_iv(mark.salt, mark.iv);
    }
    pointer
}

#[test]
fn every_suite_opens_what_it_sealed() {
    for suite in 3..=8 {
        let keys = keys(suite);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut data = vec![0x33; 4096];
            let seal = keys.seal(ObjectType::PLAIN_FILE, &mut data).unwrap();
            assert_ne!(data, [0x33; 4096]);
            let mut block = pointer(ObjectType::PLAIN_FILE, data.len(), &seal);
            block.set_byte_order(order);
            block.set_mac(seal.mac.unwrap());
            let mark = seal.mark.unwrap();
            block.set_salt_and_iv(mark.salt, mark.iv);
            assert_eq!(
                (block.salt(), block.iv(), block.fill()),
                (mark.salt, mark.iv, 7)
            );
            assert_eq!(block.protection(), Protection::Encrypted);
            keys.open(&block, &mut data).unwrap();
            assert_eq!(data, [0x33; 4096]);
        }
    }
}

#[test]
fn only_the_same_bytes_are_sealed_again() {
    for suite in 3..=8 {
        let keys = keys(suite);
        let mut data = vec![0x33; 4096];
        let seal = keys.seal(ObjectType::PLAIN_FILE, &mut data).unwrap();
        let block = pointer(ObjectType::PLAIN_FILE, data.len(), &seal);
        let mut again = vec![0x33; 4096];
        keys.seal_again(&block, &mut again).unwrap();
        assert_eq!(again, data);
        let mut other = vec![0x33; 4096];
        other[4000] = 0x34;
        keys.seal_again(&block, &mut other).unwrap_err();
        assert_eq!(other, [0; 4096], "nobody can store it");
    }
}

#[test]
fn dnodes_are_as_they_were_after_a_round() {
    let keys = keys(8);
    let plain = crate::dnodes::tests::block();
    let mut data = plain.clone();
    let seal = keys.seal(ObjectType::DNODE, &mut data).unwrap();
    assert_ne!(data, plain);
    let block = pointer(ObjectType::DNODE, data.len(), &seal);
    keys.open(&block, &mut data).unwrap();
    assert_eq!(data, plain);
}

#[test]
fn a_salt_serves_so_often_and_then_another_is_drawn() {
    let keys = keys(8);
    let first = keys.new_mark().unwrap();
    assert_eq!(keys.new_mark().unwrap().salt, first.salt);
    keys.sealing.lock().as_mut().unwrap().left = 1;
    assert_eq!(keys.new_mark().unwrap().salt, first.salt);
    let next = keys.new_mark().unwrap();
    assert_ne!(next.salt, first.salt);
    assert_eq!(keys.new_mark().unwrap().salt, next.salt);
}

#[test]
fn keys_that_are_loaded_again_begin_with_another_salt() {
    assert_ne!(
        keys(8).new_mark().unwrap().salt,
        keys(8).new_mark().unwrap().salt
    );
}

#[test]
fn roots_are_proven_by_what_was_put_into_them() {
    let keys = keys(8);
    let mut root = vec![0; 4096];
    root[ObjectSetAreas::AT.kind.offset] = 2;
    let seal = keys.seal_root(&mut root).unwrap();
    let block = pointer(ObjectType::OBJECT_SET, root.len(), &seal);
    keys.prove(&block, &root).unwrap();
    root[ObjectSetAreas::AT.kind.offset] = 3;
    assert!(keys.prove(&block, &root).is_err());
}
