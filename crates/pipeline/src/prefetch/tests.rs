use std::time::{Duration, Instant};

use super::*;
use crate::testing::{Rig, noise, request};

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
        prefetcher.prefetch(block, Bookmark::default());
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
    prefetcher.prefetch(&blocks[0], Bookmark::default());
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
