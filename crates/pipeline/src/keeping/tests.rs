use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Bookmark, ObjectId};
use sys::Buffer;

use super::*;
use crate::testing::{Rig, TXG, noise, request};
use crate::{PrefetchRequest, Prefetcher, ReadRequest, WriteRequest};

const METADATA_ONLY: ObjectSetId = ObjectSetId(54);
const NOTHING: ObjectSetId = ObjectSetId(55);

struct ByNumber;

impl KeepSource for ByNumber {
    fn keeps(&self, set: ObjectSetId, is_metadata: bool) -> bool {
        set != NOTHING && (set != METADATA_ONLY || is_metadata)
    }
}

fn rig() -> Rig {
    let rig = Rig::new();
    rig.pipeline.set_keeping(Arc::new(ByNumber));
    rig
}

fn place(set: ObjectSetId, level: u8) -> Bookmark {
    Bookmark::new(set, ObjectId(7), level, 0)
}

fn written(rig: &Rig, data: &Buffer, at: Bookmark) -> BlockPointer {
    let block = WriteRequest {
        level: u8::try_from(at.level).expect("a level"),
        bookmark: at,
        ..request(data)
    };
    rig.write(&block).expect("room")
}

fn device_reads(rig: &Rig) -> u64 {
    let reads = rig
        .disks
        .iter()
        .map(|disk| disk.reads.load(Ordering::Relaxed));
    reads.sum()
}

/// How often the devices are asked when a block is read in four parts, to its end, and then once more.
fn asked(rig: &Rig, block: &BlockPointer, at: Bookmark) -> [u64; 2] {
    let read = || {
        rig.pipeline
            .read(block, &ReadRequest::new(at))
            .expect("it is there")
    };
    let begun = device_reads(rig);
    (0..4).for_each(|_| drop(read()));
    rig.pipeline.end_of_block(block, at.object_set);
    let first = device_reads(rig);
    drop(read());
    [first - begun, device_reads(rig) - first]
}

#[test]
fn what_is_not_kept_is_read_once_for_all_its_parts_and_then_again() {
    let rig = rig();
    let data = noise(16 << 10, 1);
    for (set, level, expected) in [
        (ObjectSetId(53), 0, [0, 0]),
        (ObjectSetId(53), 1, [0, 0]),
        (METADATA_ONLY, 0, [1, 1]),
        (METADATA_ONLY, 1, [0, 0]),
        (NOTHING, 0, [1, 1]),
        // What was just written, as it is soon written again.
        (NOTHING, 1, [0, 1]),
    ] {
        let at = place(set, level);
        let block = written(&rig, &data, at);
        assert_eq!(asked(&rig, &block, at), expected, "{set:?}, level {level}");
    }
}

/// Blocks leave from under the keys that opened them, too.
#[test]
fn what_is_encrypted_and_not_kept_leaves() {
    struct Data;
    impl KeepSource for Data {
        fn keeps(&self, _: ObjectSetId, is_metadata: bool) -> bool {
            is_metadata
        }
    }
    let (rig, _keys) = crate::testing::keys::rig();
    rig.pipeline.set_keeping(Arc::new(Data));
    let (data, at) = (noise(16 << 10, 1), place(crate::testing::keys::SET, 0));
    let mut sealed = WriteRequest {
        bookmark: at,
        ..request(&data)
    };
    sealed.policy.encrypt = true;
    let block = rig.write(&sealed).expect("room");
    assert!(block.is_encrypted());
    assert_eq!(asked(&rig, &block, at), [1, 1]);
}

#[test]
fn what_is_read_ahead_is_there_until_it_was_read() {
    let rig = rig();
    let data: Vec<_> = (0..4).map(|seed| noise(16 << 10, seed)).collect();
    let at = place(METADATA_ONLY, 0);
    let blocks: Vec<_> = data.iter().map(|data| written(&rig, data, at)).collect();
    let pipeline = Arc::new(rig.pipeline);
    let prefetcher = Prefetcher::new(Arc::clone(&pipeline), 1, 1 << 20);
    let wanted: Vec<_> = blocks
        .iter()
        .map(|block| PrefetchRequest {
            block: *block,
            bookmark: at,
            seen: TXG,
            follow: None,
        })
        .collect();
    prefetcher.prefetch(&wanted);
    while prefetcher.statistics().in_flight_bytes > 0 {
        std::thread::yield_now();
    }
    assert_eq!(pipeline.cache().statistics().blocks, 4);
    let reads = pipeline.statistics().blocks_read;
    for (block, data) in blocks.iter().zip(&data) {
        let read = pipeline.read(block, &ReadRequest::new(at)).expect("read");
        assert_eq!(&read[..], &data[..]);
    }
    assert_eq!(pipeline.statistics().blocks_read, reads);
    assert_eq!(prefetcher.statistics().hit, 4);
    for block in &blocks {
        pipeline.end_of_block(block, METADATA_ONLY);
    }
    assert_eq!(pipeline.cache().statistics().blocks, 0);
}
