use super::*;
use format::NvList;

fn node(kind: &str, guid: u64, children: Vec<VdevConfig>) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, kind)
        .set(keys::GUID, guid)
        .set(keys::PARITY_COUNT, 1_u64);
    VdevConfig { list, children }
}

fn files(first: u64) -> Vec<VdevConfig> {
    let guids = first..first + 3;
    guids.map(|guid| node("file", guid, Vec::new())).collect()
}

/// The kinds of top-level vdevs that are not taken.
fn refused(top: VdevConfig) -> Vec<String> {
    let root = node("root", 1, vec![top]);
    let tree = open_tree(&root, &Devices::default());
    tree.unsupported.into_iter().map(|(_, kind)| kind).collect()
}

#[test]
fn blocks_of_a_mirror_are_not_taken_for_blocks_of_a_raidz_inside_it() {
    let none: [&str; 0] = [];
    assert_eq!(refused(node("raidz", 2, files(10))), none);
    let replacing = node("replacing", 3, files(20));
    let with_replacing = [files(10), vec![replacing]].concat();
    assert_eq!(refused(node("raidz", 2, with_replacing)), none);
    let raidz = node("raidz", 3, files(20));
    let with_raidz = [files(10), vec![raidz]].concat();
    assert_eq!(refused(node("mirror", 2, with_raidz.clone())), ["mirror"]);
    assert_eq!(refused(node("raidz", 2, with_raidz)), ["raidz"]);
}

#[test]
fn a_distributed_spare_without_room_in_its_vdev_is_as_a_device_that_is_away() {
    let mut top = node("draid", 2, files(10));
    top.list
        .set(keys::DRAID_DATA_COUNT, 1_u64)
        .set(keys::DRAID_SPARE_COUNT, 1_u64)
        .set(keys::DRAID_GROUP_COUNT, 1_u64);
    let room = node("dspare", 20, Vec::new());
    let failed = std::mem::take(&mut top.children[1]);
    top.children[1] = node("spare", 21, vec![failed, room]);
    let root = node("root", 1, vec![top.clone()]);
    let tree = open_tree(&root, &Devices::default());
    assert!(tree.unsupported.is_empty(), "{:?}", tree.unsupported);
    let opened = tree.vdevs.top(VdevId(0)).unwrap();
    let room = opened.leaves().iter().find(|leaf| leaf.guid() == Guid(20));
    assert_eq!(room.unwrap().condition().state, VdevState::CantOpen);
    assert!(
        root.leaves()
            .into_iter()
            .any(|leaf| leaf.is_distributed_spare())
    );
}
