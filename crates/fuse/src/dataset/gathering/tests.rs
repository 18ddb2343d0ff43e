use super::*;

#[test]
fn what_was_taken_freely_has_credit_once() {
    let gathering = Gathering::default();
    assert!(!gathering.is_on());
    gathering.begin(PAGE);
    assert!(gathering.is_on() && !gathering.is_free());
    // Nothing was taken yet.
    assert_eq!(gathering.refused(1), None);
    gathering.is_free.store(true, Ordering::Relaxed);
    let asks = |as_of_now| Some(BeforeWrite::Asks { as_of_now });
    assert_eq!(gathering.refused(4096), asks(true));
    assert_eq!(gathering.refused(4096), asks(false));
    assert_eq!(gathering.refused(1), None);
    gathering.grant();
    assert_eq!(gathering.refused(1 << 20), asks(false));
    assert_eq!(gathering.refused(1), None);
}
