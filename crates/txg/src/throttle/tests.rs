use super::*;

const LIMIT: u64 = 1 << 30;
const MS: u64 = 1_000_000;

#[test]
fn who_is_delayed_goes_on_after_those_before() {
    let throttle = Throttle::default();
    let dues = [0, 0, 10].map(|now| throttle.due_ns(now, MS, 64 << 10, LIMIT));
    assert_eq!(dues, [MS, 2 * MS, 3 * MS]);
    // Nobody is before one who comes later than all that.
    assert_eq!(throttle.due_ns(50 * MS, MS, 64 << 10, LIMIT), 51 * MS);
}

#[test]
fn nobody_holds_up_others_for_much_longer_than_the_devices_need() {
    let throttle = Throttle::default();
    // Nothing is known of the devices: the limit takes ten seconds.
    let piece = LIMIT / 10_000;
    assert_eq!(throttle.due_ns(0, 100 * MS, piece, LIMIT) / 1000, 1999);
    let throttle = Throttle::default();
    // A quarter of the limit in a second: 0.4 ms.
    throttle.wrote(LIMIT / 4, 1_000 * MS, LIMIT);
    assert_eq!(throttle.due_ns(0, 100 * MS, piece, LIMIT) / 1000, 799);
    // What a small txg does says nothing.
    throttle.wrote(4096, 1_000 * MS, LIMIT);
    assert_eq!(throttle.due_ns(0, 100 * MS, piece, LIMIT) / 1000, 1599);
}

#[test]
fn strange_figures_do_not_overflow() {
    let throttle = Throttle::default();
    throttle.wrote(u64::MAX, 0, 1);
    assert_eq!(throttle.due_ns(7, u64::MAX, 0, 0), 7);
    throttle.wrote(0, u64::MAX, 0);
    assert!(throttle.due_ns(0, u64::MAX, u64::MAX, 0) > 7);
    assert_eq!(throttle.due_ns(u64::MAX, u64::MAX, u64::MAX, 0), u64::MAX);
}
