//! dRAID vdevs.

use super::*;
use crate::Draid;
use std::collections::BTreeMap;

fn layout(parity: u64, data: usize, children: usize, spares: usize) -> Layout {
    let draid = Draid::new(parity, data, children, spares).unwrap();
    Layout::new(Kind::Draid(draid), 12)
}

fn geometry(layout: &Layout) -> Draid {
    match layout.kind() {
        Kind::Draid(draid) => *draid,
        Kind::Single | Kind::Mirror | Kind::RaidZ(_) | Kind::Indirect => panic!("{layout:?}"),
    }
}

#[test]
fn stripes_and_spares_fit_the_children() {
    for (parity, data, children, spares) in [(1, 1, 2, 0), (2, 4, 8, 1), (3, 8, 255, 100)] {
        assert!(Draid::new(parity, data, children, spares).is_some());
    }
    for (parity, data, children, spares) in [
        (0, 4, 8, 1),
        (4, 4, 9, 1),
        (2, 0, 8, 1),
        (2, 4, 6, 1),
        (1, 1, 256, 0),
        (1, 1, 200, 101),
        (1, usize::MAX, 8, 1),
        (u64::MAX, 4, 8, 1),
    ] {
        assert_eq!(Draid::new(parity, data, children, spares), None);
    }
    // Six columns on seven children: rows come out even after seven groups.
    assert_eq!(Draid::new(2, 4, 8, 1).unwrap().groups(), 7);
    assert_eq!(Draid::new(1, 3, 9, 1).unwrap().groups(), 2);
    assert_eq!(Draid::data_default(2, 8, 1), 5);
    assert_eq!(Draid::data_default(2, 60, 1), 8);
}

#[test]
fn a_block_takes_up_whole_stripes() {
    let layout = layout(2, 4, 8, 1);
    assert_eq!(layout.unit(), 6 << 12);
    assert_eq!(layout.granule(), 4 << 12);
    let asize = |sectors: u64| layout.asize(sectors << 12, NOW) >> 12;
    assert_eq!([1, 4, 5, 32].map(asize), [6, 6, 12, 48]);
    assert_eq!(layout.deflate_ratio(), 341);
    // 32 MiB of each child are kept, the rest is rows of 16 MiB, and whole groups.
    assert_eq!(layout.size((32 << 20) + (33 << 20)), 2 * (96 << 20));
    assert_eq!(layout.size(1 << 20), 0);
}

#[test]
fn metaslabs_are_cut_to_whole_stripes() {
    let draid = layout(2, 4, 8, 1);
    let unit = draid.unit();
    let mut before = 0;
    for index in 0..100 {
        let (share, range) = (index << 24..(index + 1) << 24, draid.metaslab(index, 24));
        assert_eq!((range.start % unit, range.end % unit), (0, 0));
        assert!(share.start <= range.start && range.end <= share.end);
        assert!(range.start - share.start < unit && share.end - range.end < unit);
        assert!(before <= range.start);
        before = range.end;
    }
    // Numbers that no vdev has are nothing to fall over.
    assert!(draid.metaslab(u64::MAX, 63).is_empty());
    assert!(draid.metaslab(1, 64).is_empty());
    let single = Layout::new(Kind::Single, 12);
    assert_eq!(single.metaslab(3, 24), 3 << 24..4 << 24);
}

/// The children and sectors of a small block's columns.
fn places(layout: &Layout, offset: u64, sectors: u64) -> Vec<(usize, u64, u64)> {
    let columns = layout.columns(&block(offset, sectors << 12), 0);
    columns.map(|c| (c.child, c.offset, c.len >> 12)).collect()
}

