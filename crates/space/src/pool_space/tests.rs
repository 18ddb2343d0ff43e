//! Random allocations and frees over many txgs, against a plain list; reopened from the store in between.

mod kept;

use super::{Extent, PoolSpace, Request};
use crate::{
    ClassKind, MapAppend, MapContents, MetaslabInfo, SpaceError, SpaceStore, StoreError,
    VdevGeometry, VdevSpace, tunables,
};
use base::{ObjectId, Txg, VdevId};
use layout::{Kind, Layout};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
struct MemoryStore {
    state: RefCell<MemoryState>,
}

#[derive(Clone, Default)]
struct MemoryState {
    next: u64,
    maps: BTreeMap<u64, MapContents>,
    metaslabs: BTreeMap<(u64, usize), MetaslabInfo>,
    logs: BTreeMap<u64, u64>,
    /// Maps of what is kept for a checkpoint, by vdev.
    kept: BTreeMap<u64, u64>,
    /// By map, from the longest free segment that it tells of.
    longest: BTreeMap<u64, u64>,
    reads: u64,
}

impl SpaceStore for MemoryStore {
    fn read(&self, object: ObjectId) -> Result<MapContents, StoreError> {
        let mut state = self.state.borrow_mut();
        state.reads += 1;
        state
            .maps
            .get(&object.0)
            .cloned()
            .ok_or_else(|| "no such map".into())
    }
    fn length(&self, object: ObjectId) -> Result<u64, StoreError> {
        Ok(self.read(object)?.bytes.len() as u64)
    }
    fn create(&self, vdev: VdevId, metaslab: usize) -> Result<ObjectId, StoreError> {
        let object = new_map(&mut self.state.borrow_mut());
        self.state
            .borrow_mut()
            .metaslabs
            .entry((vdev.0, metaslab))
            .or_default()
            .object = object;
        Ok(object)
    }
    fn kept_map(&self, vdev: VdevId) -> Result<ObjectId, StoreError> {
        let mut state = self.state.borrow_mut();
        if let Some(map) = state.kept.get(&vdev.0) {
            return Ok(ObjectId(*map));
        }
        let map = new_map(&mut state);
        state.kept.insert(vdev.0, map.0);
        Ok(map)
    }
    fn append(&self, object: ObjectId, append: &MapAppend<'_>) -> Result<(), StoreError> {
        let mut state = self.state.borrow_mut();
        let map = state.maps.get_mut(&object.0).ok_or("no such map")?;
        map.bytes.extend_from_slice(append.bytes);
        map.allocated += append.allocated_change;
        if let Some(histogram) = append.histogram {
            let longest = (0..32).rev().find(|class| histogram[*class] > 0);
            let longest = longest.map_or(0, |class| 512 << class);
            state.longest.insert(object.0, longest);
        }
        Ok(())
    }
    fn clear(&self, object: ObjectId) -> Result<(), StoreError> {
        self.state
            .borrow_mut()
            .maps
            .insert(object.0, MapContents::default());
        Ok(())
    }
    fn set_unflushed(&self, vdev: VdevId, metaslab: usize, txg: Txg) -> Result<(), StoreError> {
        self.state
            .borrow_mut()
            .metaslabs
            .entry((vdev.0, metaslab))
            .or_default()
            .unflushed = txg;
        Ok(())
    }
    fn log(&self, txg: Txg) -> Result<ObjectId, StoreError> {
        let mut state = self.state.borrow_mut();
        if let Some(log) = state.logs.get(&txg.0) {
            return Ok(ObjectId(*log));
        }
        let object = new_map(&mut state);
        state.logs.insert(txg.0, object.0);
        Ok(object)
    }
    fn trim_logs(&self, before: Txg) -> Result<(), StoreError> {
        self.state
            .borrow_mut()
            .logs
            .retain(|txg, _| *txg >= before.0);
        Ok(())
    }
    fn block_size(&self, _: ObjectId) -> Result<usize, StoreError> {
        Ok(512)
    }
}

fn new_map(state: &mut MemoryState) -> ObjectId {
    state.next += 1;
    state.maps.insert(state.next, MapContents::default());
    ObjectId(state.next)
}

/// Held by tests that rely on the limits.
static LIMITS: std::sync::Mutex<()> = std::sync::Mutex::new(());

const SIZE: u64 = 256 << 10;

