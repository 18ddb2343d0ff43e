use format::ObjectType;
use format::block_pointer::{BlockPointer, IV_SIZE};
use proptest::prelude::*;

use super::*;
use crate::suite::Mode;

const SALT: [u8; SALT_SIZE] = *b"saltsalt";
const IV: [u8; IV_SIZE] = *b"vectorvector";

pub(crate) fn keys(suite: u64) -> DatasetKeys {
    let suite = Suite::from_number(suite).unwrap();
    DatasetKeys::new(
        suite,
        1,
        &[7; MASTER_SIZE][..suite.key_size],
        &[8; HMAC_SIZE],
    )
    .unwrap()
}

/// A pointer to a block of a kind, with salt, vector and code.
fn pointer(kind: ObjectType, level: u8, size: usize, mac: [u8; MAC_SIZE]) -> BlockPointer {
    let size = size as u64;
    let mut pointer = BlockPointer::for_block(kind, level, size, size);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    pointer.set_byte_order(base::ByteOrder::Little);
    // The crypt bit.
    pointer.words[6] |= 1 << 61;
    pointer.words[0] = 1;
    pointer.words[1] = 1;
    pointer.words[4] = word(&SALT);
    pointer.words[5] = word(&IV[..8]);
    pointer.words[11] = u64::from(u32::from_le_bytes(IV[8..].try_into().unwrap())) << 32;
    pointer.words[14] = word(&mac[..8]);
    pointer.words[15] = word(&mac[8..]);
    pointer
}

fn sealed(keys: &DatasetKeys, plain: &[u8]) -> (BlockPointer, Vec<u8>) {
    let mut stored = plain.to_vec();
    let cipher = keys.block_key(SALT).unwrap();
    let mac = cipher.seal(&IV, &[], &mut stored).unwrap();
    let pointer = pointer(ObjectType::PLAIN_FILE, 0, plain.len(), mac);
    (pointer, stored)
}

#[test]
fn pointers_return_salt_vector_and_code() {
    let mac = std::array::from_fn(|index| u8::try_from(index).unwrap());
    let mut pointer = pointer(ObjectType::PLAIN_FILE, 0, 512, mac);
    assert_eq!(
        (pointer.salt(), pointer.iv(), pointer.mac()),
        (SALT, IV, mac)
    );
    assert_eq!(pointer.protection(), Protection::Encrypted);
    // A machine of the other order wrote the same bytes: as words they are swapped.
    for word in [4, 5, 14, 15] {
        pointer.words[word] = pointer.words[word].swap_bytes();
    }
    pointer.words[11] = u64::from(u32::from_be_bytes(IV[8..].try_into().unwrap())) << 32;
    pointer.set_byte_order(base::ByteOrder::Big);
    assert_eq!(
        (pointer.salt(), pointer.iv(), pointer.mac()),
        (SALT, IV, mac)
    );
}

#[test]
fn every_suite_opens_what_it_sealed() {
    for suite in 3..=8 {
        let keys = keys(suite);
        let plain = vec![0x33; 4096];
        let (pointer, mut stored) = sealed(&keys, &plain);
        assert_ne!(stored, plain);
        keys.open(&pointer, &mut stored).unwrap();
        assert_eq!(stored, plain);
    }
}

/// Test cases 4, 10 and 16 of the specification of GCM (McGrew, Viega).
#[test]
fn published_vectors() {
    let bytes = |text: &str| -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    };
    let key = bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    let plain = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let iv = bytes("cafebabefacedbaddecaf888").try_into().unwrap();
    let known = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    for (key_size, begin, code) in [
        (16, "42831ec221777424", "5bc94fbc3221a5db94fae95ae7121a47"),
        (24, "3980ca0b3c00e841", "2519498e80f1478f37ba55bd6d27618c"),
        (32, "522dc1f099567d07", "76fc6ece0f4e1768cddf8853bb2d551b"),
    ] {
        let mode = Mode::Gcm;
        let cipher = Cipher::new(Suite { mode, key_size }, &key[..key_size]).unwrap();
        let mut data = plain.clone();
        let mac = cipher.seal(&iv, &known, &mut data).unwrap();
        assert_eq!(
            (&data[..8], &mac[..]),
            (&bytes(begin)[..], &bytes(code)[..])
        );
        cipher.open(&iv, &mac, &known, &mut data).unwrap();
        assert_eq!(data, plain);
    }
}

