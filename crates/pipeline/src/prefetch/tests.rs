use std::time::{Duration, Instant};

use super::*;
use crate::testing::{Rig, noise, request};

fn prefetch_request(block: &BlockPointer) -> PrefetchRequest {
    PrefetchRequest {
        seen: base::Txg(0),
        block: *block,
        bookmark: Bookmark::default(),
        follow: None,
    }
}

#[test]
fn a_requested_block_arrives_and_the_budget_holds() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..20)
        .map(|seed| rig.write(&request(&noise(64 << 10, seed))).expect("room"))
        .collect();
    rig.pipeline.cache().clear();
    let pipeline = Arc::new(rig.pipeline);
    let prefetcher = Prefetcher::new(Arc::clone(&pipeline), 1, 128 << 10);
    for block in &blocks {
        prefetcher.prefetch(&[prefetch_request(block)]);
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
    prefetcher.prefetch(&[prefetch_request(&blocks[0])]);
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
    let requests: Vec<PrefetchRequest> = blocks.iter().map(prefetch_request).collect();
    rig.pipeline.cache().clear();
    let before = reads();
    assert_eq!(rig.pipeline.read_ahead(&requests[..4]), 0);
    assert_eq!(reads() - before, 1, "one operation for four blocks");
    assert_eq!(rig.pipeline.read_ahead(&requests[..4]), 0);
    assert_eq!(reads() - before, 1, "they are there");
    assert_eq!(rig.pipeline.read_ahead(&requests[4..]), 1);
    assert_eq!(rig.pipeline.cache().statistics().blocks, 5);
    for (seed, block) in blocks.iter().enumerate().filter(|(at, _)| *at != 4) {
        let asked = crate::ReadRequest::new(Bookmark::default());
        let data = rig.pipeline.read(block, &asked).expect("readable");
        assert!(data[..] == noise(32 << 10, seed as u64)[..]);
    }
}

fn reads_of(rig: &Rig) -> u64 {
    let count = |disk: &Arc<crate::testing::Memory>| disk.reads.load(Ordering::Relaxed);
    rig.disks.iter().map(count).sum()
}

fn wait(prefetcher: &Prefetcher) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while prefetcher.statistics().in_flight_bytes > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(prefetcher.statistics().in_flight_bytes, 0);
}

#[test]
fn scattered_blocks_are_read_with_the_gaps_between_them_and_nothing_of_these_is_kept() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..8)
        .map(|seed| rig.write(&request(&noise(32 << 10, seed))).expect("room"))
        .collect();
    for disk in &rig.disks {
        disk.damage(blocks[4].dva(0).expect("an address").offset, 100);
    }
    rig.pipeline.cache().clear();
    let requests = [6, 0, 2].map(|at: usize| prefetch_request(&blocks[at]));
    let found = stretches(requests.to_vec());
    let [stretch] = &found[..] else {
        panic!("{found:?}");
    };
    let before = reads_of(&rig);
    let mut seen = 0;
    let failed = rig.pipeline.read_stretch(stretch, &mut |_, _| seen += 1);
    assert_eq!((failed, seen), (0, 3));
    assert_eq!(reads_of(&rig) - before, 1, "one operation for three blocks");
    assert_eq!(rig.pipeline.cache().statistics().blocks, 3);
    // A bad block harms only itself, and what is there is not read again.
    let found = stretches(
        [2, 4, 5, 7]
            .map(|at: usize| prefetch_request(&blocks[at]))
            .to_vec(),
    );
    assert_eq!(found.len(), 1);
    assert_eq!(rig.pipeline.read_stretch(&found[0], &mut |_, _| {}), 1);
    assert_eq!(rig.pipeline.cache().statistics().blocks, 5);
    for at in [0, 2, 5, 6, 7] {
        let asked = crate::ReadRequest::new(Bookmark::default());
        let data = rig.pipeline.read(&blocks[at], &asked).expect("readable");
        assert!(data[..] == noise(32 << 10, at as u64)[..]);
    }
}

#[test]
fn stretches_end_at_wide_gaps_and_go_on_where_the_last_ended_at_their_size() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..40)
        .map(|seed| rig.write(&request(&noise(64 << 10, seed))).expect("room"))
        .collect();
    let all = stretches(blocks.iter().map(prefetch_request).collect());
    let place = |block: &BlockPointer| block.dva(0).expect("an address").offset;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].start, place(&blocks[0]));
    let last = all[0].requests.last().expect("not empty");
    assert_eq!(all[1].start, place(&last.block) + last.block.psize());
    let far = stretches(
        [0, 39]
            .map(|at: usize| prefetch_request(&blocks[at]))
            .to_vec(),
    );
    assert_eq!(far.len(), 2);
    assert_eq!(far[1].start, place(&blocks[39]));
}

/// What the blocks of one test lead to.
static BEHIND: std::sync::Mutex<Vec<(u64, PrefetchRequest)>> = std::sync::Mutex::new(Vec::new());

fn behind(data: &[u8], request: &PrefetchRequest) -> Vec<PrefetchRequest> {
    assert_eq!(data.len() as u64, request.block.lsize());
    let mark = request.bookmark.block;
    let all = BEHIND.lock().unwrap();
    let found = all.iter().filter(|(from, _)| *from == mark);
    found.map(|(_, request)| *request).collect()
}

#[test]
fn what_scattered_blocks_lead_to_is_read_when_all_of_them_were() {
    let rig = Rig::new();
    let blocks: Vec<BlockPointer> = (0..40)
        .map(|seed| rig.write(&request(&noise(32 << 10, seed))).expect("room"))
        .collect();
    rig.pipeline.cache().clear();
    let pipeline = Arc::new(rig.pipeline);
    let prefetcher = Prefetcher::new(Arc::clone(&pipeline), 2, 16 << 20);
    let named = |at: u64| {
        let mut request = prefetch_request(&blocks[at as usize]);
        request.bookmark.block = at;
        request
    };
    // 0 and 38 are too far apart for one operation; 5 leads on.
    *BEHIND.lock().unwrap() = vec![(0, named(4)), (38, named(5)), (5, named(6))];
    prefetcher.prefetch_scattered(vec![named(38), named(0)], Some(behind));
    let deadline = Instant::now() + Duration::from_secs(10);
    while pipeline.cache().statistics().blocks < 5 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    wait(&prefetcher);
    assert_eq!(pipeline.cache().statistics().blocks, 5);
    assert_eq!(prefetcher.statistics().issued, 5);
    // What is there already leads on as well.
    BEHIND.lock().unwrap().push((4, named(8)));
    prefetcher.prefetch_scattered(vec![named(4)], Some(behind));
    while pipeline.cache().statistics().blocks < 6 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    wait(&prefetcher);
    assert_eq!(pipeline.cache().statistics().blocks, 6);
    assert_eq!(prefetcher.shared.following.lock().under_way, 0);
}
