use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Bookmark, ObjectId, ObjectSetId, VdevId};
use codec::Compression;
use proptest::prelude::*;

use super::*;
use crate::testing::{Rig, TXG, noise, request, text};
use crate::{WritePolicy, WriteRequest};

fn copies(count: u8) -> WritePolicy {
    WritePolicy {
        copies: count,
        gang_copies: count,
        ..WritePolicy::METADATA
    }
}

#[test]
fn another_copy_serves_and_heals_a_bad_one() {
    let rig = Rig::with(|config| config.heal = true);
    let data = noise(8192, 1);
    let block = rig
        .write(&WriteRequest {
            policy: copies(2),
            ..request(&data)
        })
        .expect("room");
    let first = block.dva(0).expect("an address");
    for disk in &rig.disks {
        disk.damage(first.offset, 512);
    }
    assert_eq!(&rig.read(&block).expect("the second copy")[..], &data[..]);
    for disk in &rig.disks {
        assert_eq!(disk.at(first.offset, 8192), &data[..], "healed");
    }
    assert_eq!(rig.pipeline.statistics().copies_healed, 1);
}

/// The place may be another block's by now, or the block is being rewritten.
#[test]
fn no_read_repairs_a_place_that_may_be_anothers() {
    let rig = Rig::with(|config| config.heal = true);
    let data = noise(8192, 1);
    let block = rig
        .write(&WriteRequest {
            policy: copies(2),
            ..request(&data)
        })
        .expect("room");
    // Both sides of the first copy, one of the second.
    let [first, second] = [0, 1].map(|copy| block.dva(copy).expect("an address").offset);
    rig.disks[0].damage(first, 8192);
    rig.disks[1].damage(first, 8192);
    rig.disks[0].damage(second, 8192);
    let theirs = rig.disks[0].at(first, 8192);
    let unseen = crate::ReadRequest::new(Bookmark::default()).uncached();
    rig.leave.0.store(false, Ordering::Relaxed);
    for _ in 0..4 {
        assert_eq!(&rig.read(&block).expect("one is good")[..], &data[..]);
    }
    rig.leave.0.store(true, Ordering::Relaxed);
    assert!(rig.pipeline.read(&block, &unseen).is_ok());
    for disk in &rig.disks {
        assert_eq!(disk.at(first, 8192), theirs, "written over");
    }
    assert_ne!(rig.disks[0].at(second, 8192), &data[..]);
    assert_eq!(rig.pipeline.statistics().copies_healed, 0);
    assert!(rig.pipeline.statistics().repairs_refused > 0);
    assert!(rig.read(&block).is_ok());
    for disk in &rig.disks {
        assert_eq!(disk.at(first, 8192), &data[..], "healed");
    }
}

#[test]
fn without_leave_to_heal_nothing_is_written() {
    let rig = Rig::new();
    let data = noise(8192, 1);
    let block = rig
        .write(&WriteRequest {
            policy: copies(2),
            ..request(&data)
        })
        .expect("room");
    for disk in &rig.disks {
        disk.damage(block.dva(0).expect("an address").offset, 512);
    }
    let writes = || -> Vec<u64> {
        let disks = rig.disks.iter();
        disks
            .map(|disk| disk.writes.load(Ordering::Relaxed))
            .collect()
    };
    let before = writes();
    assert!(rig.read(&block).is_ok());
    assert_eq!(before, writes());
}

#[test]
fn an_unreadable_block_names_every_copy() {
    let rig = Rig::new();
    let data = noise(4096, 1);
    let block = rig
        .write(&WriteRequest {
            policy: copies(2),
            ..request(&data)
        })
        .expect("room");
    for dva in block.dvas() {
        rig.disks
            .iter()
            .for_each(|disk| disk.damage(dva.offset, 10));
    }
    let error = rig.read(&block).expect_err("both copies are bad");
    let ReadError::Unreadable(unreadable) = &error else {
        panic!("{error}")
    };
    assert_eq!(unreadable.attempts.len(), 2);
    for (attempt, dva) in unreadable.attempts.iter().zip(block.dvas()) {
        assert_eq!(attempt.dva, dva);
        assert!(
            matches!(attempt.failure, AttemptFailure::Checksum(_)),
            "{attempt}"
        );
    }
    assert!(error.to_string().contains("fletcher4"), "{error}");
}

#[test]
fn a_cached_block_needs_no_device() {
    let rig = Rig::new();
    let data = text(64 << 10);
    let block = rig.write(&request(&data)).expect("room");
    rig.pipeline.cache().clear();
    let request = ReadRequest::new(Bookmark::default());
    let first = rig
        .pipeline
        .read(&block, &request)
        .expect("from the device");
    let reads: u64 = rig
        .disks
        .iter()
        .map(|disk| disk.reads.load(Ordering::Relaxed))
        .sum();
    let second = rig.pipeline.read(&block, &request).expect("from memory");
    assert!(first.same_memory(&second));
    let again: u64 = rig
        .disks
        .iter()
        .map(|disk| disk.reads.load(Ordering::Relaxed))
        .sum();
    assert_eq!(reads, again);
}

#[test]
fn zeros_behind_the_last_pointer_take_no_memory() {
    let rig = Rig::new();
    let mut data = BufferMut::zeroed(128 << 10);
    data[..128].fill(1);
    let data = data.freeze();
    let kept = |level| {
        let written = WriteRequest {
            level,
            ..request(&data)
        };
        let block = rig.write(&written).expect("room");
        rig.pipeline.cache().clear();
        let before = rig.pipeline.cache().statistics().bytes;
        let request = ReadRequest::new(Bookmark::default());
        let read = rig.pipeline.read(&block, &request).expect("it is there");
        assert!(read == data);
        rig.pipeline.cache().statistics().bytes - before
    };
    // All but the first page. Of data that is not done.
    assert_eq!(kept(0) - kept(1), 124 << 10);
}

