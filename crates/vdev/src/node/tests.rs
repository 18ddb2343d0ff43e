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
        assert_eq!(InteriorKind::of(&config(kind.name(), None), 2), Some(kind));
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
fn a_raidz_that_was_narrower_is_not_taken_for_one_that_was_not() {
    for key in [keys::RAIDZ_EXPAND_TXGS, keys::RAIDZ_EXPANDING] {
        let mut expanded = config("raidz", Some(1));
        expanded.set(key, 1_u64);
        assert_eq!(InteriorKind::of(&expanded, 4), None);
    }
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
