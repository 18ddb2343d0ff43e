use std::time::{Duration, Instant};

use super::*;
use crate::testing::{Rig, noise, request};

fn wish(block: &BlockPointer) -> Wish {
    Wish {
        block: *block,
        bookmark: Bookmark::default(),
    }
}

#[test]
fn a_wished_block_arrives_and_the_budget_holds() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..20)
        .map(|seed| rig.write(&request(&noise(64 << 10, seed))).expect("room"))
        .collect();
    rig.pipeline.cache().clear();
    let pipeline = Arc::new(rig.pipeline);
    let prefetcher = Prefetcher::new(Arc::clone(&pipeline), 1, 128 << 10);
    for block in &blocks {
        prefetcher.prefetch(&[wish(block)]);
        assert!(prefetcher.statistics().in_flight_bytes <= 128 << 10);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while prefetcher.statistics().in_flight_bytes > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let statistics = prefetcher.statistics();
    assert_eq!(statistics.issued + statistics.refused, 20);
    assert!(statistics.issued >= 2);
    assert_eq!(pipeline.cache().statistics().blocks, statistics.issued);
    prefetcher.prefetch(&[wish(&blocks[0])]);
    assert_eq!(prefetcher.statistics().present, 1);
    assert_eq!(prefetcher.statistics().hit, 0);
    for _ in 0..2 {
        let asked = crate::ReadRequest::new(Bookmark::default());
        pipeline.read(&blocks[0], &asked).expect("readable");
    }
    assert_eq!(
        prefetcher.statistics().hit,
        1,
        "counted when first asked for"
    );
    assert_eq!(prefetcher.statistics().wasted, 0);
}

#[test]
fn neighbours_are_read_with_one_operation_and_a_bad_one_harms_only_itself() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..6)
        .map(|seed| rig.write(&request(&noise(32 << 10, seed))).expect("room"))
        .collect();
    for disk in &rig.disks {
        disk.damage(blocks[4].dva(0).expect("an address").offset, 100);
    }
    let reads = || -> u64 {
        let count = |disk: &Arc<crate::testing::Memory>| disk.reads.load(Ordering::Relaxed);
        rig.disks.iter().map(count).sum()
    };
    let wishes: Vec<Wish> = blocks.iter().map(wish).collect();
    rig.pipeline.cache().clear();
    let before = reads();
    assert_eq!(rig.pipeline.read_ahead(&wishes[..4]), 0);
    assert_eq!(reads() - before, 1, "one operation for four blocks");
    assert_eq!(rig.pipeline.read_ahead(&wishes[..4]), 0);
    assert_eq!(reads() - before, 1, "they are there");
    assert_eq!(rig.pipeline.read_ahead(&wishes[4..]), 1);
    assert_eq!(rig.pipeline.cache().statistics().blocks, 5);
    for (seed, block) in blocks.iter().enumerate().filter(|(at, _)| *at != 4) {
        let asked = crate::ReadRequest::new(Bookmark::default());
        let data = rig.pipeline.read(block, &asked).expect("readable");
        assert!(data[..] == noise(32 << 10, seed as u64)[..]);
    }
}