#[test]
fn encrypted_and_redacted_blocks_are_refused_by_name() {
    let rig = Rig::new();
    let mut block = rig.write(&request(&noise(4096, 1))).expect("room");
    block.words[6] |= 1 << 61;
    assert!(matches!(rig.read(&block), Err(ReadError::Encrypted { .. })));
    let mut redacted = rig.write(&request(&text(512))).expect("embedded");
    assert!(redacted.is_embedded());
    redacted.words[6] |= 2 << 40;
    assert!(matches!(
        rig.read(&redacted),
        Err(ReadError::Redacted { .. })
    ));
}

/// Knows that everything is locked, and who asked.
#[derive(Default)]
struct Locked {
    asked: std::sync::Mutex<Vec<ObjectSetId>>,
}

impl crate::KeySource for Locked {
    fn key(&self, set: ObjectSetId) -> crate::Key {
        self.asked.lock().unwrap().push(set);
        crate::Key::Locked
    }
}

#[test]
fn the_key_of_a_block_is_asked_of_its_object_set() {
    let rig = Rig::new();
    let keys = Arc::new(Locked::default());
    let mut block = rig.write(&request(&noise(4096, 1))).expect("room");
    rig.pipeline.set_keys(keys.clone());
    let bookmark = Bookmark::new(ObjectSetId(54), ObjectId(7), 0, 3);
    let ask = crate::ReadRequest::new(bookmark).uncached();
    rig.pipeline.read(&block, &ask).expect("plain");
    let asked = || std::mem::take(&mut *keys.asked.lock().unwrap());
    assert_eq!(asked(), [ObjectSetId(54)]);
    block.words[6] |= 1 << 61;
    let error = rig.pipeline.read(&block, &ask).unwrap_err();
    assert!(matches!(error, ReadError::Encrypted { .. }));
    assert_eq!(error.bookmark(), bookmark);
    assert_eq!(asked(), [ObjectSetId(54)]);
}

#[test]
fn a_block_of_a_big_endian_writer_arrives_in_host_order() {
    let rig = Rig::new();
    let words: Vec<u8> = (0..64_u64).flat_map(u64::to_be_bytes).collect();
    let stored = Buffer::from_slice(&words);
    let mut write = request(&stored);
    write.object_type = ObjectType::OTN_U64_METADATA;
    write.policy.compression = Compression::Off;
    let mut block = rig.write(&write).expect("room");
    block.set_byte_order(ByteOrder::Big);
    let sum = rig
        .pipeline
        .checksum(Checksum::Fletcher4, &words, ByteOrder::Big);
    block.set_checksum(Checksum::Fletcher4, sum);
    let expected: Vec<u8> = (0..64_u64).flat_map(u64::to_ne_bytes).collect();
    assert_eq!(
        &rig.read(&block).expect("the other order")[..],
        &expected[..]
    );
}

#[test]
fn a_gang_that_contains_itself_ends() {
    let rig = Rig::new();
    rig.allocator.longest.store(4096, Ordering::Relaxed);
    let block = rig.write(&request(&noise(8192, 1))).expect("in pieces");
    let mut header = format::gang::GangHeader::default();
    header.members[0] = block;
    let sealed = Buffer::from_slice(&header.encode(&block));
    let group = WriteGroup::new(TXG);
    let top = rig.pipeline.vdevs().top(VdevId(0)).expect("there");
    for dva in block.dvas() {
        top.write(dva.offset, sealed.clone(), IoClass::AsyncWrite, &group);
    }
    group.wait().expect("memory");
    let error = rig.read(&block).expect_err("no bottom");
    assert!(error.to_string().contains("too deeply"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_pointer_makes_it_panic(
        words in prop::array::uniform16(any::<u64>()),
        plausible in any::<bool>(),
    ) {
        let rig = Rig::new();
        let mut block = BlockPointer { words };
        if plausible {
            block.words[1] &= 0x8000_0000_0001_FFFF;
            block.words[0] = 8;
            block.words[6] = (block.words[6] & 0x8000_0000_00FF_000F) | (19 << 48) | (15 << 32)
                | (7 << 40);
        }
        let _ = rig.read(&block);
        let _ = rig.pipeline.read_stored(&block, &ReadRequest::new(Bookmark::default()));
    }
}

#[test]
fn bytes_that_were_never_promised_blame_no_device() {
    let rig = Rig::new();
    let block = rig.write(&request(&noise(4096, 1))).expect("room");
    for disk in &rig.disks {
        disk.damage(block.dva(0).expect("an address").offset, 512);
    }
    let blamed = || {
        let tops = rig.pipeline.vdevs.tops();
        let leaves = tops.iter().flat_map(|top| top.leaves());
        leaves.map(|leaf| leaf.errors().checksum).sum::<u64>()
    };
    let ask = ReadRequest::new(Bookmark::default()).uncached();
    let unpromised = rig.pipeline.read(&block, &ask.unpromised());
    assert!(unpromised.is_err());
    assert_eq!(blamed(), 0);
    let speculative = rig.pipeline.read(&block, &ask.speculative());
    assert!(speculative.is_err());
    assert!(
        blamed() > 0,
        "what was promised and is not there is an error of the device"
    );
}