fn open(store: &MemoryStore, vdevs: u64, logs: bool) -> PoolSpace {
    let state = store.state.borrow().clone();
    let spaces = (0..vdevs).map(|vdev| {
        let geometry = VdevGeometry {
            vdev: VdevId(vdev),
            class: ClassKind::Normal,
            layout: Layout::new(Kind::Single, 9),
            metaslab_shift: 16,
            size: SIZE,
        };
        let known: Vec<MetaslabInfo> = (0..geometry.metaslab_count())
            .map(|index| {
                let mut info = state
                    .metaslabs
                    .get(&(vdev, index))
                    .copied()
                    .unwrap_or_default();
                info.allocated = state
                    .maps
                    .get(&info.object.0)
                    .map_or(0, |map| map.allocated);
                info.longest = state.longest.get(&info.object.0).copied();
                info
            })
            .collect();
        Some(VdevSpace::new(geometry, &known, &Arc::default()))
    });
    let space = PoolSpace::new(spaces.collect(), 2, logs, logs);
    for (position, (txg, log)) in state.logs.iter().enumerate() {
        let newer = state.logs.len() - 1 - position;
        space
            .replay_log(Txg(*txg), ObjectId(*log), &state.maps[log].bytes, newer)
            .unwrap();
    }
    space
}

fn check(space: &PoolSpace, store: &MemoryStore, held: &[Extent]) {
    let bytes: u64 = held
        .iter()
        .map(|extent| extent.range.end - extent.range.start)
        .sum();
    assert_eq!(
        space.allocated_bytes(ClassKind::Normal),
        bytes,
        "allocated bytes"
    );
    for vdev in space.vdevs() {
        let free = vdev.free_ranges(store).unwrap();
        let used = free.gaps(0..SIZE);
        let mut wanted = crate::RangeSet::new();
        for extent in held
            .iter()
            .filter(|extent| extent.vdev == vdev.geometry().vdev)
        {
            assert!(
                wanted.insert(extent.range.clone()),
                "allocated twice: {extent:?}"
            );
        }
        assert_eq!(used, wanted, "what the maps call used");
    }
}

/// What is said of what is loaded is what there is.
fn check_loaded(space: &PoolSpace) {
    let loaded = space.loaded();
    let vdevs = space.vdevs();
    let metaslabs = vdevs.iter().flat_map(|vdev| vdev.metaslabs());
    let count = metaslabs.filter(|metaslab| metaslab.is_loaded()).count();
    assert_eq!(loaded.metaslabs, count as u64);
    // Those that are full take nothing.
    assert!(loaded.metaslabs > 0 || loaded.bytes == 0);
    assert!(loaded.segments == 0 || loaded.bytes > 0);
}

/// Nothing of what was given had been freed a short time before.
fn check_rested(resting: &[(Txg, Extent)], given: &[Extent], txg: Txg) {
    for extent in given {
        let overlap = |other: &Extent| {
            other.vdev == extent.vdev
                && other.range.start < extent.range.end
                && extent.range.start < other.range.end
        };
        let rests = |(freed, other): &(Txg, Extent)| txg.0 < freed.0 + 3 && overlap(other);
        assert!(!resting.iter().any(rests), "used before it had rested");
    }
}

