//! What is kept for a checkpoint: in use as before, and listed in a map of the vdev.

use super::{MemoryStore, SIZE, check, open};
use crate::{ClassKind, Extent, PoolSpace, Request};
use base::{Txg, VdevId};
use format::space_map::{Action, decode};
use std::ops::Range;

fn take(space: &PoolSpace, store: &MemoryStore, size: u64, txg: Txg) -> Extent {
    let request = Request {
        size,
        copies: 1,
        txg,
        class: ClassKind::Normal,
        hint: 0,
    };
    space.allocate(&request, store).unwrap().remove(0)
}

fn sync(space: &PoolSpace, store: &MemoryStore, txg: Txg) {
    space.sync(txg, 1, store).unwrap();
    space.finish(txg).unwrap();
}

fn listed(store: &MemoryStore) -> Vec<Range<u64>> {
    let state = store.state.borrow();
    let map = &state.maps[&state.kept[&0]];
    let entries = decode(&map.bytes, 9).map(Result::unwrap);
    let ranges: Vec<Range<u64>> = entries
        .map(|entry| {
            assert_eq!(entry.action, Action::Free);
            entry.offset..entry.offset + entry.length
        })
        .collect();
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert_eq!(map.allocated, -bytes.cast_signed());
    ranges
}

fn what_is_kept_stays_in_use_and_is_listed(logs: bool) {
    let store = MemoryStore::default();
    let space = open(&store, 1, logs);
    let txg = Txg(4);
    let held: Vec<Extent> = (0..8).map(|_| take(&space, &store, 4096, txg)).collect();
    sync(&space, &store, txg);
    check(&space, &store, &held);
    space.keep(&held[1]).unwrap();
    space.keep(&held[2]).unwrap();
    assert!(space.keep(&held[1]).is_err(), "kept twice");
    assert!(space.free(&held[1]).is_err(), "kept and freed");
    space.free(&held[3]).unwrap();
    assert!(space.keep(&held[3]).is_err(), "freed and kept");
    assert!(space.is_dirty(txg.next()));
    sync(&space, &store, txg.next());
    let both = held[1].range.start..held[2].range.end;
    assert_eq!(listed(&store), vec![both]);
    let kept: u64 = space.vdevs().iter().map(|vdev| vdev.kept_bytes()).sum();
    assert_eq!(kept, 8192);
    let others: Vec<Extent> = [&held[..3], &held[4..]].concat();
    check(&space, &store, &others);
    check(&open(&store, 1, logs), &store, &others);
    // Given up for good.
    space.free(&held[1]).unwrap();
    space.free(&held[2]).unwrap();
    sync(&space, &store, txg.next().next());
    let others: Vec<Extent> = [&held[..1], &held[4..]].concat();
    check(&space, &store, &others);
}

#[test]
fn what_is_kept_stays_in_use_and_is_listed_with_logs() {
    what_is_kept_stays_in_use_and_is_listed(true);
}

#[test]
fn what_is_kept_stays_in_use_and_is_listed_without_logs() {
    what_is_kept_stays_in_use_and_is_listed(false);
}

#[test]
fn no_entry_reaches_into_another_metaslab() {
    let store = MemoryStore::default();
    let space = open(&store, 1, true);
    let txg = Txg(4);
    let metaslab = 1_u64 << 16;
    for start in (0..SIZE).step_by(32 << 10) {
        let extent = Extent {
            vdev: VdevId(0),
            range: start..start + (32 << 10),
        };
        space.claim(&extent, txg, &store).unwrap();
    }
    sync(&space, &store, txg);
    for start in (0..SIZE).step_by(32 << 10) {
        let extent = Extent {
            vdev: VdevId(0),
            range: start..start + (32 << 10),
        };
        space.keep(&extent).unwrap();
    }
    sync(&space, &store, txg.next());
    let ranges = listed(&store);
    assert_eq!(ranges.len() as u64, SIZE / metaslab);
    for range in ranges {
        assert_eq!(range.start / metaslab, (range.end - 1) / metaslab);
    }
}
