//! RAID-Z vdevs that got more children.

use super::*;
use crate::Area;
use std::collections::BTreeMap;

/// A vdev that was made `first` wide and got a child more at each of the txgs.
fn grown(parity: u64, first: usize, since: &[u64]) -> Layout {
    let since: Vec<_> = since.iter().copied().map(Txg).collect();
    let raidz = RaidZ::new(parity, first + since.len()).unwrap();
    Layout::new(Kind::RaidZ(raidz.grown(&since, false).unwrap()), 12)
}

/// One that is getting its last child.
fn growing(parity: u64, width: usize, moved: u64) -> Layout {
    let raidz = RaidZ::new(parity, width).unwrap();
    let raidz = raidz.grown(&[], true).unwrap();
    raidz.growth().unwrap().set_moved(Moved {
        to: moved,
        in_scratch: false,
    });
    Layout::new(Kind::RaidZ(raidz), 12)
}

fn block_of(birth: u64, sector: u64, sectors: u64) -> Block {
    Block {
        offset: sector << 12,
        psize: sectors << 12,
        birth: Txg(birth),
    }
}

#[test]
fn no_vdev_was_narrower_than_one_can_be() {
    let since = [Txg(4), Txg(9)];
    let of = |width| RaidZ::new(2, width).unwrap();
    assert_eq!(of(5).grown(&since, false).unwrap().width(), 5);
    assert_eq!(of(6).grown(&since, true).unwrap().width(), 5);
    assert_eq!(of(5).grown(&since, true), None);
    assert_eq!(of(4).grown(&since, false), None);
    assert_eq!(of(9).grown(&[Txg(9), Txg(4)], false), None);
    assert_eq!(of(3).grown(&[Txg(4); 300], false), None);
    assert_eq!(of(5).grown(&[], false), Some(of(5)));
}

#[test]
fn a_block_takes_up_what_the_width_of_its_txg_costs() {
    // 32 sectors of data: 16 rows of 3, 11 of 4, 8 of 5; whole pairs.
    let layout = grown(1, 3, &[10, 20]);
    let sectors = |birth| layout.asize(128 << 10, Txg(birth)) >> 12;
    let births = [0, 9, 10, 19, 20, u64::MAX];
    assert_eq!(births.map(sectors), [48, 48, 44, 44, 40, 40]);
    // What datasets are charged with stays as it was.
    assert_eq!(layout.deflate_ratio(), 341);
    assert_eq!(layout.size(10 << 20), 50 << 20);
    assert_eq!(growing(1, 4, 0).size(10 << 20), 30 << 20);
    assert_eq!(growing(1, 4, 0).asize(128 << 10, NOW) >> 12, 48);
}

#[test]
fn new_blocks_are_stripes_as_if_the_vdev_had_been_made_so() {
    let (wide, plain) = (grown(1, 3, &[10]), raidz(1, 4, 12));
    let block = block_of(10, 7, 9);
    let columns = |layout: &Layout| layout.columns(&block, 4).collect::<Vec<_>>();
    assert_eq!(columns(&wide), columns(&plain));
}

/// Row, child, sector and content of the cells of an older block.
fn cells(layout: &Layout, block: &Block) -> Vec<(usize, usize, u64, Option<u64>)> {
    let there = layout.columns(block, 0).filter(|column| column.len > 0);
    let cell = |column: Column| {
        assert_eq!(column.len, 4096);
        let data = match column.content {
            Content::Data { start, .. } => Some(start >> 12),
            Content::Parity(_) => None,
            Content::Whole => panic!("{column:?}"),
        };
        (column.stripe, column.child, column.offset >> 12, data)
    };
    there.map(cell).collect()
}

#[test]
fn rows_of_older_blocks_go_round_more_children() {
    // Of three children, five sectors of data: three rows, of which the last has one less. Now there are four.
    let expected = [
        (0, 3, 1, None),
        (0, 0, 2, Some(0)),
        (0, 1, 2, Some(3)),
        (1, 2, 2, None),
        (1, 3, 2, Some(1)),
        (1, 0, 3, Some(4)),
        (2, 1, 3, None),
        (2, 2, 3, Some(2)),
    ];
    let (layout, block) = (grown(1, 3, &[10]), block_of(9, 7, 5));
    assert_eq!(cells(&layout, &block), expected);
    // The column that has nothing counts for parity.
    assert_eq!(layout.columns(&block, 4).count(), 9);
    // On each child that is one piece.
    let placement = layout.placement(&block, 4);
    let pieces = placement.pieces().iter();
    let pieces: Vec<_> = pieces
        .map(|piece| (piece.child, piece.offset >> 12, piece.len >> 12))
        .collect();
    assert_eq!(pieces, [(3, 1, 2), (0, 2, 2), (1, 2, 2), (2, 2, 2)]);
}

