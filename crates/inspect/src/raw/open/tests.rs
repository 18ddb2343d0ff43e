//! Labels that say what no pool has.

use super::*;
use format::label;
use std::os::unix::fs::FileExt;

/// A device whose first label describes a top-level vdev of this number.
fn device(folder: &Path, id: u64) -> Found {
    let mut tree = NvList::new();
    tree.set(keys::TYPE, VdevType::File.name())
        .set(keys::ID, id);
    let mut config = NvList::new();
    config.set(keys::TXG, 5_u64).set(keys::VDEV_TREE, tree);
    let path = folder.join(id.to_string());
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(label::DEVICE_SIZE_MIN).unwrap();
    let piece = label::encode_config(&config, label::CONFIG_OFFSET).unwrap();
    file.write_all_at(&piece, label::CONFIG_OFFSET).unwrap();
    open(&path).unwrap()
}

#[test]
fn top_level_vdevs_of_impossible_numbers_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let found = [2, 0, 1 << 16, u64::MAX - 1, u64::MAX].map(|id| device(folder.path(), id));
    let (tree, configs) = assemble(&found.each_ref()).unwrap();
    let tops: Vec<u64> = tree.tops().iter().map(|top| top.id().0).collect();
    assert_eq!((tops, configs.len()), (vec![0, 2], 5));
}
