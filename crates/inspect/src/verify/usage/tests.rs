use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn it_is_a_set_of_sectors(
        steps in prop::collection::vec((any::<bool>(), 0_u64..1000, 0_u64..300), 0..60),
        others in prop::collection::vec((0_u64..1000, 1_u64..300), 0..20),
    ) {
        let set = SectorSet::new(1000 << 9, 9);
        let mut model = BTreeSet::new();
        for (add, start, count) in steps {
            let result = if add {
                set.insert(start << 9, count << 9)
            } else {
                set.remove(start << 9, count << 9)
            };
            if start + count > 1000 {
                prop_assert_eq!(result, Err(OutOfPlace));
                continue;
            }
            let odd = (start..start + count)
                .filter(|&sector| if add { !model.insert(sector) } else { !model.remove(&sector) })
                .count();
            prop_assert_eq!(result, Ok(odd as u64));
        }
        prop_assert_eq!(set.bytes(), (model.len() as u64) << 9);
        let other = SectorSet::new(1000 << 9, 9);
        for (start, count) in others {
            let _ = other.insert(start << 9, count << 9);
        }
        let mut missing = BTreeSet::new();
        let mut last_end = None;
        set.for_each_missing_from(&other, &mut |offset, length| {
            assert_ne!(last_end, Some(offset), "neighbours come as one");
            last_end = Some(offset + length);
            missing.extend((offset >> 9)..((offset + length) >> 9));
        });
        let expected: BTreeSet<u64> = model
            .iter()
            .copied()
            .filter(|&sector| other.count_in(sector << 9, 512) == 0)
            .collect();
        prop_assert_eq!(missing, expected);
    }
}

#[test]
fn ranges_that_are_not_whole_sectors_are_refused() {
    let set = SectorSet::new(1 << 20, 12);
    assert_eq!(set.insert(512, 4096), Err(OutOfPlace));
    assert_eq!(set.insert(4096, 512), Err(OutOfPlace));
    assert_eq!(set.insert(u64::MAX - 4095, 8192), Err(OutOfPlace));
    assert_eq!(set.insert(1 << 20, 4096), Err(OutOfPlace));
    assert_eq!(set.insert((1 << 20) - 4096, 4096), Ok(0));
}
