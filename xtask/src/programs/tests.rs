//! What cargo says of what it built, and what of it is run.

use super::{How, Program, programs};
use std::time::{Duration, Instant};

const TEST: &str = concat!(
    r#"{"reason":"compiler-artifact","package_id":"path+file:///src/crates/dmu#millpond-dmu@0.1.0","#,
    r#""manifest_path":"/src/crates/dmu/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"#,
    r#""name":"golden","src_path":"/src/crates/dmu/tests/golden.rs","doc":false,"doctest":false,"test":true},"#,
    r#""profile":{"opt_level":"3","debuginfo":0,"debug_assertions":true,"overflow_checks":true,"test":true},"#,
    r#""features":[],"filenames":["/t/a \"b\"/golden-1"],"executable":"/t/a \"b\"/golden-1","fresh":true}"#
);

fn program(message: &str) -> Option<Program> {
    programs(message.as_bytes()).pop()
}

#[test]
fn a_test_program_is_known_by_its_crate_and_target() {
    let expected = Program {
        folder: "/src/crates/dmu".into(),
        executable: "/t/a \"b\"/golden-1".into(),
        name: "dmu::golden".to_owned(),
    };
    assert_eq!(program(TEST), Some(expected));
}

#[test]
fn other_messages_are_passed_over() {
    let binary = TEST.replace(
        "\"test\":true},\"features\"",
        "\"test\":false},\"features\"",
    );
    assert_eq!(program(&binary), None, "a binary that tests run");
    let (before, _) = TEST.split_once("\"executable\"").unwrap();
    let library = format!("{before}\"executable\":null,\"fresh\":true}}");
    assert_eq!(program(&library), None);
    assert_eq!(
        program(r#"{"reason":"build-finished","success":true}"#),
        None
    );
}

/// `sleep` stands for a test that waits for ever.
#[test]
fn a_program_that_hangs_is_killed_and_fails() {
    let program = Program {
        folder: "/".into(),
        executable: "sleep".into(),
        name: "torture::hangs".to_owned(),
    };
    let how = How {
        options: &["600"],
        environment: &Vec::new(),
        limit: Some(Duration::from_millis(50)),
    };
    let begin = Instant::now();
    let (outcome, _) = program.run(how).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(300));
    let mut tally = crate::tally::Tally::default();
    assert!(!tally.take(&outcome, false));
    assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
}
