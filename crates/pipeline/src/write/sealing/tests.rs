use base::{Bookmark, ObjectId};
use format::ObjectType;
use sys::Buffer;

use super::*;
use crate::ReadRequest;
use crate::testing::keys::{SET, loaded, rig};
use crate::testing::{Rig, noise, request};

fn place(level: u8) -> Bookmark {
    Bookmark::new(SET, ObjectId(7), level, 3)
}

/// Bytes that compress, and are what a block of the kind has.
fn content(kind: ObjectType, level: u8) -> Buffer {
    if kind == ObjectType::PLAIN_FILE && level == 0 {
        return Buffer::from_slice(&b"all work and no play makes jack ".repeat(512));
    }
    let mut data = BufferMut::zeroed(16384);
    if kind == ObjectType::MASTER_NODE {
        data[..8].fill(3);
    }
    if kind == ObjectType::OBJECT_SET {
        data.truncate(4096);
        data[704] = 2;
    }
    data.freeze()
}

fn write(rig: &Rig, kind: ObjectType, level: u8) -> Result<BlockPointer, WriteError> {
    let data = content(kind, level);
    let mut write = request(&data);
    (write.object_type, write.level) = (kind, level);
    write.bookmark = place(level);
    write.policy.compression = Compression::Lz4;
    write.policy.copies = 3;
    write.policy.gang_copies = 3;
    write.policy.zero_detect = false;
    write.policy.embed = true;
    write.policy.encrypt = true;
    write.fill = 5;
    rig.write(&write)
}

const KINDS: [(ObjectType, u8); 5] = [
    (ObjectType::PLAIN_FILE, 0),
    (ObjectType::DNODE, 0),
    (ObjectType::MASTER_NODE, 0),
    (ObjectType::OBJECT_SET, 0),
    (ObjectType::PLAIN_FILE, 1),
];

#[test]
fn what_is_written_with_a_key_is_read_with_it() {
    let (rig, _) = rig();
    for (kind, level) in KINDS {
        let block = write(&rig, kind, level).unwrap();
        let data = content(kind, level);
        assert!(block.is_encrypted() && !block.is_embedded(), "{kind:?}");
        let is_sealed = block.protection() == Protection::Encrypted;
        assert_eq!(block.copies(), if is_sealed { 2 } else { 3 }, "{kind:?}");
        assert_eq!(block.fill(), 5, "beside half a vector");
        let is_packed = block.psize() < block.lsize();
        let stays = matches!(kind, ObjectType::DNODE | ObjectType::OBJECT_SET);
        assert_eq!(is_packed, !stays, "{kind:?}");
        for cached in [true, false] {
            let mut ask = ReadRequest::new(place(level));
            ask.cached = cached;
            let read = rig.pipeline.read(&block, &ask).unwrap();
            if kind == ObjectType::OBJECT_SET {
                assert_eq!(read[..720], data[..720]);
                assert_ne!(read[720..784], data[720..784], "the codes");
            } else {
                assert_eq!(read, data, "{kind:?}");
            }
        }
        if kind == ObjectType::PLAIN_FILE && level == 0 {
            let stored = rig
                .pipeline
                .read_stored(&block, &ReadRequest::new(place(0)));
            let stored = stored.unwrap();
            assert!(!stored.windows(8).any(|bytes| bytes == &data[..8]));
        }
    }
}

#[test]
fn each_block_has_its_own_vector() {
    let (rig, _) = rig();
    let blocks: Vec<_> = (0..64)
        .map(|_| write(&rig, ObjectType::PLAIN_FILE, 0).unwrap())
        .collect();
    let mut marks: Vec<_> = blocks.iter().map(BlockPointer::iv).collect();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), blocks.len());
    assert!(blocks.iter().all(|block| block.salt() == blocks[0].salt()));
}

