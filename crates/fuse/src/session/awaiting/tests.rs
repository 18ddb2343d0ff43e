use super::*;

#[test]
fn a_signal_that_came_before_the_wait_is_not_lost_soon() {
    let requests = AwaitingRequests::default();
    let first = 2;
    let last = first + 2 * INTERRUPTED_MAX as u64;
    (first..=last)
        .step_by(2)
        .for_each(|unique| requests.interrupt(unique));
    let requests = requests.0.lock();
    assert!(!requests.is_interrupted(first), "so many are remembered");
    assert!(requests.is_interrupted(first + 2));
    assert!(requests.is_interrupted(last));
    assert!(!requests.is_interrupted(last + 2));
}
