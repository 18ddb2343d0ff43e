use format::NvList;
use format::config::{keys, vdev_types};

use super::VdevConfig;

/// A vdev of one file, with metaslabs of a size that somebody made up.
fn file_with(metaslab_shift: u64) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, vdev_types::FILE)
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