fn run(steps: &[(u8, u64, usize)], vdevs: u64, logs: bool) {
    let store = MemoryStore::default();
    let mut space = open(&store, vdevs, logs);
    let (mut txg, mut pass) = (Txg(4), 1);
    let mut held: Vec<Extent> = Vec::new();
    let mut resting: Vec<(Txg, Extent)> = Vec::new();
    for (kind, size, which) in steps {
        match kind {
            0..5 => {
                let copies = which % 3 + 1;
                let class = [ClassKind::Normal, ClassKind::Special][which % 2];
                let request = Request {
                    size: size * 512,
                    copies,
                    txg,
                    class,
                    hint: *which,
                };
                match space.allocate(&request, &store) {
                    Ok(extents) => {
                        assert_eq!(extents.len(), copies);
                        check_rested(&resting, &extents, txg);
                        held.extend(extents);
                    }
                    Err(SpaceError::NoSpace { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            5..8 if !held.is_empty() => {
                let extent = held.swap_remove(which % held.len());
                space.free(&extent).unwrap();
                assert!(space.free(&extent).is_err(), "freed twice");
                resting.push((txg, extent));
            }
            8 => {
                space.sync(txg, pass, &store).unwrap();
                pass += 1;
            }
            _ => {
                if pass == 1 {
                    space.flush_some(txg, &store).unwrap();
                }
                space.sync(txg, pass, &store).unwrap();
                space.finish(txg).unwrap();
                space.load_ahead(&store);
                check(&space, &store, &held);
                check_loaded(&space);
                (txg, pass) = (txg.next(), 1);
                if which % 4 == 0 {
                    if which % 8 == 0 {
                        space.flush_all(txg, &store).unwrap();
                        space.sync(txg, 1, &store).unwrap();
                        space.finish(txg).unwrap();
                        txg = txg.next();
                    }
                    space = open(&store, vdevs, logs);
                    // The logs tell what rests; without them nobody does.
                    if !logs {
                        resting.clear();
                    }
                    check(&space, &store, &held);
                }
            }
        }
    }
    space.flush_all(txg, &store).unwrap();
    space.sync(txg, 1, &store).unwrap();
    check(&space, &store, &held);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn maps_tell_what_is_in_use(
        steps in prop::collection::vec((0..10_u8, 1..40_u64, 0..1000_usize), 1..300),
        vdevs in 1..3_u64,
        logs: bool,
        loaded in 0..3_u64,
    ) {
        let _serial = LIMITS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tunables::LOADED_COUNT.set(loaded);
        run(&steps, vdevs, logs);
        tunables::LOADED_COUNT.reset();
    }
}

/// A vdev of many metaslabs, each full but for some holes.
fn many_holes(store: &MemoryStore, metaslabs: u64, holes: u64) -> PoolSpace {
    let space = large(metaslabs, &[]);
    let txg = Txg(4);
    for metaslab in 0..metaslabs {
        let base = metaslab << 16;
        let extent = |range| Extent {
            vdev: VdevId(0),
            range,
        };
        space
            .claim(&extent(base..base + (1 << 16)), txg, store)
            .unwrap();
        for hole in 0..holes {
            let start = base + hole * 1024;
            space.free(&extent(start..start + 512)).unwrap();
        }
    }
    for txg in 4..8 {
        space.sync(Txg(txg), 1, store).unwrap();
        space.finish(Txg(txg)).unwrap();
    }
    space
}

#[test]
fn what_is_loaded_stays_within_its_limit_and_nothing_is_lost_from_sight() {
    let _serial = LIMITS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    tunables::LOADED_COUNT.set(2);
    tunables::LOADED_AHEAD_COUNT.set(1);
    let store = MemoryStore::default();
    let space = many_holes(&store, 60, 16);
    assert_eq!(space.loaded().metaslabs, 2);
    let mut taken = 0;
    let mut txg = Txg(8);
    let before = space.loaded().loads;
    loop {
        let request = Request {
            txg,
            ..request(ClassKind::Normal, 512)
        };
        let Ok(extents) = space.allocate(&request, &store) else {
            break;
        };
        taken += extents.len();
        if taken % 8 == 0 {
            space.sync(txg, 1, &store).unwrap();
            space.finish(txg).unwrap();
            // Two, and the one that is worked on.
            assert!(space.loaded().metaslabs <= 3);
            space.load_ahead(&store);
            txg = txg.next();
        }
    }
    tunables::LOADED_COUNT.reset();
    tunables::LOADED_AHEAD_COUNT.reset();
    assert_eq!(taken, 60 * 16, "every hole was found");
    let loads = space.loaded().loads - before;
    assert!(loads <= 70, "{loads} loads for 60 metaslabs");
}

#[test]
fn bringing_all_maps_up_to_date_keeps_few_loaded() {
    let _serial = LIMITS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    tunables::LOADED_COUNT.set(2);
    let store = MemoryStore::default();
    let space = many_holes(&store, 60, 16);
    let before = space.loaded().loads;
    space.flush_all(Txg(8), &store).unwrap();
    let loaded = space.loaded();
    tunables::LOADED_COUNT.reset();
    assert!(loaded.loads >= before + 58, "{loaded:?}");
    assert_eq!(loaded.metaslabs, 2, "the txg has not ended");
    assert_eq!(space.unflushed_ranges(), 0);
}

#[test]
fn an_allocation_waits_for_one_map_at_most() {
    let _serial = LIMITS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    tunables::LOADED_COUNT.set(0);
    let store = MemoryStore::default();
    let space = many_holes(&store, 40, 16);
    tunables::LOADED_COUNT.reset();
    assert_eq!(space.loaded().metaslabs, 0);
    // What there is nowhere: each may have it, as far as is known without its map.
    for _ in 0..4 {
        let before = store.state.borrow().reads;
        let request = Request {
            txg: Txg(8),
            ..request(ClassKind::Normal, 4096)
        };
        space.allocate(&request, &store).unwrap_err();
        let reads = store.state.borrow().reads - before;
        // One for each of the two regions that are tried, apart and not.
        assert!(reads <= 4, "{reads} maps read");
    }
    // What there is takes one.
    let before = store.state.borrow().reads;
    let request = Request {
        txg: Txg(8),
        ..request(ClassKind::Normal, 512)
    };
    space.allocate(&request, &store).unwrap();
    assert!(store.state.borrow().reads - before <= 1);
}

#[test]
fn a_txg_looks_at_what_it_changes_only() {
    let _serial = LIMITS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let store = MemoryStore::default();
    let space = many_holes(&store, 200, 2);
    let vdev = &space.vdevs()[0];
    let request = Request {
        txg: Txg(8),
        ..request(ClassKind::Normal, 512)
    };
    let extent = space.allocate(&request, &store).unwrap().remove(0);
    assert_eq!(vdev.lists().dirty(Txg(8)).len(), 1);
    space.sync(Txg(8), 1, &store).unwrap();
    assert!(!space.is_dirty(Txg(8)) && !space.is_resting());
    space.free(&extent).unwrap();
    assert_eq!(vdev.lists().dirty(Txg(9)).len(), 1);
    space.sync(Txg(9), 1, &store).unwrap();
    assert_eq!(vdev.lists().lock().resting.len(), 1);
    for txg in 9..12 {
        space.finish(Txg(txg)).unwrap();
    }
    assert!(!space.is_resting() && vdev.deferred_bytes() == 0);
}

#[test]
fn only_txgs_that_were_written_age_what_was_freed() {
    let store = MemoryStore::default();
    let space = open(&store, 1, true);
    let vdev = &space.vdevs()[0];
    let extent = space
        .allocate(&request(ClassKind::Normal, 4096), &store)
        .unwrap()
        .remove(0);
    space.sync(Txg(5), 1, &store).unwrap();
    space.finish(Txg(5)).unwrap();
    space.free(&extent).unwrap();
    space.sync(Txg(6), 1, &store).unwrap();
    space.finish(Txg(6)).unwrap();
    for written in [9, 12] {
        for quiet in written - 2..written {
            space.pass_over(Txg(quiet));
        }
        assert_eq!(vdev.deferred_bytes(), 4096, "before txg {written}");
        space.finish(Txg(written)).unwrap();
    }
    assert!(!space.is_resting() && vdev.deferred_bytes() == 0);
}

#[test]
fn copies_are_kept_apart() {
    let store = MemoryStore::default();
    let request = Request {
        size: 512,
        copies: 3,
        txg: Txg(4),
        class: ClassKind::Normal,
        hint: 0,
    };
    let extents = open(&store, 1, true).allocate(&request, &store).unwrap();
    let metaslabs: Vec<u64> = extents
        .iter()
        .map(|extent| extent.range.start >> 16)
        .collect();
    assert_eq!(metaslabs.len(), 3);
    assert!(metaslabs[0] != metaslabs[1] && metaslabs[1] != metaslabs[2]);
    let extents = open(&store, 3, true).allocate(&request, &store).unwrap();
    assert!(extents[0].vdev != extents[1].vdev && extents[1].vdev != extents[2].vdev);
}

#[test]
fn metaslabs_are_as_large_as_those_of_new_pools() {
    assert_eq!(VdevGeometry::metaslab_shift_for(91_750_400), 24);
    assert_eq!(VdevGeometry::metaslab_shift_for(8 << 30), 29);
    assert_eq!(VdevGeometry::metaslab_shift_for(1 << 40), 33);
}

#[test]
fn logs_whose_changes_cancel_are_kept_or_dropped_together() {
    let store = MemoryStore::default();
    let space = open(&store, 1, true);
    let request = |hint, txg| Request {
        size: 512,
        copies: 1,
        txg,
        class: ClassKind::Normal,
        hint,
    };
    let end = |txg| {
        space.sync(txg, 1, &store).unwrap();
        space.finish(txg).unwrap();
    };
    let first = space
        .allocate(&request(0, Txg(4)), &store)
        .unwrap()
        .remove(0);
    end(Txg(4));
    // The other metaslab's logs begin with txg 5, where the first's allocation is freed.
    let second = space
        .allocate(&request(1, Txg(5)), &store)
        .unwrap()
        .remove(0);
    assert_ne!(first.range.start >> 16, second.range.start >> 16);
    space.free(&first).unwrap();
    end(Txg(5));
    space.trim_logs(Txg(6), &store).unwrap();
    check(&open(&store, 1, true), &store, &[second]);
}

/// One vdev with that many metaslabs of 64 KiB.
fn large(metaslabs: u64, known: &[MetaslabInfo]) -> PoolSpace {
    let geometry = VdevGeometry {
        vdev: VdevId(0),
        class: ClassKind::Normal,
        layout: Layout::new(Kind::Single, 9),
        metaslab_shift: 16,
        size: metaslabs << 16,
    };
    PoolSpace::new(
        vec![Some(VdevSpace::new(geometry, known, &Arc::default()))],
        2,
        true,
        true,
    )
}

fn request(class: ClassKind, size: u64) -> Request {
    Request {
        size,
        copies: 1,
        txg: Txg(5),
        class,
        hint: 0,
    }
}

#[test]
fn log_blocks_have_a_metaslab_of_their_own() {
    let store = MemoryStore::default();
    let info = |allocated| MetaslabInfo {
        allocated,
        ..MetaslabInfo::default()
    };
    // The emptiest; of equals the first.
    let mut known = vec![info(1024); 65];
    (known[7], known[9]) = (info(0), info(0));
    let space = large(65, &known);
    let metaslab = |extent: &Extent| extent.range.start >> 16;
    for _ in 0..4 {
        let taken = space
            .allocate(&request(ClassKind::Log, 4096), &store)
            .unwrap();
        assert_eq!(metaslab(&taken[0]), 7);
    }
    // Data fill everything else first.
    let mut places = Vec::new();
    while let Ok(taken) = space.allocate(&request(ClassKind::Normal, 16384), &store) {
        places.push(metaslab(&taken[0]));
    }
    let last = places.iter().filter(|place| **place == 7).count();
    assert_eq!(last, 3);
    assert!(places[places.len() - 3..].iter().all(|place| *place == 7));
}

/// Ends a txg in which something was allocated.
fn written(space: &PoolSpace, txg: Txg, store: &MemoryStore) {
    space.sync(txg, 1, store).unwrap();
    space.finish(txg).unwrap();
}

#[test]
fn metadata_lie_together_apart_from_data() {
    let store = MemoryStore::default();
    let space = large(32, &[]);
    let metaslab = |extent: &Extent| extent.range.start >> 16;
    let take = |space: &PoolSpace, class, txg| {
        let mut request = request(class, 4096);
        request.txg = txg;
        let taken = space.allocate(&request, &store);
        taken.map(|mut extents| extents.remove(0))
    };
    // Written anew in every txg, as metadata are; data stay.
    let mut old: Vec<Extent> = Vec::new();
    for txg in 5..40 {
        let txg = Txg(txg);
        let mut new = Vec::new();
        for _ in 0..3 {
            let data = take(&space, ClassKind::Normal, txg).unwrap();
            assert!(metaslab(&data) >= 4, "{data:?}");
            new.push(take(&space, ClassKind::Special, txg).unwrap());
        }
        assert!(new.iter().all(|extent| metaslab(extent) == 0), "{new:?}");
        old.iter().for_each(|extent| space.free(extent).unwrap());
        written(&space, txg, &store);
        old = new;
    }
    // After an import they are found again.
    drop(space);
    let state = store.state.borrow().clone();
    let known = (0..32).map(|index| MetaslabInfo {
        object: ObjectId(0),
        allocated: state.metaslabs.get(&(0, index)).map_or(0, |_| 16384),
        ..MetaslabInfo::default()
    });
    let space = large(32, &known.collect::<Vec<_>>());
    let first = take(&space, ClassKind::Normal, Txg(40)).unwrap();
    assert!(metaslab(&first) >= 4);
    assert_eq!(
        metaslab(&take(&space, ClassKind::Special, Txg(40)).unwrap()),
        0
    );
}

#[test]
fn what_is_for_metadata_is_for_data_when_nothing_else_is_left() {
    let pieces = 32 * 65536 / 16384;
    for (class, last) in [(ClassKind::Normal, true), (ClassKind::Special, false)] {
        let store = MemoryStore::default();
        let space = large(32, &[]);
        let mut places = Vec::new();
        while let Ok(taken) = space.allocate(&request(class, 16384), &store) {
            places.push(taken[0].range.start >> 16);
        }
        assert_eq!(places.len(), pieces, "all of it");
        let ours = places.iter().map(|place| *place < 4);
        let expected = (0..pieces).map(|at| if last { at >= pieces - 16 } else { at < 16 });
        assert!(ours.eq(expected), "{places:?}");
    }
}

#[test]
fn copies_of_metadata_are_kept_apart_there_as_well() {
    let store = MemoryStore::default();
    let space = large(32, &[]);
    let mut request = request(ClassKind::Special, 4096);
    request.copies = 3;
    for _ in 0..100 {
        let taken = space.allocate(&request, &store).unwrap();
        let places: Vec<_> = taken
            .iter()
            .map(|extent| extent.range.start >> 16)
            .collect();
        assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2]);
    }
}

#[test]
fn small_vdevs_set_nothing_aside_and_the_budget_ends() {
    let store = MemoryStore::default();
    let space = large(64, &[]);
    assert_eq!(space.vdevs()[0].log_bytes(), 0);
    space.set_log_budget(10_000);
    let log = request(ClassKind::Log, 4096);
    space.allocate(&log, &store).unwrap();
    space.allocate(&log, &store).unwrap();
    let refused = space.allocate(&log, &store).unwrap_err();
    assert!(matches!(refused, SpaceError::NoSpace { .. }), "{refused}");
    space
        .allocate(&request(ClassKind::Normal, 4096), &store)
        .unwrap();
    // Their own space counts for nothing.
    let space = large(65, &[]);
    space.set_log_budget(0);
    space.allocate(&log, &store).unwrap();
}

#[test]
fn an_allocation_waits_for_space_under_a_discard() {
    let store = MemoryStore::default();
    let space = open(&store, 1, true);
    let sizes = crate::TrimSizes {
        min: 4096,
        max: SIZE,
    };
    let mut taken = Vec::new();
    let mut from = 0;
    while let Ok(crate::TrimStep::Range(range)) =
        space.trim_step(VdevId(0), from, (sizes, false), &store)
    {
        from = range.extent().range.end;
        taken.push(range);
    }
    assert_eq!(from, SIZE, "everything is free, and taken");
    let request = Request {
        size: 32 << 10,
        copies: 1,
        txg: Txg(5),
        class: ClassKind::Normal,
        hint: 0,
    };
    // The discards end while the allocation below waits, or before it looks: either way it gets its space.
    let trimmer = std::thread::spawn(move || {
        for range in taken {
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(range);
        }
    });
    let extents = space.allocate(&request, &store).unwrap();
    trimmer.join().unwrap();
    assert_eq!(extents.len(), 1);
    // Trims pass it by.
    let mut from = 0;
    while let Ok(crate::TrimStep::Range(range)) =
        space.trim_step(VdevId(0), from, (sizes, false), &store)
    {
        let (range, own) = (&range.extent().range, &extents[0].range);
        assert!(range.end <= own.start || own.end <= range.start);
        from = range.end;
    }
    // Nothing was ever used but one metaslab.
    let used = space.trim_step(VdevId(0), 0, (sizes, true), &store);
    assert!(matches!(used, Ok(crate::TrimStep::End)));
}

#[test]
fn places_of_a_draid_are_whole_stripes() {
    let draid = layout::Draid::new(1, 2, 4, 1).unwrap();
    let geometry = VdevGeometry {
        vdev: VdevId(0),
        class: ClassKind::Normal,
        layout: Layout::new(Kind::Draid(draid), 9),
        metaslab_shift: 16,
        size: 4 << 16,
    };
    let unit = geometry.layout.unit();
    let vdev = VdevSpace::new(geometry, &[], &Arc::default());
    // A metaslab begins and ends with a stripe: of 128 sectors there is room for 42 of three.
    assert_eq!(vdev.capacity_bytes(), 4 * 42 * unit);
    let space = PoolSpace::new(vec![Some(vdev)], 2, true, true);
    let store = MemoryStore::default();
    let mut taken = 0;
    for psize in [512, 1024, 5000, 512, 20_000].into_iter().cycle().take(40) {
        let Ok(extents) = space.allocate(&request(ClassKind::Normal, psize), &store) else {
            break;
        };
        for extent in extents {
            assert!(extent.range.start.is_multiple_of(unit));
            assert!(extent.range.end.is_multiple_of(unit));
            taken += extent.range.end - extent.range.start;
        }
    }
    assert!(taken >= 28 * unit);
}
