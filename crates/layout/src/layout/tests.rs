use super::*;
use crate::Area;
use crate::{Column, Content, RaidZ};
use proptest::prelude::*;
use std::collections::BTreeSet;

mod draid;
mod grown;

/// A txg in which nothing in particular happened.
const NOW: Txg = Txg(7);

fn block(offset: u64, psize: u64) -> Block {
    Block {
        offset,
        psize,
        birth: NOW,
    }
}

fn single(ashift: u32) -> Layout {
    Layout::new(Kind::Single, ashift)
}

fn mirror(ashift: u32) -> Layout {
    Layout::new(Kind::Mirror, ashift)
}

fn raidz(parity: u64, width: usize, ashift: u32) -> Layout {
    Layout::new(Kind::RaidZ(RaidZ::new(parity, width).unwrap()), ashift)
}

#[test]
fn a_raidz_has_one_to_three_rows_of_parity_and_a_child_more_at_least() {
    for (parity, children) in [(1, 2), (3, 4), (1, 255)] {
        assert!(
            RaidZ::new(parity, children).is_some(),
            "{parity} of {children}"
        );
    }
    for (parity, children) in [(0, 5), (4, 8), (1, 1), (3, 3), (1, 256), (u64::MAX, 9)] {
        assert_eq!(RaidZ::new(parity, children), None, "{parity} of {children}");
    }
    assert_eq!(raidz(2, 6, 9).tolerance(6), 2);
}

#[test]
fn blocks_take_whole_sectors() {
    assert_eq!(single(9).asize(513, NOW), 1024);
    assert_eq!(mirror(12).asize(512, NOW), 4096);
    assert_eq!(mirror(12).asize(0, NOW), 0);
    assert_eq!(mirror(13).granule(), 8192);
    // Damaged pointers and configurations are no reason to overflow.
    assert_eq!(single(12).asize(u64::MAX, NOW), !4095);
    assert_eq!(single(64).sector(), 1);
}

#[test]
fn a_sector_of_a_disk_or_a_mirror_is_charged_as_a_sector() {
    for ashift in 9..=16 {
        assert_eq!(single(ashift).deflate_ratio(), 512);
        assert_eq!(mirror(ashift).deflated(3 << ashift), 3 << ashift);
    }
}

#[test]
fn all_but_one_side_of_a_mirror_may_fail() {
    assert_eq!(single(9).tolerance(1), 0);
    assert_eq!(mirror(9).tolerance(1), 0);
    assert_eq!(mirror(9).tolerance(3), 2);
    assert_eq!(mirror(9).tolerance(0), 0);
}

#[test]
fn each_side_of_a_mirror_has_the_block_at_its_own_place() {
    let side = |child| Column {
        stripe: 0,
        area: Area::Data,
        number: 0,
        child,
        offset: 8192,
        len: 4096,
        content: Content::Whole,
    };
    let columns = mirror(12).columns(&block(8192, 700), 3);
    assert_eq!(columns.len(), 3);
    assert_eq!(columns.collect::<Vec<_>>(), [side(0), side(1), side(2)]);
    let only: Vec<_> = single(12).columns(&block(8192, 700), 1).collect();
    assert_eq!(only, [side(0)]);
}

#[test]
fn a_vdev_of_copies_is_as_large_as_its_smallest_child() {
    for layout in [single(12), mirror(12)] {
        assert!(layout.is_copies());
        assert_eq!(layout.size(60 << 20), 60 << 20);
        assert_eq!(layout.child_size(60 << 20), 60 << 20);
        let given_back = layout.on_child(4096..8192, 0);
        assert_eq!(
            (given_back.len(), given_back.first()),
            (1, Some(&(4096..8192)))
        );
        assert_eq!(layout.written_size(4096, 131_072), 4096);
    }
}

