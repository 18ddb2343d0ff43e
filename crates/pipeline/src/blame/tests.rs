use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use base::Bookmark;
use format::BlockPointer;

use crate::testing::{Rig, TXG, noise, request};
use crate::{ErrorLog, PrefetchRequest, ReadError, ReadRequest, WritePolicy, WriteRequest};

/// Checksum errors of both sides.
fn blamed(rig: &Rig) -> [u64; 2] {
    let tops = rig.pipeline.vdevs.tops();
    let leaves: Vec<u64> = tops
        .iter()
        .flat_map(|top| top.leaves())
        .map(|leaf| leaf.errors().checksum)
        .collect();
    leaves.try_into().expect("two sides")
}

fn offset(block: &BlockPointer, copy: usize) -> u64 {
    block.dva(copy).expect("an address").offset
}

fn ahead(blocks: &[BlockPointer]) -> Vec<PrefetchRequest> {
    let request = |block: &BlockPointer| PrefetchRequest {
        seen: TXG,
        block: *block,
        bookmark: Bookmark::default(),
        follow: None,
    };
    blocks.iter().map(request).collect()
}

/// Blocks that lie one after the other, and are not in the cache.
fn written(rig: &Rig, count: u64) -> Vec<BlockPointer> {
    let write = |seed| rig.write(&request(&noise(8192, seed))).expect("room");
    let blocks = (0..count).map(write).collect();
    rig.pipeline.cache().clear();
    blocks
}

/// Requested, then freed, and the places given to others: of which one side has written its part, or both.
#[test]
fn who_reads_ahead_too_late_blames_nobody() {
    for (sides, count) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
        let rig = Rig::with(|config| config.heal = true);
        let blocks = written(&rig, count);
        let requests = ahead(&blocks);
        for disk in rig.disks.iter().take(sides) {
            let all = 8192 * blocks.len();
            disk.damage(offset(&blocks[0], 0), all);
        }
        rig.leave.0.store(false, Ordering::Relaxed);
        let theirs = rig.disks[0].at(offset(&blocks[0], 0), 8192);
        rig.pipeline.read_ahead(&requests);
        rig.pipeline.cache().clear();
        for stretch in crate::prefetch::stretches(requests) {
            rig.pipeline.read_stretch(&stretch, &mut |_, _| {});
        }
        assert_eq!(blamed(&rig), [0, 0], "{sides} sides, {count} blocks");
        assert_eq!(rig.disks[0].at(offset(&blocks[0], 0), 8192), theirs);
    }
}

#[test]
fn damage_that_is_met_by_reading_ahead_is_counted_where_it_is() {
    for (heal, count) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let rig = Rig::with(|config| config.heal = heal);
        let blocks = written(&rig, count);
        // Offset 0 is asked of the first side first.
        rig.disks[0].damage(offset(&blocks[0], 0), 100);
        assert_eq!(rig.pipeline.read_ahead(&ahead(&blocks)), 0);
        assert_eq!(blamed(&rig), [1, 0], "heal {heal}, {count} blocks");
        let first = rig.disks[0].at(offset(&blocks[0], 0), 8192);
        assert_eq!(first == noise(8192, 0)[..], heal);
    }
}

#[test]
fn a_copy_that_is_bad_on_all_sides_is_counted_when_another_is_right() {
    let rig = Rig::new();
    let data = noise(8192, 1);
    let policy = WritePolicy {
        copies: 2,
        ..request(&data).policy
    };
    let write = WriteRequest {
        policy,
        ..request(&data)
    };
    let block = rig.write(&write).expect("room");
    rig.disks
        .iter()
        .for_each(|disk| disk.damage(offset(&block, 0), 100));
    rig.pipeline.cache().clear();
    rig.leave.0.store(false, Ordering::Relaxed);
    assert_eq!(rig.pipeline.read_ahead(&ahead(&[block])), 0);
    assert_eq!(blamed(&rig), [0, 0], "it may be another's");
    rig.leave.0.store(true, Ordering::Relaxed);
    rig.pipeline.cache().clear();
    assert_eq!(rig.pipeline.read_ahead(&ahead(&[block])), 0);
    assert_eq!(blamed(&rig), [1, 1]);
}

#[derive(Default)]
struct Noted(Mutex<usize>);

impl ErrorLog for Noted {
    fn record(&self, _: &ReadError) {
        *self.0.lock().unwrap() += 1;
    }
}

/// A later pass of the sync rewrites it, or it was freed long ago.
#[test]
fn a_reader_that_comes_too_late_blames_nobody_either() {
    let noted = Arc::new(Noted::default());
    let rig = Rig::with(|config| config.error_log = Some(Arc::clone(&noted) as _));
    let block = written(&rig, 1)[0];
    rig.disks
        .iter()
        .for_each(|disk| disk.damage(offset(&block, 0), 100));
    rig.leave.0.store(false, Ordering::Relaxed);
    assert!(rig.read(&block).is_err());
    assert_eq!((blamed(&rig), *noted.0.lock().unwrap()), ([0, 0], 0));
    assert_eq!(rig.pipeline.statistics().unreadable, 0);
    rig.leave.0.store(true, Ordering::Relaxed);
    assert_eq!(rig.pipeline.read_ahead(&ahead(&[block])), 1);
    assert_eq!(blamed(&rig), [0, 0], "who needs it will say so");
    assert!(rig.read(&block).is_err());
    assert_eq!((blamed(&rig), *noted.0.lock().unwrap()), ([1, 1], 1));
    assert_eq!(rig.pipeline.statistics().unreadable, 1);
}

/// Whoever does not say when he saw the pointer keeps the block as it is.
#[test]
fn without_a_word_about_when_it_was_seen_the_block_is_there() {
    let rig = Rig::new();
    let block = written(&rig, 1)[0];
    rig.disks[0].damage(offset(&block, 0), 100);
    rig.leave.0.store(false, Ordering::Relaxed);
    let ask = ReadRequest::new(Bookmark::default()).uncached();
    rig.pipeline.read(&block, &ask).expect("the other side");
    assert_eq!(blamed(&rig), [1, 0]);
}

/// The block of a log's record whose write was cut off.
#[test]
fn a_gang_that_was_never_promised_blames_nobody() {
    let rig = Rig::new();
    rig.allocator.longest.store(4096, Ordering::Relaxed);
    let block = rig.write(&request(&noise(8192, 1))).expect("in pieces");
    assert!(block.is_gang());
    for dva in block.dvas() {
        rig.disks
            .iter()
            .for_each(|disk| disk.damage(dva.offset, 512));
    }
    let ask = ReadRequest::new(Bookmark::default()).uncached();
    rig.pipeline
        .read_stored(&block, &ask.unpromised())
        .expect_err("no header");
    rig.pipeline.scrub_unpromised(&block, Bookmark::default());
    assert_eq!(blamed(&rig), [0, 0]);
    rig.pipeline
        .read_stored(&block, &ask)
        .expect_err("no header");
    assert_ne!(blamed(&rig), [0, 0]);
}