#[test]
fn parity_changes_places_in_every_row() {
    let sector = (1 << 8) + 7;
    let (layout, block) = (grown(1, 3, &[10]), block_of(9, sector, 4));
    let parity = cells(&layout, &block).into_iter();
    let parity = parity.filter(|cell| cell.3.is_none()).map(|cell| cell.1);
    // One further than in rows that do not: sector 263 lies on child 3.
    assert_eq!(parity.collect::<Vec<_>>(), [0, 3]);
}

/// Child and row of a sector.
type Place = fn(u64) -> (usize, u64);

#[test]
fn rows_move_one_by_one() {
    let block = block_of(9, 6, 4);
    // Two rows of three sectors, from sector 6 on: on three children before they move, on four behind.
    let before: Place = |sector| (sector as usize % 3, sector / 3);
    let behind: Place = |sector| (sector as usize % 4, sector / 4);
    for (moved, rows) in [
        (0, [before, before]),
        (8, [before, before]),
        (9, [behind, before]),
        (11, [behind, before]),
        (12, [behind, behind]),
        (99, [behind, behind]),
    ] {
        let layout = growing(1, 4, moved << 12);
        let there = cells(&layout, &block).into_iter();
        let there: Vec<_> = there.map(|(_, child, row, _)| (child, row)).collect();
        let expected = (6..12).map(|sector| rows[(sector as usize - 6) / 3](sector));
        assert_eq!(there, expected.collect::<Vec<_>>(), "{moved}");
        let given_back = layout.on_child(0..1 << 20, 1);
        assert!(given_back.iter().all(std::ops::Range::is_empty));
    }
}

#[test]
fn what_has_moved_may_be_in_the_scratch_area() {
    let raidz = RaidZ::new(1, 4).unwrap().grown(&[], true).unwrap();
    raidz.growth().unwrap().set_moved(Moved {
        to: 9 << 12,
        in_scratch: true,
    });
    let layout = Layout::new(Kind::RaidZ(raidz), 12);
    let placement = layout.placement(&block_of(9, 6, 4), 4);
    let pieces = placement.pieces().iter();
    let pieces: Vec<_> = pieces
        .map(|piece| (piece.child, piece.offset >> 12, piece.area))
        .collect();
    // Sectors 6 to 8 have moved; 9 to 11 have not.
    let expected = [
        (2, 1, Area::Scratch),
        (3, 1, Area::Scratch),
        (0, 2, Area::Scratch),
        (0, 3, Area::Data),
        (1, 3, Area::Data),
        (2, 3, Area::Data),
    ];
    assert_eq!(pieces, expected);
}

proptest! {
    /// An older block fills its sectors, once each, has all of its data once, and each child has no more than one cell
    /// of a row. The sectors of a child are one piece, however many rows there are.
    #[test]
    fn older_blocks_fill_what_was_allocated(
        parity in 1_u64..=3,
        more in 1_usize..8,
        later in 1_usize..6,
        sectors in 1_u64..200,
        sector in 0_u64..1 << 30,
    ) {
        let (first, since) = (parity as usize + more, vec![10; later]);
        let layout = grown(parity, first, &since);
        let (children, block) = (first + later, block_of(9, sector, sectors));
        let (mut there, mut data, mut in_row) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (row, child, at, content) in cells(&layout, &block) {
            prop_assert!(there.insert(at * children as u64 + child as u64));
            prop_assert!(in_row.insert((row, child)));
            data.extend(content);
        }
        let used = sectors + parity * sectors.div_ceil(more as u64);
        prop_assert!(there.into_iter().eq(sector..sector + used));
        prop_assert!(data.into_iter().eq(0..sectors));
        let placement = layout.placement(&block, children);
        prop_assert!(placement.pieces().len() <= children);
        // As many rows of parity as there are, over columns of which the longest come first.
        let mut stripes: BTreeMap<usize, Vec<Column>> = BTreeMap::new();
        for stripe in placement.stripes() {
            let columns = &placement.columns()[stripe];
            stripes.insert(columns[0].stripe, columns.to_vec());
        }
        prop_assert_eq!(stripes.len() as u64, sectors.div_ceil(more as u64));
        for columns in stripes.values() {
            let is_parity = |column: &&Column| matches!(column.content, Content::Parity(_));
            prop_assert_eq!(columns.iter().filter(is_parity).count() as u64, parity);
            prop_assert!(columns.is_sorted_by(|a, b| a.len >= b.len));
        }
    }
}
