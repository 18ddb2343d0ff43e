use super::*;

#[test]
fn states_from_below() {
    let leaf = |state| VdevReport {
        kind: "file".into(),
        id: 0,
        guid: 1,
        path: None,
        class: VdevClass::Normal,
        state,
        cause: None,
        absent: false,
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        leaf: admin::LeafReport::default(),
        activity: None,
        size: 0,
        allocated: None,
        device_size: 0,
        fragmentation: None,
        expandable: 0,
        children: Vec::new(),
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
