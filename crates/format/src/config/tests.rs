use super::*;

#[test]
fn types_of_vdevs_come_back_from_their_names() {
    for kind in VdevType::ALL {
        assert_eq!(VdevType::named(kind.name()), Some(kind));
        let mut node = NvList::new();
        node.set(keys::TYPE, kind.name());
        assert_eq!(VdevType::of(&node), Some(kind));
    }
}

#[test]
fn names_of_no_type_are_none() {
    for name in ["", "cube", "Mirror", "raidz2", "mirror "] {
        assert_eq!(VdevType::named(name), None, "{name:?}");
    }
    let mut node = NvList::new();
    assert_eq!(VdevType::of(&node), None);
    node.set(keys::TYPE, 5_u64);
    assert_eq!(VdevType::of(&node), None);
}
