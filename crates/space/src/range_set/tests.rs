//! Range sets against a set of single bytes.

use super::{Pending, RangeSet};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn bytes(set: &RangeSet) -> BTreeSet<u64> {
    set.iter().flatten().collect()
}

proptest! {
    #[test]
    fn behaves_as_a_set_of_bytes(steps in prop::collection::vec((0..3_u8, 0..100_u64, 0..20_u64), 0..80)) {
        let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
        for (kind, start, length) in steps {
            let range = start..start + length;
            let inside = range.clone().all(|byte| model.contains(&byte));
            let outside = range.clone().all(|byte| !model.contains(&byte));
            match kind {
                0 => {
                    prop_assert_eq!(set.insert(range.clone()), outside);
                    if outside { model.extend(range); }
                }
                1 => {
                    prop_assert_eq!(set.remove(range.clone()), inside);
                    if inside { model.retain(|byte| !range.contains(byte)); }
                }
                _ => {
                    let taken: BTreeSet<u64> = set.take_overlap(&range).into_iter().flatten().collect();
                    let wanted: BTreeSet<u64> = range.filter(|byte| model.contains(byte)).collect();
                    model.retain(|byte| !wanted.contains(byte));
                    prop_assert_eq!(taken, wanted);
                }
            }
            prop_assert_eq!(bytes(&set), model.clone());
            prop_assert_eq!(set.bytes(), model.len() as u64);
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "merged and in order");
            let gaps: BTreeSet<u64> = (0..120).filter(|byte| !model.contains(byte)).collect();
            prop_assert_eq!(bytes(&set.gaps(0..120)), gaps);
        }
    }

    #[test]
    fn pending_changes_cancel(start in 0..50_u64, middle in 0..50_u64) {
        let mut pending = Pending::default();
        let whole = start..start + middle + 10;
        let part = start + 2..start + 5;
        prop_assert!(pending.allocate(&whole));
        prop_assert!(!pending.allocate(&part));
        prop_assert!(pending.free(&part));
        prop_assert!(pending.freed.is_empty());
        prop_assert!(pending.allocate(&part));
        prop_assert!(pending.free(&whole));
        prop_assert!(pending.is_empty());
    }
}
