//! Free space against a set of single bytes.

use super::{FreeSpace, Manner};
use crate::tunables;
use proptest::prelude::*;

/// A free range of 100 of each 300 units, and a long one behind.
fn holes() -> FreeSpace {
    let mut free = FreeSpace::new(&(0..1 << 30), 9);
    for at in 0..10 {
        assert!(free.insert((at * 300) << 9..(at * 300 + 100) << 9));
    }
    assert!(free.insert(1 << 28..1 << 30));
    free
}

#[test]
fn what_is_packed_goes_from_the_front_in_runs() {
    let run = tunables::METADATA_RUN_BYTES.get();
    let mut free = holes();
    // No hole is worth an operation: so much is taken of what is.
    let mut end = 1 << 28;
    while end < (1 << 28) + run {
        let taken = free.allocate(4096, Manner::Packed).unwrap();
        assert_eq!(taken.start, end);
        end = taken.end;
    }
    // What was freed in front comes first, when a run has ended.
    assert!(free.insert(3000 << 9..(3000 << 9) + 2 * run));
    let taken = free.allocate(4096, Manner::Packed).unwrap();
    assert_eq!(taken.start, 3000 << 9);
    let next = free.allocate(4096, Manner::Packed).unwrap();
    assert_eq!(next.start, taken.end);
    // The others go their own way meanwhile.
    let other = free.allocate(512, Manner::Onwards).unwrap();
    assert_eq!(other.start, 0);
    assert_eq!(free.allocate(4096, Manner::Packed).unwrap().start, next.end);
    // With nothing else left, the holes serve, the lowest first.
    let long: Vec<_> = free
        .iter()
        .filter(|one| one.end - one.start >= run)
        .collect();
    long.into_iter()
        .for_each(|range| assert!(free.remove(range)));
    let last = free.allocate(99 << 9, Manner::Packed).unwrap();
    assert_eq!(last.start, 1 << 9);
    let last = free.allocate(100 << 9, Manner::Packed).unwrap();
    assert_eq!(last.start, 300 << 9);
}

proptest! {
    #[test]
    fn allocations_are_free_and_sizes_are_true(
        sizes in prop::collection::vec((1..40_u64, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let mut free = FreeSpace::new(&(0..1000), 0);
        prop_assert!(free.insert(0..1000));
        let mut held: Vec<std::ops::Range<u64>> = Vec::new();
        for (size, release, packed) in sizes {
            let manner = if packed { Manner::Packed } else { Manner::Onwards };
            let largest = free.iter().map(|range| range.end - range.start).max().unwrap_or(0);
            prop_assert_eq!(free.longest(), largest);
            if release && !held.is_empty() {
                let range = held.swap_remove(size as usize % held.len());
                prop_assert!(free.insert(range.clone()));
                prop_assert!(!free.insert(range));
            } else if let Some(range) = free.allocate(size, manner) {
                prop_assert_eq!(range.end - range.start, size);
                prop_assert!(held.iter().all(|other| other.end <= range.start || range.end <= other.start));
                held.push(range);
            } else {
                prop_assert!(largest < size);
            }
            let total: u64 = held.iter().map(|range| range.end - range.start).sum();
            prop_assert_eq!(free.bytes() + total, 1000);
        }
    }

    #[test]
    fn a_run_of_allocations_is_contiguous(size in 1..50_u64) {
        let mut free = FreeSpace::new(&(0..1000), 0);
        prop_assert!(free.insert(0..1000));
        let mut end = 0;
        for _ in 0..1000 / size {
            let range = free.allocate(size, Manner::Onwards).unwrap();
            prop_assert_eq!(range.start, end);
            end = range.end;
        }
    }
}
