use base::{Bookmark, ObjectId};
use codec::{Checksum, ChecksumValue, Compression};
use format::ObjectType;
use sha2::{Digest, Sha512};

use super::*;
use crate::testing::keys::{SET, loaded, rig};
use crate::testing::{Rig, noise, request};
use crate::{Key, ReadError, ReadRequest};

/// A block whose checksum is right, in a pointer of an encrypted dataset with a code.
fn written(rig: &Rig, data: &Buffer, kind: (ObjectType, u8), mac: [u64; 2]) -> BlockPointer {
    let mut write = request(data);
    (write.object_type, write.level) = kind;
    write.policy.compression = Compression::Off;
    write.policy.zero_detect = false;
    let mut block = rig.write(&write).expect("room");
    let order = block.byte_order();
    let sum = rig.pipeline.checksum(Checksum::Fletcher4, data, order);
    // The crypt bit.
    block.words[6] |= 1 << 61;
    let [a, b, c, d] = sum.0;
    let sum = if kind.0 == ObjectType::OBJECT_SET {
        sum
    } else {
        ChecksumValue([a ^ c, b ^ d, mac[0], mac[1]])
    };
    block.set_checksum(Checksum::Fletcher4, sum);
    block
}

fn ask() -> ReadRequest {
    ReadRequest::new(Bookmark::new(SET, ObjectId(7), 0, 3))
}

/// Whether a read says of every copy that the checksum is right and the code is not.
fn is_sealed(read: &Result<Buffer, ReadError>) -> bool {
    let Err(ReadError::Unreadable(unreadable)) = read else {
        return false;
    };
    let mut attempts = unreadable.attempts.iter();
    attempts.all(|attempt| matches!(attempt.failure, AttemptFailure::Sealed(_)))
}

#[test]
fn blocks_of_the_right_checksum_and_the_wrong_code_are_unreadable() {
    let (rig, keys) = rig();
    for kind in [
        (ObjectType::PLAIN_FILE, 0),
        (ObjectType::DNODE, 0),
        (ObjectType::MASTER_NODE, 0),
        (ObjectType::OBJECT_SET, 0),
        (ObjectType::PLAIN_FILE, 1),
    ] {
        let block = written(&rig, &noise(16384, 3), kind, [5, 6]);
        let read = rig.pipeline.read(&block, &ask());
        assert!(is_sealed(&read), "{kind:?}: {read:?}");
        // Without the key it is the checksum that counts, and ciphertext is nobody's content.
        let key = std::mem::replace(&mut *keys.0.lock().unwrap(), Key::Locked);
        let read = rig.pipeline.read(&block, &ask());
        let refused = matches!(read, Err(ReadError::Encrypted { .. }));
        assert_eq!(refused, is_ciphertext(&block), "{kind:?}: {read:?}");
        assert!(refused || read.is_ok(), "{kind:?}: {read:?}");
        *keys.0.lock().unwrap() = key;
    }
}

#[test]
fn a_plain_block_in_an_encrypted_dataset_is_refused() {
    let (rig, keys) = rig();
    let data = noise(4096, 1);
    let block = rig.write(&request(&data)).expect("room");
    let read = rig.pipeline.read(&block, &ask());
    assert!(matches!(read, Err(ReadError::NotEncrypted { .. })));
    *keys.0.lock().unwrap() = Key::None;
    assert!(rig.pipeline.read(&block, &ask()).is_ok());
}

#[test]
fn what_a_key_proved_is_in_the_cache_for_that_key_only() {
    let (rig, keys) = rig();
    // A block of pointers that are holes: their records are zeros.
    let data = Buffer::zeroed(4096);
    let records = vec![0; 4096 / format::block_pointer::SIZE * 32];
    let digest: [u8; 64] = Sha512::digest(&records).into();
    let word = |at: usize| u64::from_le_bytes(digest[at..at + 8].try_into().unwrap());
    let mac = [word(0), word(8)];
    let block = written(&rig, &data, (ObjectType::PLAIN_FILE, 1), mac);
    let read = || {
        let before = rig.pipeline.statistics().blocks_read;
        rig.pipeline.read(&block, &ask()).unwrap();
        rig.pipeline.statistics().blocks_read - before
    };
    assert_eq!([read(), read()], [1, 0], "the second time from the cache");
    *keys.0.lock().unwrap() = loaded();
    assert_eq!([read(), read()], [1, 0], "loaded again: nothing of before");
    *keys.0.lock().unwrap() = Key::Locked;
    assert_eq!(
        [read(), read()],
        [1, 1],
        "nothing is kept that nobody proved"
    );
}
