use super::Ageing;

#[test]
fn two_txgs_are_owed_for_one_with_changes_and_none_for_those() {
    let ageing = Ageing::default();
    ageing.written(true);
    assert_eq!(ageing.owed(), 2);
    assert!(!ageing.is_past_opening());
    ageing.want();
    ageing.written(false);
    assert!(ageing.may_write() && ageing.is_wanted());
    assert!(ageing.is_past_opening());
    ageing.written(false);
    assert!(!ageing.may_write() && !ageing.is_wanted());
    assert_eq!(ageing.count(), 3);
}

#[test]
fn a_txg_with_changes_begins_anew() {
    let ageing = Ageing::default();
    ageing.written(true);
    ageing.written(false);
    ageing.written(true);
    assert_eq!(ageing.owed(), 2);
}

#[test]
fn a_pool_that_closes_writes_nothing_for_ageing() {
    let ageing = Ageing::default();
    ageing.written(true);
    ageing.end(true);
    assert!(!ageing.may_write());
    ageing.end(false);
    assert!(ageing.may_write());
}
