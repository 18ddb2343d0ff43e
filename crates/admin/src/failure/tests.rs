use super::*;

#[test]
fn a_program_is_told_the_cause_and_a_person_the_next_step_too() {
    let failure = Failure::cannot(FailureKind::Busy, "destroy", "tank", "pool is busy.")
        .because("'/mnt' is in use")
        .advise("use '-f'")
        .because("\tby sh");
    assert_eq!(failure.name.as_deref(), Some("tank"));
    assert_eq!(
        failure.to_string(),
        "cannot destroy 'tank': pool is busy.\n'/mnt' is in use\nuse '-f'\n\tby sh"
    );
    assert_eq!(
        failure.whole_cause(),
        "cannot destroy 'tank': pool is busy: '/mnt' is in use; by sh"
    );
    let plain = Failure::new(FailureKind::Invalid, "no").advise("use '-f'");
    assert_eq!(plain.whole_cause(), "no");
}

#[test]
fn an_older_daemon_tells_no_name() {
    let text = r#"{"kind":"Busy","message":"m","advice":["a"]}"#;
    let failure: Failure = serde_json::from_str(text).unwrap();
    assert!(failure.name.is_none() && failure.reasons.is_empty());
}