/// Columns as the format notes write them: child, offset, sectors, and where their data begins.
fn columns(layout: &Layout, offset: u64, psize: u64) -> Vec<(usize, u64, u64, Option<u64>)> {
    let column = |column: Column| {
        let data = match column.content {
            Content::Data { start, .. } => Some(start),
            Content::Parity(_) => None,
            Content::Whole => panic!("{column:?}"),
        };
        let sectors = column.len / layout.sector();
        (column.child, column.offset, sectors, data)
    };
    layout
        .columns(&block(offset, psize), 0)
        .map(column)
        .collect()
}

/// The examples are the format notes', "RAID-Z".
#[test]
fn a_block_is_a_stripe_that_begins_with_parity() {
    let layout = raidz(1, 5, 9);
    let expected = [
        (3, 0xa00, 2, None),
        (4, 0xa00, 2, Some(0)),
        (0, 0xc00, 2, Some(0x400)),
        (1, 0xc00, 2, Some(0x800)),
        (2, 0xc00, 2, Some(0xc00)),
    ];
    assert_eq!(columns(&layout, 0x3800, 0x1000), expected);
    assert_eq!(layout.asize(0x1000, NOW), 5120);
}

#[test]
fn a_single_parity_changes_places_with_data_every_other_mebibyte() {
    let layout = raidz(1, 4, 9);
    let expected = [
        (1, 0x40200, 2, None),
        (0, 0x40200, 2, Some(0)),
        (2, 0x40200, 2, Some(0x400)),
        (3, 0x40200, 1, Some(0x800)),
    ];
    assert_eq!(columns(&layout, 0x10_0800, 0xa00), expected);
    assert_eq!(layout.asize(0xa00, NOW), 4096);
    // Two rows of parity do not.
    assert_eq!(columns(&raidz(2, 4, 9), 0x10_0800, 512)[0].0, 0);
}

#[test]
fn a_small_block_lies_on_few_children() {
    let layout = raidz(3, 8, 12);
    let places: Vec<_> = columns(&layout, 7 << 12, 512).iter().map(|c| c.0).collect();
    assert_eq!(places, [7, 0, 1, 2]);
    assert_eq!(layout.asize(512, NOW), 4 << 12);
    assert_eq!(layout.asize(0, NOW), 0);
    assert!(columns(&layout, 0, 0).is_empty());
}

#[test]
fn datasets_are_charged_without_parity() {
    // 128 KiB on five disks of 4 KiB sectors: 32 of data, 8 of parity.
    let layout = raidz(1, 5, 12);
    assert_eq!(layout.asize(128 << 10, NOW), 160 << 10);
    assert_eq!(layout.deflate_ratio(), 409);
    assert_eq!(layout.deflated(160 << 10), 320 * 409);
    // Damaged pointers are no reason to overflow.
    assert!(layout.asize(u64::MAX, NOW) >= u64::MAX >> 1);
    let wild = layout.columns(&block(u64::MAX, u64::MAX), 5);
    assert_eq!(wild.len(), 5);
    assert_eq!(wild.count(), 5);
}

#[test]
fn a_raidz_is_as_large_as_its_children_together() {
    let layout = raidz(2, 6, 9);
    assert!(!layout.is_copies());
    assert_eq!(layout.size(100 << 20), 600 << 20);
    assert_eq!(layout.child_size((600 << 20) - 1), 100 << 20);
    assert_eq!(layout.written_size(512, 4096), 4096);
}

/// The sectors of child and row that lie one after the other in the vdev.
fn sectors(layout: &Layout, width: u64, range: std::ops::Range<u64>) -> BTreeSet<(usize, u64)> {
    (range.start >> layout.ashift()..range.end >> layout.ashift())
        .map(|sector| ((sector % width) as usize, sector / width))
        .collect()
}