#[test]
fn a_rewrite_in_place_has_a_vector_of_its_own() {
    let (rig, _) = rig();
    let first = write(&rig, ObjectType::PLAIN_FILE, 0).unwrap();
    let data = content(ObjectType::PLAIN_FILE, 0);
    let mut again = request(&data);
    again.bookmark = place(0);
    again.policy.compression = Compression::Lz4;
    again.policy.copies = 2;
    again.policy.encrypt = true;
    (again.pass, again.txg) = (2, first.birth());
    again.previous = first;
    let second = rig.write(&again).unwrap();
    assert_eq!(second.dva(0), first.dva(0), "where it was");
    assert_ne!(second.iv(), first.iv());
    let read = rig
        .pipeline
        .read(&second, &ReadRequest::new(place(0)).uncached());
    assert_eq!(read.unwrap(), data);
}

#[test]
fn without_the_key_nothing_is_written_that_takes_one() {
    let (rig, keys) = rig();
    for key in [Key::Locked, Key::None] {
        *keys.0.lock().unwrap() = key.clone();
        for (kind, level) in KINDS {
            let takes_none = kind == ObjectType::OBJECT_SET || level > 0;
            let may = takes_none && matches!(key, Key::Locked);
            let written = write(&rig, kind, level);
            assert_eq!(written.is_ok(), may, "{kind:?} {key:?}");
        }
    }
}

#[test]
fn a_root_block_that_is_rewritten_without_the_key_keeps_its_codes() {
    let (rig, keys) = rig();
    let sealed = write(&rig, ObjectType::OBJECT_SET, 0).unwrap();
    let ask = ReadRequest::new(place(0)).uncached();
    let with_codes = rig.pipeline.read(&sealed, &ask).unwrap();
    *keys.0.lock().unwrap() = Key::Locked;
    let mut changed = BufferMut::from_slice(&with_codes);
    // In the anchor of the intent log.
    changed[513] = 9;
    let changed = changed.freeze();
    let mut again = request(&changed);
    again.object_type = ObjectType::OBJECT_SET;
    again.bookmark = place(0);
    again.policy.encrypt = true;
    let block = rig.write(&again).unwrap();
    *keys.0.lock().unwrap() = loaded();
    assert_eq!(rig.pipeline.read(&block, &ask).unwrap(), changed);
}

#[test]
fn blocks_of_other_object_sets_stay_plain() {
    let (rig, _) = rig();
    let data = noise(4096, 1);
    assert!(!rig.write(&request(&data)).unwrap().is_encrypted());
}

/// As a raw stream has it: what was sealed with a key is stored again by who has none, and is the same to who has it.
#[test]
fn what_was_sealed_elsewhere_is_stored_as_it_is() {
    let (rig, keys) = rig();
    for (kind, level) in KINDS {
        if level > 0 || kind == ObjectType::OBJECT_SET {
            continue;
        }
        *keys.0.lock().unwrap() = loaded();
        let block = write(&rig, kind, level).unwrap();
        let ask = ReadRequest::new(place(level)).uncached();
        let stored = rig.pipeline.read_stored(&block, &ask).unwrap();
        let form = SealedForm {
            lsize: block.lsize(),
            compression: block.compression().unwrap(),
            salt: block.salt(),
            iv: block.iv(),
            mac: block.mac(),
        };
        *keys.0.lock().unwrap() = Key::Locked;
        let mut again = request(&stored);
        (again.object_type, again.level) = (kind, level);
        again.bookmark = place(level);
        again.policy.encrypt = true;
        again.policy.embed = true;
        again.form = Some(form);
        let copy = rig.write(&again).unwrap();
        assert_ne!(copy.dva(0), block.dva(0), "{kind:?}");
        assert_eq!(copy.lsize(), block.lsize());
        assert_eq!(
            (copy.mac(), copy.protection()),
            (block.mac(), block.protection())
        );
        *keys.0.lock().unwrap() = loaded();
        assert_eq!(
            rig.pipeline.read(&copy, &ask).unwrap(),
            content(kind, level),
            "{kind:?}"
        );
        again.form = Some(SealedForm { lsize: 0, ..form });
        rig.write(&again)
            .expect_err("more bytes than it has decompressed");
    }
}
