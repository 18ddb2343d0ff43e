use base::Bookmark;
use format::block_pointer::BlockPointer;
use proptest::prelude::*;

use super::*;
use crate::prefetch::PrefetchRequest;
use crate::prefetch::stretches;
use crate::testing::{Rig, TXG, noise, request};
use crate::{Allocator, ReadRequest};

const LIMIT: u64 = 1 << 20;
const VDEV: VdevId = VdevId(0);

fn prefetch_request(block: &BlockPointer, seen: Txg) -> PrefetchRequest {
    PrefetchRequest {
        block: *block,
        bookmark: Bookmark::default(),
        seen,
        follow: None,
    }
}

fn reads_of(rig: &Rig) -> u64 {
    let reads = rig
        .disks
        .iter()
        .map(|disk| disk.reads.load(Ordering::Relaxed));
    reads.sum()
}

fn read_stretch(rig: &Rig, blocks: &[&BlockPointer], seen: Txg) {
    let requests = blocks.iter().map(|block| prefetch_request(block, seen));
    for stretch in stretches(requests.collect()) {
        assert_eq!(rig.pipeline.read_stretch(&stretch, &mut |_, _| {}), 0);
    }
}

fn read(rig: &Rig, block: &BlockPointer) -> Buffer {
    let asked = ReadRequest::new(Bookmark::default());
    rig.pipeline.read(block, &asked).expect("readable")
}

#[test]
fn what_lay_between_is_found_and_verified() {
    let rig = Rig::with(|config| config.cache_bytes = 64 << 20);
    let blocks: Vec<BlockPointer> = (0..96)
        .map(|seed| rig.write(&request(&noise(32 << 10, seed))).expect("room"))
        .collect();
    let damaged = blocks[3].dva(0).expect("an address").offset;
    for disk in &rig.disks {
        disk.damage(damaged, 1);
    }
    rig.pipeline.cache().clear();
    read_stretch(&rig, &[&blocks[0], &blocks[5]], TXG);
    let before = reads_of(&rig);
    for at in [1, 2, 4] {
        assert!(read(&rig, &blocks[at])[..] == noise(32 << 10, at as u64)[..]);
    }
    // Also those that are requested, and those around, to the end of a piece that is read with one operation.
    read_stretch(&rig, &[&blocks[6], &blocks[9], &blocks[63]], TXG);
    assert_eq!(reads_of(&rig), before);
    let asked = ReadRequest::new(Bookmark::default());
    assert!(rig.pipeline.read(&blocks[3], &asked).is_err());
    read(&rig, &blocks[64]);
    assert!(reads_of(&rig) > before);
}

/// Adding this to five words of 32 bits that follow each other changes none of fletcher4's sums.
const SAME_SUMS: [i32; 5] = [1, -4, 6, -4, 1];

#[test]
fn who_came_later_is_not_mistaken_for_who_was_there_before() {
    let rig = Rig::new();
    let mut old = noise(32 << 10, 1).to_vec();
    let mut new = old.clone();
    for (at, change) in SAME_SUMS.iter().enumerate() {
        let place = at * 4..at * 4 + 4;
        old[place.clone()].copy_from_slice(&100_u32.to_le_bytes());
        let other = 100_u32.wrapping_add_signed(*change);
        new[place].copy_from_slice(&other.to_le_bytes());
    }
    let (old, new) = (Buffer::from_slice(&old), Buffer::from_slice(&new));
    let write = |data: &Buffer| rig.write(&request(data)).expect("room");
    let first = write(&noise(32 << 10, 2));
    let before = write(&old);
    let last = write(&noise(32 << 10, 3));
    rig.pipeline.cache().clear();
    read_stretch(&rig, &[&first, &last], TXG);
    // It is freed, and its place is given away.
    let dva = before.dva(0).expect("an address");
    rig.allocator.free(&dva, TXG, TXG);
    rig.allocator.give_next(dva.offset);
    let mut later = request(&new);
    later.txg = TXG.next();
    let after = rig.write(&later).expect("room");
    assert_eq!(after.dva(0), before.dva(0));
    assert_eq!(after.checksum_value(), before.checksum_value());
    rig.pipeline.cache().clear();
    assert!(
        read(&rig, &after)[..] == new[..],
        "the bytes of the old block"
    );
}

#[test]
fn what_is_read_while_it_may_be_written_is_not_kept() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..3)
        .map(|seed| rig.write(&request(&noise(32 << 10, seed))).expect("room"))
        .collect();
    for seen in [Txg(0), Txg(TXG.0 - 1)] {
        rig.pipeline.cache().clear();
        read_stretch(&rig, &[&blocks[0], &blocks[2]], seen);
        let before = reads_of(&rig);
        read(&rig, &blocks[1]);
        assert_eq!(reads_of(&rig), before + 1, "{seen:?}");
    }
}

#[test]
fn what_a_forged_pointer_means_is_not_found() {
    let kept = Kept::default();
    kept.keep((VDEV, 0), &[1; 4096], TXG, LIMIT);
    for start in [u64::MAX, u64::MAX - 511, u64::MAX - CHUNK_BYTES, 1 << 63] {
        assert!(kept.get((VDEV, start), 4096, TXG).is_none());
    }
}

