use super::Findings;

#[test]
fn the_first_violation_is_kept_and_named() {
    let findings = Findings::default();
    assert!(invariant!(
        findings,
        1 + 1 == 2,
        "test.sum",
        "never formatted"
    ));
    assert_eq!(findings.check(), Ok(()));
    std::thread::scope(|scope| {
        scope.spawn(|| invariant!(findings, false, "test.first", "{} of {}", 3, 2));
    });
    assert!(!invariant!(findings, false, "test.second", "later"));
    let first = findings.check().unwrap_err();
    assert_eq!(findings.first(), Some(&first));
    let text = "an invariant is broken: test.first: 3 of 2";
    assert_eq!(first.to_string(), text);
}
