use base::ObjectSetId;
use codec::Checksum;
use format::ObjectType;

use super::*;

fn found(offset: u64, size: u64) -> Found {
    let mut block = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, size, size);
    block.set_checksum(Checksum::Fletcher4, codec::ChecksumValue([0; 4]));
    block.set_dva(
        0,
        Some(Dva {
            vdev: VdevId(0),
            offset,
            asize: size,
            gang: false,
        }),
    );
    block.set_birth(Txg(5), Txg(5));
    Found {
        block,
        bookmark: Bookmark::root(ObjectSetId(1)),
    }
}

fn places(run: &[PendingCopy]) -> Vec<u64> {
    run.iter().map(|copy| copy.dva.offset >> 12).collect()
}

fn collect(pending: &PendingBlocks, synced: u64, places: &[u64]) {
    let collecting = pending.collect();
    collecting.over(Txg(synced));
    let found: Vec<_> = places
        .iter()
        .map(|place| found(place << 12, 4096))
        .collect();
    collecting.add(&found);
}

#[test]
fn copies_are_taken_in_the_order_of_their_places_and_read_together_where_that_is_cheap() {
    let pending = PendingBlocks::new();
    pending.begin();
    // 256 blocks of 4 KiB are 1 MiB, which may be read along; in all no more than that and as much again as is wanted.
    collect(&pending, 7, &[900, 3, 1, 2, 5, 7, 200, 258, 259, 300, 430]);
    let mut runs = Vec::new();
    while !pending.is_empty() {
        let (start, run) = pending.take_run(VdevId(0));
        runs.push((start >> 12, places(&run)));
    }
    let expected = [
        (0, vec![1, 2, 3, 5, 7, 200, 258, 259]),
        (260, vec![300, 430]),
        (900, vec![900]),
    ];
    assert_eq!(runs, expected);
    assert_eq!(pending.bytes(), 0);
    assert!(pending.take_run(VdevId(0)).1.is_empty());
}

#[test]
fn what_is_freed_is_not_looked_at() {
    let pending = PendingBlocks::new();
    let free = |txg: u64, place: u64| pending.freed(Txg(txg), &found(place << 12, 4096).block);
    let left = || {
        let mut left = Vec::new();
        while !pending.is_empty() {
            left.extend(places(&pending.take_run(VdevId(0)).1));
        }
        left
    };
    free(7, 1);
    let number = pending.begin();
    collect(&pending, 7, &[1, 2, 3]);
    free(8, 2);
    assert_eq!(left(), [1, 3]);
    // Freed in the txg under way, before the walk over the state of the txg before it begins.
    free(8, 4);
    collect(&pending, 7, &[4, 5]);
    assert_eq!(left(), [5]);
    // Freed while the walk is under way, also by txgs that begin meanwhile.
    let collecting = pending.collect();
    collecting.over(Txg(7));
    free(8, 6);
    free(9, 7);
    free(10, 8);
    collecting.add(&[6, 7, 8, 9].map(|place| found(place << 12, 4096)));
    drop(collecting);
    assert_eq!(left(), [9]);
    // The place was given away since.
    collect(&pending, 12, &[4, 6]);
    assert_eq!(left(), [4, 6]);
    pending.end(number);
    free(13, 1);
    assert!(pending.state.lock().freed.is_empty());
}

/// The txg whose state a slice sees ends, and the next one frees, between the slice's hold and its first look.
#[test]
fn what_is_freed_between_the_hold_and_the_walk_is_not_forgotten() {
    let pending = PendingBlocks::new();
    pending.begin();
    let free = |txg: u64, place: u64| pending.freed(Txg(txg), &found(place << 12, 4096).block);
    let collecting = pending.collect();
    free(8, 1);
    free(9, 2);
    collecting.over(Txg(7));
    collecting.add(&[1, 2, 3].map(|place| found(place << 12, 4096)));
    assert_eq!(places(&pending.take_run(VdevId(0)).1), [3]);
}

#[test]
fn a_scan_that_ends_late_leaves_its_successor_what_that_has_collected() {
    let pending = PendingBlocks::new();
    let first = pending.begin();
    let late = pending.collect();
    let second = pending.begin();
    collect(&pending, 7, &[1]);
    late.add(&[found(2 << 12, 4096)]);
    drop(late);
    pending.end(first);
    assert_eq!(places(&pending.take_run(VdevId(0)).1), [1]);
    pending.end(second);
    assert!(!pending.is_active.load(Ordering::SeqCst));
}
