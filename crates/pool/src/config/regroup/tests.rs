use super::*;

fn leaf(id: u64, guid: u64, path: &str) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, VdevType::File.name())
        .set(keys::ID, id)
        .set(keys::GUID, guid)
        .set(keys::PATH, path)
        .set(keys::CREATE_TXG, 4_u64);
    VdevConfig {
        list,
        children: Vec::new(),
    }
}

fn over(kind: &str, guid: u64, children: Vec<VdevConfig>) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, kind).set(keys::ID, 0_u64);
    list.set(keys::GUID, guid);
    VdevConfig { list, children }
}

fn as_top(mut node: VdevConfig) -> VdevConfig {
    node.list
        .set(keys::METASLAB_ARRAY, 61_u64)
        .set(keys::METASLAB_SHIFT, 24_u64)
        .set(keys::ASHIFT, 9_u64)
        .set(keys::ASIZE, 1_u64 << 27)
        .set(keys::IS_LOG, 0_u64)
        .set(keys::VDEV_ZAP_TOP, 70_u64);
    node
}

fn root(top: VdevConfig) -> VdevConfig {
    over(VdevType::Root.name(), 1, vec![top])
}

fn guids(node: &VdevConfig) -> Vec<u64> {
    node.children.iter().map(|child| child.guid().0).collect()
}

fn ids(node: &VdevConfig) -> Vec<u64> {
    node.children.iter().map(|child| child.id().0).collect()
}

const MIRROR: (Beside, Guid) = (Beside::Mirror, Guid(50));
const REPLACING: (Beside, Guid) = (Beside::Replacing, Guid(50));

#[test]
fn a_single_device_becomes_a_mirror_and_a_single_device_again() {
    let before = root(as_top(leaf(0, 10, "/a")));
    let mut tree = before.clone();
    assert!(tree.attach(Guid(10), leaf(7, 11, "/b"), MIRROR));
    let top = &tree.children[0];
    assert_eq!(
        (top.kind(), top.guid()),
        (VdevType::Mirror.name(), Guid(50))
    );
    assert_eq!((top.ashift(), top.asize()), (9, 1 << 27));
    assert_eq!((guids(top), ids(top)), (vec![10, 11], vec![0, 1]));
    for child in &top.children {
        assert!(OF_TOP.iter().all(|key| child.list.get(key).is_none()));
    }
    // The new one alone: the place's facts are its own now.
    let mut other = tree.clone();
    assert_eq!(other.detach(Guid(10)).unwrap().guid(), Guid(10));
    let top = &other.children[0];
    assert_eq!((top.guid(), top.path()), (Guid(11), Some("/b")));
    assert_eq!(top.object(keys::METASLAB_ARRAY), Some(base::ObjectId(61)));
    assert_eq!(top.object(keys::VDEV_ZAP_TOP), Some(base::ObjectId(70)));
    assert!(top.is_leaf() && top.id().0 == 0);
    // The old one alone.
    tree.detach(Guid(11)).unwrap();
    assert_eq!(guids(&tree), [10]);
    assert_eq!(tree.guid_sum(), before.guid_sum());
    for key in OF_TOP {
        let of = |tree: &VdevConfig| tree.children[0].list.get(key).cloned();
        assert_eq!(of(&tree), of(&before), "{key}");
    }
}

#[test]
fn mirrors_get_more_sides_and_lose_them() {
    let mirror = over(
        VdevType::Mirror.name(),
        2,
        vec![leaf(0, 10, "/a"), leaf(1, 11, "/b")],
    );
    let mut tree = root(as_top(mirror));
    assert!(tree.attach(Guid(10), leaf(0, 12, "/c"), MIRROR));
    assert_eq!(guids(&tree.children[0]), [10, 11, 12]);
    assert_eq!(tree.detach(Guid(11)).unwrap().path(), Some("/b"));
    assert_eq!(guids(&tree.children[0]), [10, 12]);
    assert_eq!(ids(&tree.children[0]), [0, 1]);
    assert!(!tree.attach(Guid(99), leaf(0, 13, "/d"), MIRROR));
    assert!(tree.detach(Guid(99)).is_none());
    assert!(tree.detach(Guid(1)).is_none());
}

#[test]
fn a_child_of_a_raidz_is_replaced_in_its_place() {
    let children = vec![
        leaf(0, 10, "/a"),
        leaf(1, 11, "/dev/old"),
        leaf(2, 12, "/c"),
    ];
    let mut tree = root(as_top(over(VdevType::RaidZ.name(), 2, children)));
    assert!(tree.attach(Guid(11), leaf(0, 13, "/d"), REPLACING));
    let raidz = &tree.children[0];
    assert_eq!(guids(raidz), [10, 50, 12]);
    let replacing = &raidz.children[1];
    assert_eq!(
        (guids(replacing), ids(replacing)),
        (vec![11, 13], vec![0, 1])
    );
    assert_eq!((replacing.id().0, replacing.asize()), (1, 0));
    assert_eq!(tree.parent_of(Guid(13)).unwrap().guid(), Guid(50));
    assert_eq!(tree.replaced(&|guid| guid == Guid(11)), None);
    assert_eq!(tree.replaced(&|guid| guid == Guid(13)), Some(Guid(11)));
    tree.detach(Guid(11)).unwrap();
    assert_eq!(guids(&tree.children[0]), [10, 13, 12]);
    assert_eq!(ids(&tree.children[0]), [0, 1, 2]);
    assert_eq!(tree.replaced(&|_| true), None);
    // A device whose file is called so keeps its name.
    assert!(tree.attach(Guid(13), leaf(0, 14, "/e"), REPLACING));
    tree.detach(Guid(14)).unwrap();
    assert_eq!(tree.find(Guid(13)).unwrap().path(), Some("/d"));
}

#[test]
fn who_made_room_under_the_same_path_gets_it_back() {
    let mut tree = root(as_top(leaf(0, 10, "/a/old")));
    assert!(tree.attach(Guid(10), leaf(0, 11, "/a"), REPLACING));
    tree.detach(Guid(11)).unwrap();
    assert_eq!(tree.find(Guid(10)).unwrap().path(), Some("/a"));
    // Another device whose path happens to end so.
    let mut tree = root(as_top(leaf(0, 10, "/a/old")));
    assert!(tree.attach(Guid(10), leaf(0, 11, "/b"), MIRROR));
    tree.detach(Guid(11)).unwrap();
    assert_eq!(tree.find(Guid(10)).unwrap().path(), Some("/a/old"));
}

#[test]
fn nodes_that_name_their_top_name_the_new_one() {
    let mut old = as_top(leaf(0, 10, "/a"));
    old.list.set(keys::TOP_GUID, 10_u64);
    let mut tree = root(old);
    assert!(tree.attach(Guid(10), leaf(0, 11, "/b"), MIRROR));
    tree.children[0].name_top();
    let named = |guid| tree.find(Guid(guid)).unwrap().list.u64(keys::TOP_GUID);
    assert_eq!((named(10), named(11), named(50)), (Some(50), None, None));
}