#[test]
fn groups_follow_one_another_on_the_children_in_use() {
    // The first permutation of eight is 5 6 1 0 2 4 3 7: child 7 is the first slice's room of the spare.
    let layout = layout(2, 4, 8, 1);
    let first = [5, 6, 1, 0, 2, 4].map(|child| (child, 0, 1));
    assert_eq!(places(&layout, 0, 4), first);
    let second = [5, 6, 1, 0, 2, 4].map(|child| (child, 4096, 1));
    assert_eq!(places(&layout, 6 << 12, 1), second);
    // The second group begins where the first one ended, and goes on in the next row of 16 MiB.
    let next = [(3, 0), (5, 1), (6, 1), (1, 1), (0, 1), (2, 1)];
    let next = next.map(|(child, row)| (child, row << 24, 1));
    assert_eq!(places(&layout, 96 << 20, 4), next);
    // After seven groups, six rows, the children are turned by one.
    let turned = [6, 7, 2, 1, 3, 5].map(|child| (child, 96 << 20, 1));
    assert_eq!(places(&layout, 7 * (96 << 20), 4), turned);
    let draid = geometry(&layout);
    assert_eq!(draid.spare_at(0, 0), Some(7));
    assert_eq!(draid.spare_at(0, (96 << 20) - 1), Some(7));
    assert_eq!(draid.spare_at(0, 96 << 20), Some(0));
    assert_eq!(draid.spare_at(1, 0), None);
    assert_eq!(draid.spare_until(5), 96 << 20);
}

#[test]
fn a_stripe_is_filled_with_zeros() {
    let layout = layout(1, 3, 5, 1);
    let columns = layout.columns(&block(0, 4 << 12), 0);
    let contents: Vec<_> = columns.map(|c| (c.len >> 12, c.content)).collect();
    let data = |start: u64, len: u64| Content::Data {
        start: start << 12,
        len: len << 12,
    };
    let expected = [
        (2, Content::Parity(0)),
        (2, data(0, 2)),
        (2, data(2, 1)),
        (2, data(3, 1)),
    ];
    assert_eq!(contents, expected);
}

#[test]
fn a_block_at_the_end_of_a_group_goes_on_in_the_next() {
    let layout = layout(1, 2, 4, 1);
    let end = 48_u64 << 20;
    let block = block(end - ((2 * 3) << 12), 7 << 12);
    let columns: Vec<_> = layout.columns(&block, 0).collect();
    assert_eq!(columns.len(), 6);
    let data = columns.iter().filter_map(|column| match column.content {
        Content::Data { start, len } => {
            Some((column.stripe, start >> 12, len >> 12, column.len >> 12))
        }
        Content::Parity(_) | Content::Whole => None,
    });
    let expected = [(0, 0, 2, 2), (0, 2, 2, 2), (1, 4, 2, 2), (1, 6, 1, 2)];
    assert_eq!(data.collect::<Vec<_>>(), expected);
    let at: Vec<_> = columns.iter().map(|column| column.offset).collect();
    // The second group begins in the first row again: three children are in use, three columns fill a row.
    let last = (16 << 20) - 8192;
    assert_eq!(at, [last, last, last, 16 << 20, 16 << 20, 16 << 20]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No two blocks share a sector of a child, none has the room of a spare, and no child has two columns of a stripe.
    #[test]
    fn blocks_lie_apart(
        parity in 1_u64..=3,
        data in 1_usize..10,
        spares in 0_usize..4,
        more in 0_usize..10,
        begin in 0_u64..1 << 16,
        sizes in proptest::collection::vec(1_u64..40, 1..10),
    ) {
        let children = (parity as usize + data + spares + more).max(2);
        let layout = layout(parity, data, children, spares);
        let draid = geometry(&layout);
        let mut offset = begin * layout.unit();
        // At the end of a group, every other time.
        if begin % 2 == 0 {
            let group = (parity + data as u64) * (16 << 20);
            offset = (offset / group + 1) * group - 3 * layout.unit();
        }
        let mut there = BTreeMap::new();
        for size in sizes {
            let block = block(offset, size << 12);
            let (mut in_stripe, mut found) = (BTreeSet::new(), BTreeSet::new());
            for column in layout.columns(&block, children) {
                prop_assert!(column.child < children);
                prop_assert!(in_stripe.insert((column.stripe, column.child)));
                for spare in 0..spares {
                    prop_assert_ne!(draid.spare_at(spare, column.offset), Some(column.child));
                }
                for sector in column.offset >> 12..(column.offset + column.len) >> 12 {
                    prop_assert_eq!(there.insert((column.child, sector), offset), None);
                }
                if let Content::Data { start, len } = column.content {
                    found.extend(start >> 12..(start + len) >> 12);
                }
            }
            prop_assert!(found.into_iter().eq(0..size));
            offset += layout.asize(size << 12, NOW);
        }
    }
}
