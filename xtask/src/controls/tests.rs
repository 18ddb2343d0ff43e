use super::control::Control;
use super::{check, has_passed};
use crate::environment::root;

const TEXT: &str = "title: A lock is not taken.
test: -p millpond-space --lib locks
=== a.rs
    let _held = lock();
--- instead
=== a.rs
after();
--- instead
before();
";

fn control() -> Control {
    Control::parse("lock", TEXT).unwrap()
}

#[test]
fn a_control_changes_what_it_names() {
    let read = |_: &str| Ok("    let _held = lock();\nafter();\n".to_owned());
    let changed = control().applied(read).unwrap();
    assert_eq!(changed["a.rs"], "before();\n");
}

#[test]
fn a_text_that_is_not_there_once_is_a_fault_of_the_control() {
    for text in [
        "after();\n",
        "    let _held = lock();\n    let _held = lock();\nafter();\n",
    ] {
        let read = |_: &str| Ok(text.to_owned());
        assert!(control().applied(read).is_err(), "{text}");
    }
}

#[test]
fn a_control_without_a_test_is_refused() {
    let text = TEXT.replace("test: -p millpond-space --lib locks\n", "");
    assert!(Control::parse("lock", &text).is_err());
    assert!(Control::parse("lock", "title: Nothing.\ncolour: red\n").is_err());
}

#[test]
fn no_test_at_all_does_not_count_as_green() {
    assert!(has_passed("test result: ok. 1 passed; 0 failed; 0 ignored"));
    assert!(!has_passed(
        "test result: ok. 0 passed; 0 failed; 0 ignored"
    ));
    assert!(!has_passed("test result: FAILED. 1 passed; 1 failed"));
}

#[test]
fn every_text_of_the_list_is_there_once() {
    let faults = check(&root()).unwrap();
    assert!(faults.is_empty(), "{faults:#?}");
}
