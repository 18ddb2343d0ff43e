//! What moves overwrites nothing that is still looked for.

use super::*;
use crate::{Kind, RaidZ};
use proptest::prelude::*;

fn reflow(before: u64, ashift: u32) -> Reflow {
    Reflow::begun(before, &Layout::new(Kind::Single, ashift))
}

#[test]
fn steps_are_those_of_openzfs() {
    // The offsets of the uberblocks of the pool `expanded`, from the scratch area on.
    let reflow = reflow(3, 9);
    assert_eq!(reflow.scratch_end(), 14_680_064);
    let mut moved = reflow.scratch_end();
    for next in [
        19_571_712_u64,
        26_094_080,
        34_790_400,
        46_385_664,
        61_846_016,
        82_459_648,
        109_944_320,
        146_590_720,
        195_452_416,
        260_601_344,
    ] {
        // A sector of the new child overwrites nothing: OpenZFS does not count on that.
        assert!([next, next + 512].contains(&reflow.limit(moved)));
        moved = next;
    }
}

#[test]
fn nothing_moves_where_old_and_new_places_are_too_close() {
    for moved in [0, 1, 2, 3] {
        assert_eq!(reflow(3, 9).limit(moved << 9), moved << 9);
    }
    assert!(reflow(254, 12).is_possible());
    assert!(!reflow(254, 16).is_possible());
}

#[test]
fn only_a_vdev_that_is_getting_a_child_reflows() {
    let raidz = RaidZ::new(2, 6).unwrap();
    let plain = Layout::new(Kind::RaidZ(raidz.clone()), 12);
    assert_eq!(Reflow::of(&plain), None);
    let growing = Layout::new(Kind::RaidZ(raidz.grown(&[], true).unwrap()), 12);
    assert_eq!(Reflow::of(&growing), Some(reflow(5, 12)));
}

proptest! {
    /// Rows that have not moved whole are in places that are not overwritten, and the next sector would overwrite one.
    #[test]
    fn as_much_moves_as_can(before in 2_u64..255, moved in 0_u64..1 << 20) {
        let reflow = reflow(before, 9);
        let to = reflow.limit(moved << 9) >> 9;
        prop_assert!(to >= moved);
        let overwrites = |sector: u64| {
            let (child, row) = (sector % (before + 1), sector / (before + 1));
            (child < before).then_some(row * before + child)
        };
        // The first row that has not moved whole begins here at the earliest.
        let first = (moved + 1).saturating_sub(before);
        for sector in moved.max(to.saturating_sub(3 * before))..to {
            prop_assert!(overwrites(sector).is_none_or(|old| old < first), "{sector} of {to}");
        }
        let next = (to..to + 2).find_map(overwrites);
        prop_assert!(to == moved || next.is_some_and(|old| old >= first));
    }

    /// Each sector of a range lies within the bytes of its child, and these have no others.
    #[test]
    fn ranges_are_in_one_piece_on_each_child(
        children in 1_u64..20,
        start in 0_u64..500,
        len in 1_u64..200,
    ) {
        let spread = Spread { children, area: Area::Data, sector: 512 };
        let range = start << 9..(start + len) << 9;
        let mut bytes = 0;
        for child in 0..children {
            let piece = spread.on_child(&range, child);
            bytes += piece.end - piece.start;
        }
        prop_assert_eq!(bytes, len << 9);
        for sector in start..start + len {
            let (child, at) = spread.place(sector);
            let piece = spread.on_child(&range, child);
            prop_assert!(piece.contains(&at));
        }
    }
}
