use super::*;
use base::thread::named;

#[test]
fn the_nice_value_follows_the_session() {
    assert_eq!(nice_of("/autogroup-53 nice -10\n"), Some(-10));
    assert_eq!(nice_of("/autogroup-1 nice 0\n"), Some(0));
    assert_eq!(nice_of(""), None);
}

#[test]
fn a_thread_that_runs_is_counted_whatever_its_name() {
    assert!(is_runnable("12 (a) S) R) R 1 2"));
    assert!(!is_runnable("12 (R) S 1 2"));
    assert!(!is_runnable(""));
    assert!(runnable_threads() >= 1);
}

fn compute() {
    let used = || run_ns("thread-self");
    let begun = used();
    while used() < begun + 20_000_000 {}
}

/// Other tests run beside it, so each figure is at least what this one adds.
#[test]
fn what_those_use_that_answer_is_told_apart() {
    let before = cpu_use();
    let answering = named("answers", crate::thread::ANSWERS).spawn(compute);
    answering.unwrap().join().unwrap();
    let between = cpu_use();
    assert!(between.answering_ns >= before.answering_ns + 20_000_000);
    let other = named("works", crate::thread::BACKGROUND).spawn(compute);
    other.unwrap().join().unwrap();
    let after = cpu_use();
    assert!(after.all_ns > between.all_ns && between.all_ns > before.all_ns);
}
