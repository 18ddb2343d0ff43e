use super::*;
use crate::{VdevAux, VdevState};

fn config(kind: &str, parity: Option<u64>) -> NvList {
    let mut list = NvList::new();
    list.set(keys::TYPE, kind);
    if let Some(parity) = parity {
        list.set(keys::PARITY_COUNT, parity);
    }
    list
}

#[test]
fn kinds_are_named_as_in_configurations() {
    for kind in [
        InteriorKind::Mirror,
        InteriorKind::Replacing,
        InteriorKind::Spare,
    ] {
        assert_eq!(
            InteriorKind::of(&config(kind.vdev_type().name(), None), 2),
            Some(kind)
        );
    }
    let raidz = InteriorKind::RaidZ(RaidZ::new(2, 6).unwrap());
    assert_eq!(InteriorKind::of(&config("raidz", Some(2)), 6), Some(raidz));
    // Without its parity, or with too few children.
    assert_eq!(InteriorKind::of(&config("raidz", None), 6), None);
    assert_eq!(InteriorKind::of(&config("raidz", Some(2)), 2), None);
    for kind in [
        "disk", "file", "draid", "hole", "missing", "indirect", "root", "",
    ] {
        assert_eq!(InteriorKind::of(&config(kind, Some(1)), 5), None, "{kind}");
    }
}

#[test]
fn a_raidz_may_have_been_narrower() {
    let mut expanded = config("raidz", Some(1));
    expanded.set(keys::RAIDZ_EXPAND_TXGS, vec![40_u64, 90]);
    let raidz = RaidZ::new(1, 6).unwrap();
    let since = [Txg(40), Txg(90)];
    let grown = InteriorKind::RaidZ(raidz.clone().grown(&since, false).unwrap());
    assert_eq!(InteriorKind::of(&expanded, 6), Some(grown));
    // It cannot have been of one child.
    assert_eq!(InteriorKind::of(&expanded, 3), None);
    expanded.set(keys::RAIDZ_EXPANDING, Value::Boolean);
    let growing = InteriorKind::RaidZ(raidz.grown(&since, true).unwrap());
    assert_eq!(InteriorKind::of(&expanded, 6), Some(growing));
    expanded.set(keys::RAIDZ_EXPAND_TXGS, 40_u64);
    assert_eq!(InteriorKind::of(&expanded, 6), None);
}

#[test]
fn a_draid_says_as_many_groups_as_its_geometry_has() {
    let mut draid = config("draid", Some(2));
    draid
        .set(keys::DRAID_DATA_COUNT, 4_u64)
        .set(keys::DRAID_SPARE_COUNT, 1_u64)
        .set(keys::DRAID_GROUP_COUNT, 7_u64);
    let known = InteriorKind::Draid(Draid::new(2, 4, 8, 1).unwrap());
    assert_eq!(InteriorKind::of(&draid, 8), Some(known));
    assert_eq!(InteriorKind::of(&draid, 9), None);
    // Groups of failures are not known.
    draid.set(keys::DRAID_CHILD_COUNT, 4_u64);
    assert_eq!(InteriorKind::of(&draid, 8), None);
}

#[test]
fn mirrors_are_as_their_children_are() {
    let c = Condition::new;
    let (ok, off) = (Condition::HEALTHY, c(VdevState::Offline, VdevAux::None));
    let gone = c(VdevState::CantOpen, VdevAux::OpenFailed);
    assert_eq!(Condition::of_interior(&[ok, ok], 1), ok);
    assert_eq!(
        Condition::of_interior(&[ok, off], 1).state,
        VdevState::Degraded
    );
    let all_offline = c(VdevState::Offline, VdevAux::ChildrenOffline);
    assert_eq!(Condition::of_interior(&[off, off], 1), all_offline);
    assert_eq!(
        Condition::of_interior(&[off, gone], 1),
        c(VdevState::CantOpen, VdevAux::NoReplicas)
    );
    // With a layout that tolerates none of its children to be missing.
    let short = Condition::of_interior(&[ok, gone], 0);
    assert_eq!(short, c(VdevState::CantOpen, VdevAux::NoReplicas));
}

fn leaf(guid: u64, missing: &[(u64, u64)]) -> Node {
    let config = crate::LeafConfig {
        guid: Guid(guid),
        path: String::new(),
        ashift: 9,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(crate::testing::MemoryDevice::new(80 << 20)));
    let missing = missing
        .iter()
        .map(|(first, count)| (base::Txg(*first), *count));
    leaf.set_missing(missing.collect());
    Node::Leaf(leaf)
}

fn over(kind: InteriorKind, children: Vec<Node>) -> Node {
    Node::Interior(Interior {
        guid: Guid(99),
        kind,
        children,
    })
}

fn outage(node: &Node, fails: &[u64]) -> Vec<(u64, u64)> {
    let outage = node.outage(&|leaf| fails.contains(&leaf.guid().0));
    outage
        .iter()
        .map(|(first, count)| (first.0, count))
        .collect()
}

const ALL: [(u64, u64); 1] = [(0, u64::MAX)];

#[test]
fn a_mirror_lacks_what_all_its_sides_lack() {
    let sides = vec![leaf(1, &[(10, 5)]), leaf(2, &[(12, 9)]), leaf(3, &[])];
    let mirror = over(InteriorKind::Mirror, sides);
    assert_eq!(outage(&mirror, &[]), []);
    assert_eq!(outage(&mirror, &[1, 2]), []);
    assert_eq!(outage(&mirror, &[3]), [(12, 3)]);
    assert_eq!(outage(&mirror, &[2, 3]), [(10, 5)]);
    assert_eq!(outage(&mirror, &[1, 2, 3]), ALL);
}

#[test]
fn a_raidz_lacks_what_more_children_lack_than_it_has_parity() {
    let replacing = over(
        InteriorKind::Replacing,
        vec![leaf(3, &[]), leaf(4, &[(4, 96)])],
    );
    let raidz = InteriorKind::RaidZ(RaidZ::new(1, 3).unwrap());
    let children = vec![leaf(1, &[(10, 5)]), leaf(2, &[]), replacing];
    let raidz = over(raidz, children);
    assert_eq!(outage(&raidz, &[]), []);
    assert_eq!(outage(&raidz, &[4]), []);
    assert_eq!(outage(&raidz, &[3]), [(10, 5)]);
    assert_eq!(outage(&raidz, &[2]), [(10, 5)]);
    assert_eq!(outage(&raidz, &[2, 3]), [(4, 96)]);
    assert_eq!(outage(&raidz, &[1, 2]), ALL);
    assert_eq!(raidz.find(Guid(4)).unwrap().guid(), Guid(4));
    assert!(raidz.find(Guid(5)).is_none());
}
