use format::NvList;
use format::config::{VdevType, keys};

use super::VdevConfig;
use super::regroup::Neighbours;

/// A vdev of one file, with metaslabs of a size that somebody made up.
fn file_with(metaslab_shift: u64) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, VdevType::File.name())
        .set(keys::ASHIFT, 9_u64)
        .set(keys::ASIZE, 64_u64 << 20)
        .set(keys::METASLAB_SHIFT, metaslab_shift);
    VdevConfig {
        list,
        children: Vec::new(),
    }
}

#[test]
fn a_vdev_grows_by_whole_metaslabs_of_any_size() {
    assert_eq!(file_with(24).expandable_bytes(Some(100 << 20)), 32 << 20);
    assert_eq!(file_with(24).expandable_bytes(None), 0);
    for shift in [63, 64, 124, 262, u64::MAX] {
        assert_eq!(file_with(shift).expandable_bytes(Some(100 << 20)), 0);
    }
}

/// A vdev of this type over so many files, with all that any type needs to be one.
fn over(kind: &str, count: u64) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, kind)
        .set(keys::GUID, 7_u64)
        .set(keys::ASHIFT, 9_u64)
        .set(keys::PARITY_COUNT, 2_u64)
        .set(keys::DRAID_DATA_COUNT, 2_u64)
        .set(keys::DRAID_SPARE_COUNT, 0_u64)
        .set(keys::DRAID_GROUP_COUNT, 1_u64);
    VdevConfig {
        list,
        children: (0..count).map(|_| file_with(24)).collect(),
    }
}

#[test]
fn as_many_children_may_fail_as_the_layout_bears() {
    for kind in VdevType::ALL {
        for count in [0, 4] {
            let config = over(kind.name(), count);
            let layout = config.layout();
            let borne = layout.map_or(0, |layout| layout.tolerance(config.children.len()));
            assert_eq!(config.tolerance(), borne, "{kind:?} of {count}");
        }
    }
    assert_eq!(over("mirror", 4).tolerance(), 3);
    assert_eq!(over("replacing", 2).tolerance(), 1);
    assert_eq!(over("raidz", 4).tolerance(), 2);
    assert_eq!(over("draid", 4).tolerance(), 2);
}

#[test]
fn of_a_type_that_nobody_knows_nothing_is_believed() {
    let config = over("cube", 3);
    assert_eq!(config.vdev_type(), None);
    assert_eq!((config.kind(), &*config.shown_kind()), ("cube", "cube"));
    assert!(config.layout().is_none() && !config.is_leaf());
    assert_eq!(config.tolerance(), 0);
    assert_eq!(config.neighbours(), Neighbours::Nothing);
    // What was read is written back.
    let again = VdevConfig::from_list(&config.to_list(false)).unwrap();
    assert_eq!(again, config);
}
