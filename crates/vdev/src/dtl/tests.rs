use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn behaves_as_a_set(
        steps in proptest::collection::vec((0u64..60, 0u64..12), 0..40)
    ) {
        let mut ranges = TxgRanges::new();
        let mut model = BTreeSet::new();
        for (start, count) in steps {
            ranges.add(Txg(start), count);
            model.extend(start..start + count);
            for txg in 0..80 {
                prop_assert_eq!(ranges.contains(Txg(txg)), model.contains(&txg));
            }
            prop_assert_eq!(ranges.is_empty(), model.is_empty());
            let flat: Vec<u64> =
                ranges.iter().flat_map(|(first, count)| first.0..first.0 + count).collect();
            prop_assert_eq!(flat, model.iter().copied().collect::<Vec<_>>());
            let gaps: Vec<_> = ranges.iter().collect();
            prop_assert!(gaps.windows(2).all(|w| w[0].0.0 + w[0].1 < w[1].0.0), "adjacent");
        }
    }

    #[test]
    fn what_several_sets_have_is_counted(
        sets in proptest::collection::vec(
            proptest::collection::vec((0u64..60, 0u64..12), 0..6),
            0..5,
        ),
        count in 0usize..6,
    ) {
        let sets: Vec<TxgRanges> = sets
            .into_iter()
            .map(|set| set.into_iter().map(|(first, count)| (Txg(first), count)).collect())
            .collect();
        let found = TxgRanges::in_at_least(&sets, count);
        for txg in (0..80).map(Txg) {
            let having = sets.iter().filter(|set| set.contains(txg)).count();
            prop_assert_eq!(found.contains(txg), count > 0 && having >= count);
        }
    }
}
