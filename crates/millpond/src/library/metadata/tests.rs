use super::*;

#[test]
fn times_before_and_after_1970_go_there_and_back() {
    for (seconds, nanoseconds) in [
        (0, 0),
        (5, 7),
        (-1, 0),
        (-1, 999_999_999),
        (-5, 1),
        (1 << 33, 1),
    ] {
        let stamp = Timestamp {
            seconds,
            nanoseconds,
        };
        assert_eq!(timestamp(time(stamp)), stamp);
    }
}
