use std::collections::BTreeSet;

use proptest::prelude::*;

use super::RangeSet;

proptest! {
    #[test]
    fn behaves_like_a_set(inserts in prop::collection::vec((0u64..200, 0u64..20), 0..40)) {
        let mut ranges = RangeSet::default();
        let mut model = BTreeSet::new();
        for (first, len) in inserts {
            ranges.insert(first, first + len);
            model.extend(first..=first + len);
        }
        for block in 0..230 {
            prop_assert_eq!(ranges.contains(block), model.contains(&block));
            prop_assert_eq!(ranges.end_of(block).is_some(), model.contains(&block));
        }
        let mut previous_end = None;
        for (first, last) in ranges.iter() {
            prop_assert!(first <= last);
            prop_assert!(previous_end.is_none_or(|end: u64| first > end + 1));
            previous_end = Some(last);
        }
    }

    #[test]
    fn the_ends_of_the_number_line_do_not_overflow(first in prop::sample::select(vec![0, u64::MAX - 1, u64::MAX])) {
        let mut ranges = RangeSet::default();
        ranges.insert(first, u64::MAX);
        ranges.insert(0, 0);
        prop_assert!(ranges.contains(u64::MAX));
        prop_assert!(ranges.contains(0));
    }
}
