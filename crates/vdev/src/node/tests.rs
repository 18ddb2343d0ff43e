use super::*;

#[test]
fn mirrors_are_as_their_children_are() {
    let c = Condition::new;
    let (ok, off) = (Condition::HEALTHY, c(VdevState::Offline, VdevAux::None));
    let gone = c(VdevState::CantOpen, VdevAux::OpenFailed);
    assert_eq!(mirror_condition(&[ok, ok]), ok);
    assert_eq!(mirror_condition(&[ok, off]).state, VdevState::Degraded);
    let all_offline = c(VdevState::Offline, VdevAux::ChildrenOffline);
    assert_eq!(mirror_condition(&[off, off]), all_offline);
    assert_eq!(
        mirror_condition(&[off, gone]),
        c(VdevState::CantOpen, VdevAux::NoReplicas)
    );
}
