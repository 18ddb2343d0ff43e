use super::*;

#[test]
fn states_from_below() {
    let leaf = |state| VdevReport {
        state,
        ..VdevReport::healthy("file", 1)
    };
    let (good, bad) = (leaf(VdevState::Online), leaf(VdevState::Unavailable));
    let state = |children: &[VdevReport], redundancy| interior(children, redundancy).0;
    assert_eq!(state(&[good.clone(), good.clone()], 1), VdevState::Online);
    assert_eq!(state(&[good.clone(), bad.clone()], 1), VdevState::Degraded);
    assert_eq!(
        state(&[bad.clone(), bad.clone()], 1),
        VdevState::Unavailable
    );
    let log = VdevReport {
        class: VdevClass::Log,
        ..bad.clone()
    };
    assert_eq!(pool_state(&[good.clone(), log]), VdevState::Degraded);
    assert_eq!(pool_state(&[good, bad]), VdevState::Unavailable);
}
