//! Each invariant of a metaslab, broken on purpose: it is noted, and nothing is given that must not be.

use super::{Metaslab, Place, State};
use crate::free_space::Manner;
use crate::lists::Lists;
use crate::{MapAppend, MapContents, MetaslabInfo, SpaceError, SpaceStore, StoreError};
use base::invariant::Findings;
use base::{ObjectId, Txg, VdevId};
use std::sync::Arc;

const UNIT: u64 = 4096;
const SIZE: u64 = 8 * UNIT;
const TXG: Txg = Txg(10);

/// A store without maps: the metaslab is new.
pub(super) struct Empty;

impl SpaceStore for Empty {
    fn read(&self, _: ObjectId) -> Result<MapContents, StoreError> {
        Ok(MapContents::default())
    }
    fn length(&self, _: ObjectId) -> Result<u64, StoreError> {
        Ok(0)
    }
    fn create(&self, _: VdevId, _: usize) -> Result<ObjectId, StoreError> {
        Ok(ObjectId(1))
    }
    fn kept_map(&self, _: VdevId) -> Result<ObjectId, StoreError> {
        Ok(ObjectId(3))
    }
    fn append(&self, _: ObjectId, _: &MapAppend<'_>) -> Result<(), StoreError> {
        Ok(())
    }
    fn clear(&self, _: ObjectId) -> Result<(), StoreError> {
        Ok(())
    }
    fn set_unflushed(&self, _: VdevId, _: usize, _: Txg) -> Result<(), StoreError> {
        Ok(())
    }
    fn log(&self, _: Txg) -> Result<ObjectId, StoreError> {
        Ok(ObjectId(2))
    }
    fn trim_logs(&self, _: Txg) -> Result<(), StoreError> {
        Ok(())
    }
    fn block_size(&self, _: ObjectId) -> Result<usize, StoreError> {
        Ok(512)
    }
}

fn metaslab() -> (Metaslab, Arc<Findings>) {
    let findings = Arc::default();
    let place = Place {
        vdev: VdevId(0),
        index: 0,
        range: SIZE..2 * SIZE,
        shift: 12,
        unit: 4096,
    };
    let lists = Arc::new(Lists::new(&findings));
    let metaslab = Metaslab::new(place, &MetaslabInfo::default(), &lists);
    (metaslab, findings)
}

fn found(findings: &Findings) -> Option<&'static str> {
    findings.first().map(|first| first.name)
}

/// Changes the state of a metaslab that is loaded, then asks it for `size` bytes: what is noted.
#[track_caller]
fn given_after(size: u64, change: impl FnOnce(&mut State)) -> Option<&'static str> {
    let (metaslab, findings) = metaslab();
    metaslab.load(&Empty).unwrap();
    change(&mut metaslab.state.lock());
    let given = metaslab.allocate((size, Manner::Onwards), TXG, &Empty);
    assert!(matches!(given, Err(SpaceError::Contradiction { .. })));
    found(&findings)
}

#[test]
fn space_outside_of_the_metaslab_is_not_given() {
    let name = given_after(2 * SIZE, |state| {
        let free = state.free.as_mut().unwrap();
        assert!(free.insert(2 * SIZE..4 * SIZE));
    });
    assert_eq!(name, Some("space.inside"));
}

#[test]
fn space_that_is_anything_but_free_is_not_given() {
    let changes: [fn(&mut State) -> bool; 6] = [
        |state| state.trimming.insert(SIZE..2 * SIZE),
        |state| state.freeing.insert(SIZE..2 * SIZE),
        |state| state.freed.insert(SIZE..2 * SIZE),
        |state| state.deferred[0].insert(SIZE..2 * SIZE),
        |state| state.deferred[1].insert(SIZE..2 * SIZE),
        |state| state.allocating[TXG.next().slot()].insert(SIZE..2 * SIZE),
    ];
    for change in changes {
        let name = given_after(UNIT, |state| assert!(change(state)));
        assert_eq!(name, Some("space.disjoint"));
    }
}

#[test]
fn space_is_freed_once_a_txg() {
    let (metaslab, findings) = metaslab();
    let range = metaslab
        .allocate((UNIT, Manner::Onwards), TXG, &Empty)
        .unwrap()
        .unwrap();
    metaslab.free(range.clone()).unwrap();
    assert!(metaslab.state.lock().freed.insert(range));
    metaslab.take(&mut metaslab.state.lock(), TXG);
    assert_eq!(found(&findings), Some("space.disjoint"));
}

