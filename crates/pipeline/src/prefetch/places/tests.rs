use base::{Bookmark, Txg};
use format::BlockPointer;

use super::*;
use crate::prefetch::Follow;
use crate::testing::{Rig, noise, request};

fn wanted(block: &BlockPointer, follow: Option<Follow>) -> PrefetchRequest {
    PrefetchRequest {
        block: *block,
        bookmark: Bookmark::default(),
        seen: Txg(1),
        follow,
    }
}

fn blocks(rig: &Rig, count: u64) -> Vec<BlockPointer> {
    let write = |seed| rig.write(&request(&noise(64 << 10, seed))).expect("room");
    (0..count).map(write).collect()
}

fn offset(block: &BlockPointer) -> u64 {
    block.dva(0).expect("an address").offset
}

#[test]
fn all_that_wait_are_taken_by_place_whoever_asked_first() {
    let rig = Rig::new();
    let blocks = blocks(&rig, 61);
    let mut places = Places::default();
    // Too far apart to be read together.
    for at in [60, 0, 30] {
        assert!(places.add(wanted(&blocks[at], None)).is_none());
    }
    let first = places.take().expect("something waits");
    assert_eq!(first.start, offset(&blocks[0]));
    // Those that come now and lie ahead have their turn on the way, those behind when it begins anew.
    for at in [31, 1] {
        assert!(places.add(wanted(&blocks[at], None)).is_none());
    }
    let order = std::iter::from_fn(|| places.take());
    let order: Vec<Vec<u64>> = order
        .map(|stretch| {
            stretch
                .requests
                .iter()
                .map(|one| offset(&one.block))
                .collect()
        })
        .collect();
    let place = |at: usize| offset(&blocks[at]);
    assert_eq!(order[0][0], place(1));
    assert_eq!(order.concat(), [1, 30, 31, 60].map(place));
    assert_eq!(places.len(), 0);
}

fn nothing(_: &[u8], _: &PrefetchRequest) -> Vec<PrefetchRequest> {
    Vec::new()
}

#[test]
fn a_block_waits_once_and_leads_on_if_any_of_its_requests_does() {
    let rig = Rig::new();
    let block = blocks(&rig, 1)[0];
    let mut places = Places::default();
    let mut dropped = Vec::new();
    for follow in [None, Some(nothing as Follow), None] {
        dropped.extend(places.add(wanted(&block, follow)));
    }
    assert_eq!((dropped.len(), places.len()), (2, 1));
    assert!(dropped.iter().all(|request| request.follow.is_none()));
    let stretch = places.take().expect("it waits");
    assert!(stretch.requests[0].follow.is_some());
    // What has no place is not kept waiting.
    assert!(places.add(wanted(&BlockPointer::HOLE, None)).is_some());
}
