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