#[test]
fn counts_do_not_fall_below_zero() {
    let (metaslab, findings) = metaslab();
    let range = metaslab
        .allocate((UNIT, Manner::Onwards), TXG, &Empty)
        .unwrap()
        .unwrap();
    metaslab.free(range).unwrap();
    metaslab.take(&mut metaslab.state.lock(), TXG);
    assert_eq!(metaslab.lists.resting_bytes.get(), UNIT);
    metaslab.lists.resting_bytes.add(-1);
    for _ in 0..3 {
        assert_eq!(found(&findings), None);
        metaslab.finish().unwrap();
    }
    assert_eq!(found(&findings), Some("space.counts"));
    assert_eq!(metaslab.lists.resting_bytes.get(), 0);
}

#[test]
fn no_allocator_leaves_twice() {
    let (metaslab, findings) = metaslab();
    metaslab.begin_use();
    metaslab.end_use();
    assert_eq!(found(&findings), None);
    metaslab.end_use();
    assert_eq!(found(&findings), Some("space.users"));
    assert!(!metaslab.is_in_use());
}

/// Two pointers of a damaged pool lead to one place, or the map says that it is free: an error, and nobody is given it.
#[test]
fn a_free_that_the_map_contradicts_is_no_broken_invariant() {
    let (metaslab, findings) = metaslab();
    metaslab.free(SIZE..SIZE + UNIT).unwrap();
    let given = metaslab.allocate((UNIT, Manner::Onwards), TXG, &Empty);
    assert!(matches!(given, Err(SpaceError::Contradiction { .. })));
    assert_eq!(found(&findings), None);
}

/// A metaslab with four units in use, one after the other.
fn with_four() -> (Metaslab, [std::ops::Range<u64>; 4]) {
    let (metaslab, _) = metaslab();
    let ranges = std::array::from_fn(|_| {
        let given = metaslab.allocate((UNIT, Manner::Onwards), TXG, &Empty);
        given.unwrap().unwrap()
    });
    (metaslab, ranges)
}

#[track_caller]
fn assert_not_freed(metaslab: &Metaslab, range: &std::ops::Range<u64>) {
    let freed = metaslab.free(range.clone());
    assert!(matches!(freed, Err(SpaceError::Contradiction { .. })));
}

#[test]
fn neighbours_are_freed_with_one_look() {
    let (metaslab, [first, second, third, last]) = with_four();
    metaslab.free(last.clone()).unwrap();
    let in_use = || metaslab.state.lock().in_use.clone();
    assert_eq!(in_use(), first.start..last.end);
    metaslab.free(third.clone()).unwrap();
    metaslab.free(second).unwrap();
    assert_eq!(in_use(), first.start..last.end);
    assert_not_freed(&metaslab, &third);
}

#[test]
fn what_a_pass_has_freed_is_not_freed_again() {
    let (metaslab, [_, second, third, last]) = with_four();
    metaslab.free(third.clone()).unwrap();
    metaslab.free(last.clone()).unwrap();
    metaslab.take(&mut metaslab.state.lock(), TXG);
    assert_not_freed(&metaslab, &third);
    metaslab.free(second.clone()).unwrap();
    metaslab.take(&mut metaslab.state.lock(), TXG);
    metaslab.finish().unwrap();
    for range in [second, third, last] {
        assert_not_freed(&metaslab, &range);
    }
}

#[test]
fn what_was_given_back_is_not_freed() {
    let (metaslab, [_, second, _, last]) = with_four();
    metaslab.free(last).unwrap();
    metaslab.unallocate(second.clone(), TXG).unwrap();
    assert_not_freed(&metaslab, &second);
}

#[test]
fn what_the_map_calls_free_is_not_freed_once_it_was_read() {
    let (metaslab, [first, _, _, last]) = with_four();
    metaslab.unallocate(first.clone(), TXG).unwrap();
    assert!(metaslab.unload());
    metaslab.free(last).unwrap();
    metaslab.load(&Empty).unwrap();
    assert_not_freed(&metaslab, &first);
}