#[test]
fn authenticated_blocks_are_proven_by_their_bytes() {
    let keys = keys(8);
    let stored = vec![5; 512];
    let code = keys.code(&[&stored]).unwrap();
    let mac = code[..MAC_SIZE].try_into().unwrap();
    let pointer = pointer(ObjectType::MASTER_NODE, 0, 512, mac);
    assert_eq!(pointer.protection(), Protection::Authenticated);
    keys.prove(&pointer, &stored).unwrap();
    let mut other = stored;
    other[511] ^= 1;
    assert_eq!(keys.prove(&pointer, &other), Err(BlockFault::Forged));
}

#[test]
fn indirect_blocks_are_proven_by_the_codes_of_their_children() {
    let keys = keys(8);
    let child = |byte| pointer(ObjectType::PLAIN_FILE, 0, 512, [byte; MAC_SIZE]);
    let encode = |children: &[BlockPointer]| -> Vec<u8> {
        let words = children.iter().flat_map(|child| child.words);
        words.flat_map(u64::to_ne_bytes).collect()
    };
    let content = encode(&[child(1), child(2), BlockPointer::HOLE, child(3)]);
    let mac = tree::code_of_children(&content, 1);
    let parent = pointer(ObjectType::PLAIN_FILE, 1, content.len(), mac);
    keys.prove_children(&parent, &content).unwrap();
    let mut swapped = encode(&[child(2), child(1), BlockPointer::HOLE, child(3)]);
    let forged = Err(BlockFault::Forged);
    assert_eq!(keys.prove_children(&parent, &swapped), forged);
    swapped = encode(&[child(1), child(2), child(3), BlockPointer::HOLE]);
    assert_eq!(keys.prove_children(&parent, &swapped), forged);
    // Where a block lies, and what its checksum is, may change: its content is the same.
    let mut moved = child(1);
    moved.words[0] = 99;
    moved.words[12] = 7;
    let content = encode(&[moved, child(2), BlockPointer::HOLE, child(3)]);
    keys.prove_children(&parent, &content).unwrap();
    // What it is, may not.
    let mut plain = child(1);
    plain.words[6] &= !(1 << 61);
    let content = encode(&[plain, child(2), BlockPointer::HOLE, child(3)]);
    assert_eq!(keys.prove_children(&parent, &content), forged);
}

#[test]
fn block_keys_are_bounded_and_loads_are_told_apart() {
    let (one, other) = (keys(8), keys(8));
    assert_ne!(one.load_number(), other.load_number());
    for number in 0_u64..100 {
        one.block_key(number.to_le_bytes()).unwrap();
    }
    assert_eq!(one.block_keys.lock().len(), BLOCK_KEYS_MAX);
    assert!(!format!("{one:?}").contains('7'));
}

proptest! {
    /// Any bit of the stored bytes, of the code, of the vector or of the salt.
    #[test]
    fn what_was_changed_does_not_open(suite in 3_u64..=8, bit in 0_usize..512 * 8, part in 0..4) {
        let keys = keys(suite);
        let (mut pointer, mut stored) = sealed(&keys, &[9; 512]);
        match part {
            0 => stored[bit / 8] ^= 1 << (bit % 8),
            1 => pointer.words[14 + bit / 64 % 2] ^= 1 << (bit % 64),
            2 => pointer.words[5] ^= 1 << (bit % 64),
            _ => pointer.words[4] ^= 1 << (bit % 64),
        }
        prop_assert_eq!(keys.open(&pointer, &mut stored), Err(BlockFault::Forged));
    }

    /// Nothing that a device can give makes it panic.
    #[test]
    fn any_pointer_to_any_bytes(words: [u64; 16], stored in prop::collection::vec(any::<u8>(), 0..4096)) {
        let keys = keys(8);
        let pointer = BlockPointer { words };
        let _ = keys.prove(&pointer, &stored);
        let _ = keys.prove_children(&pointer, &stored);
        let _ = keys.open(&pointer, &mut stored.clone());
    }
}