proptest! {
    /// A stripe has each sector of its block and of its parity once, and nothing beyond them; what is left over has no
    /// room for another block. All rows of parity are as long as the longest column.
    #[test]
    fn a_stripe_fills_what_is_allocated(
        parity in 1_u64..=3,
        more in 1_usize..20,
        ashift in 9_u32..=13,
        psize in 1_u64..=1 << 20,
        sector in 0_u64..1 << 30,
    ) {
        let width = parity as usize + more;
        let (layout, offset) = (raidz(parity, width, ashift), sector << ashift);
        let (mut there, mut data, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
        let longest = layout.columns(&block(offset, psize), width).map(|c| c.len).max().unwrap();
        for (index, column) in layout.columns(&block(offset, psize), width).enumerate() {
            prop_assert_eq!(matches!(column.content, Content::Parity(_)), index < parity as usize);
            match column.content {
                Content::Parity(row) => prop_assert_eq!((row, column.len), (index, longest)),
                Content::Data { start, len } => data.extend((0..len >> ashift).map(|i| (start >> ashift) + i)),
                Content::Whole => prop_assert!(false),
            }
            count += column.len >> ashift;
            let rows = column.offset >> ashift..(column.offset + column.len) >> ashift;
            there.extend(rows.map(|row| (column.child, row)));
        }
        let blocks = psize.div_ceil(1 << ashift);
        prop_assert_eq!(data, (0..blocks).collect::<BTreeSet<_>>());
        prop_assert_eq!(there.len() as u64, count);
        prop_assert!(there == sectors(&layout, width as u64, offset..offset + (count << ashift)));
        let left_over = (layout.asize(psize, NOW) >> ashift) - count;
        prop_assert!(left_over <= parity);
    }

    /// What datasets are promised covers what they are charged with.
    #[test]
    fn no_block_is_charged_with_more_than_the_overhead(
        parity in 0_u64..=4,
        more in 1_usize..30,
        ashift in 9_u32..=16,
        units in 1_u64..=1 << 15,
    ) {
        let layout = match parity {
            0 => mirror(ashift),
            4 => Layout::new(Kind::Draid(crate::Draid::new(2, more, more + 5, 1).unwrap()), ashift),
            parity => raidz(parity, parity as usize + more, ashift),
        };
        let psize = units << 9;
        prop_assert!(layout.deflated(layout.asize(psize, NOW)) <= psize + layout.charge_overhead());
    }

    /// What a child can discard of a range is what lies in it, all of it.
    #[test]
    fn children_share_a_range(
        width in 2_usize..20,
        from in 0_u64..5000,
        len in 0_u64..5000,
    ) {
        let (layout, range) = (raidz(1, width, 9), from << 9..(from + len) << 9);
        let mut there = BTreeSet::new();
        for child in 0..width {
            for part in layout.on_child(range.clone(), child) {
                there.extend((part.start >> 9..part.end >> 9).map(|row| (child, row)));
            }
        }
        prop_assert!(there == sectors(&layout, width as u64, range));
    }

    /// What must hold of any kind.
    #[test]
    fn columns_and_sizes_agree(
        kind in 0_u64..6,
        ashift in 9_u32..=16,
        psize in 1_u64..=16 << 20,
        sector in 0_u64..1 << 30,
        several in 2_usize..20,
    ) {
        let (layout, children) = match kind {
            0 => (single(ashift), 1),
            1 => (mirror(ashift), several),
            5 => {
                let draid = crate::Draid::new(2, several, several + 5, 3).unwrap();
                (Layout::new(Kind::Draid(draid), ashift), several + 5)
            }
            more => {
                let (parity, width) = (more - 1, several + 3);
                (raidz(parity, width, ashift), width)
            }
        };
        let offset = sector * layout.unit();
        let asize = layout.asize(psize, NOW);
        prop_assert!(asize >= psize);
        prop_assert_eq!(asize % layout.sector(), 0);
        prop_assert!(layout.asize(psize + 1, NOW) >= asize);
        prop_assert!(layout.tolerance(children) < children);
        prop_assert!(layout.child_size(layout.size(1 << 30)) <= 1 << 30);
        for column in layout.columns(&block(offset, psize), children) {
            prop_assert!(column.child < children);
            let places = layout.on_child(offset..offset + asize, column.child);
            let holds = |place: &std::ops::Range<u64>| {
                place.contains(&column.offset) && column.offset + column.len <= place.end
            };
            prop_assert!(places.iter().any(holds), "{:?} {:?}", column, places);
        }
    }
}
