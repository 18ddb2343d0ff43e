use super::*;
use crate::{Column, Content};
use format::config::vdev_types;
use proptest::prelude::*;

fn single(ashift: u32) -> Layout {
    Layout::new(Kind::Single, ashift)
}

fn mirror(ashift: u32) -> Layout {
    Layout::new(Kind::Mirror, ashift)
}

#[test]
fn kinds_are_named_as_in_configurations() {
    assert_eq!(Kind::named(vdev_types::FILE), Some(Kind::Single));
    assert_eq!(Kind::named(vdev_types::DISK), Some(Kind::Single));
    for name in ["mirror", "replacing", "spare"] {
        assert_eq!(Kind::named(name), Some(Kind::Mirror), "{name}");
    }
    for name in ["raidz", "draid", "hole", "missing", "indirect", "root", ""] {
        assert_eq!(Kind::named(name), None, "{name}");
    }
}

#[test]
fn blocks_take_whole_sectors() {
    assert_eq!(single(9).asize(513), 1024);
    assert_eq!(mirror(12).asize(512), 4096);
    assert_eq!(mirror(12).asize(0), 0);
    assert_eq!(mirror(13).granule(), 8192);
    // Damaged pointers and configurations are no reason to overflow.
    assert_eq!(single(12).asize(u64::MAX), !4095);
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
        child,
        offset: 8192,
        len: 4096,
        content: Content::Whole,
    };
    let columns = mirror(12).columns(8192, 700, 3);
    assert_eq!(columns.len(), 3);
    assert_eq!(columns.collect::<Vec<_>>(), [side(0), side(1), side(2)]);
    let only: Vec<_> = single(12).columns(8192, 700, 1).collect();
    assert_eq!(only, [side(0)]);
}

#[test]
fn a_vdev_of_copies_is_as_large_as_its_smallest_child() {
    for layout in [single(12), mirror(12)] {
        assert!(layout.is_copies());
        assert_eq!(layout.size(60 << 20, 3), 60 << 20);
        assert_eq!(layout.child_size(60 << 20, 3), 60 << 20);
        assert_eq!(layout.on_child(4096..8192), 4096..8192);
        assert_eq!(layout.written_size(4096, 131_072), 4096);
    }
}

proptest! {
    /// What must hold of any kind.
    #[test]
    fn columns_and_sizes_agree(
        copies in any::<bool>(),
        ashift in 9_u32..=16,
        psize in 1_u64..=16 << 20,
        sector in 0_u64..1 << 30,
        several in 2_usize..20,
    ) {
        let (layout, children) = if copies { (mirror(ashift), several) } else { (single(ashift), 1) };
        let offset = sector << ashift;
        let asize = layout.asize(psize);
        prop_assert!(asize >= psize);
        prop_assert_eq!(asize % layout.sector(), 0);
        prop_assert!(layout.asize(psize + 1) >= asize);
        prop_assert!(layout.tolerance(children) < children);
        prop_assert!(layout.child_size(layout.size(1 << 30, children), children) <= 1 << 30);
        for column in layout.columns(offset, psize, children) {
            prop_assert!(column.child < children);
            let place = layout.on_child(offset..offset + asize);
            prop_assert!(place.contains(&column.offset));
            prop_assert!(column.offset + column.len <= place.end);
        }
    }
}
