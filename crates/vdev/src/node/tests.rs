use super::*;

#[test]
fn mirrors_are_as_their_children_are() {
    let c = Condition::new;
    let (ok, off) = (Condition::HEALTHY, c(VdevState::Offline, VdevAux::None));
    let gone = c(VdevState::CantOpen, VdevAux::OpenFailed);
    assert_eq!(interior_condition(&[ok, ok], 1), ok);
    assert_eq!(interior_condition(&[ok, off], 1).state, VdevState::Degraded);
    let all_offline = c(VdevState::Offline, VdevAux::ChildrenOffline);
    assert_eq!(interior_condition(&[off, off], 1), all_offline);
    assert_eq!(
        interior_condition(&[off, gone], 1),
        c(VdevState::CantOpen, VdevAux::NoReplicas)
    );
    // With a layout that tolerates none of its children to be missing.
    let short = interior_condition(&[ok, gone], 0);
    assert_eq!(short, c(VdevState::CantOpen, VdevAux::NoReplicas));
}
