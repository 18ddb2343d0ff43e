//! Free space against a set of single bytes.

use super::FreeSpace;
use proptest::prelude::*;

proptest! {
    #[test]
    fn allocations_are_free_and_sizes_are_true(sizes in prop::collection::vec((1..40_u64, any::<bool>()), 1..200)) {
        let mut free = FreeSpace::new(&(0..1000), 0);
        prop_assert!(free.insert(0..1000));
        let mut held: Vec<std::ops::Range<u64>> = Vec::new();
        for (size, give_back) in sizes {
            let largest = free.iter().map(|range| range.end - range.start).max().unwrap_or(0);
            prop_assert_eq!(free.longest(), largest);
            if give_back && !held.is_empty() {
                let range = held.swap_remove(size as usize % held.len());
                prop_assert!(free.insert(range.clone()));
                prop_assert!(!free.insert(range));
            } else if let Some(range) = free.allocate(size) {
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
            let range = free.allocate(size).unwrap();
            prop_assert_eq!(range.start, end);
            end = range.end;
        }
    }
}
