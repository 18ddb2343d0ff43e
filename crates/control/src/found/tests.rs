use super::*;

#[test]
fn a_trial_that_takes_too_long_or_fails_is_not_waited_for() {
    let long = Duration::from_secs(3600);
    assert_eq!(within(long, || 7), Some(7));
    let begun = real_now();
    let waits = || std::thread::sleep(Duration::from_secs(60));
    assert_eq!(within(Duration::from_millis(20), waits), None);
    assert_eq!(within(long, || -> u32 { panic!("of a test") }), None);
    assert!(real_now() - begun < Duration::from_secs(50));
}