#[test]
fn memory_is_bounded_and_the_oldest_go() {
    let kept = Kept::default();
    let piece = vec![7; 3 * CHUNK_BYTES as usize];
    for at in 0..10 {
        kept.keep((VDEV, at * (1 << 20)), &piece, Txg(5), 4 * CHUNK_BYTES);
        assert!(kept.state.lock().chunks.len() <= 4);
    }
    assert_eq!(kept.state.lock().order.len(), 4);
    assert!(kept.get((VDEV, 9 << 20), 512, Txg(5)).is_some());
    assert!(kept.get((VDEV, 0), 512, Txg(5)).is_none());
    kept.keep((VDEV, 0), &piece, Txg(5), 0);
    assert!(kept.get((VDEV, 0), 512, Txg(5)).is_none());
}

#[test]
fn little_is_read_around_blocks_where_nothing_is_found() {
    let kept = Kept::default();
    let around = |block: &Range<u64>, limit| kept.around(VDEV, block.clone(), Txg(5), limit);
    let mut more = 0;
    for at in 0..1000_u64 {
        let block = at * (4 << 20)..at * (4 << 20) + 512;
        let around = around(&block, 32 << 20).unwrap_or(block.clone());
        assert!(around.start <= block.start && block.end <= around.end);
        more += around.end - around.start - 512;
    }
    assert!(more <= CREDIT_BYTES_MAX);
    let block = 0..512;
    assert_eq!(around(&block, 32 << 20), None);
    (0..32).for_each(|_| kept.earn());
    assert_eq!(around(&block, 32 << 20), Some(0..2 << 20));
    assert_eq!(around(&block, 0), None, "nothing can be kept");
}

#[test]
fn what_is_kept_is_not_read_again_around_blocks() {
    let kept = Kept::default();
    let keep = |start: u64, bytes: usize| {
        kept.keep((VDEV, start), &vec![7; bytes], Txg(5), 32 << 20);
    };
    let around = |block: Range<u64>, seen| kept.around(VDEV, block, seen, 32 << 20);
    let block = 300 << 10..301 << 10;
    keep(0, 100 << 10);
    keep(1900 << 10, 148 << 10);
    let left = Some(100 << 10..1900 << 10);
    assert_eq!(around(block.clone(), Txg(5)), left);
    // What was read earlier may not have what is wanted now; so it is read again.
    assert_eq!(around(block.clone(), Txg(6)), Some(0..2 << 20));
    // Up to the block, not into it.
    keep(0, 400 << 10);
    assert_eq!(around(block, Txg(5)), Some(300 << 10..1900 << 10));
    // What is long is a part of what others read as well.
    assert_eq!(around(500 << 10..1600 << 10, Txg(5)), None);
}

#[test]
fn what_nobody_finds_anything_in_is_let_go() {
    let kept = Kept::default();
    kept.keep((VDEV, 0), &[7; 1024], Txg(5), 32 << 20);
    kept.age();
    assert!(kept.get((VDEV, 0), 512, Txg(5)).is_some());
    kept.earn();
    kept.age();
    assert!(kept.get((VDEV, 0), 512, Txg(5)).is_some());
    kept.age();
    assert!(kept.get((VDEV, 0), 512, Txg(5)).is_none());
    assert!(kept.state.lock().chunks.is_empty());
}

const DEVICE_BYTES: usize = 4 * CHUNK_BYTES as usize;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Keep(usize, usize),
    Txg,
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..DEVICE_BYTES / 512, 1..200_usize);
    prop_oneof![
        3 => range.clone().prop_map(|(at, len)| Step::Write(at, len)),
        3 => range.prop_map(|(at, len)| Step::Keep(at, len)),
        1 => Just(Step::Txg),
    ]
}

proptest! {
    /// A device of which each sector says who wrote it: what is found of a block is what the device has.
    #[test]
    fn what_is_found_is_what_is_there(steps in prop::collection::vec(step(), 1..60)) {
        let kept = Kept::default();
        let mut device = vec![0_u8; DEVICE_BYTES];
        // Blocks in use: where they are, and their births.
        let mut blocks: Vec<(Range<usize>, Txg)> = Vec::new();
        let mut now = Txg(5);
        let bytes = |at: usize, len: usize| at * 512..((at + len) * 512).min(DEVICE_BYTES);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write(at, len) => {
                    let range = bytes(at, len);
                    blocks.retain(|(other, _)| other.end <= range.start || range.end <= other.start);
                    device[range.clone()].fill(number as u8 + 1);
                    blocks.push((range, now));
                }
                Step::Keep(at, len) => {
                    let range = bytes(at, len);
                    // This txg is under way.
                    let seen = Txg(now.0 - 1);
                    kept.keep((VDEV, range.start as u64), &device[range], seen, LIMIT);
                }
                Step::Txg => now = now.next(),
            }
            for (range, birth) in &blocks {
                let found = kept.get((VDEV, range.start as u64), range.len() as u64, *birth);
                if let Some(found) = found {
                    prop_assert!(found[..] == device[range.clone()]);
                }
            }
        }
    }
}
