use super::*;

const fn errors(read: u64, checksum: u64, slow: u64) -> ErrorCounts {
    ErrorCounts {
        read,
        write: 0,
        checksum,
        slow,
        trim: 0,
    }
}

#[test]
fn errors_count_for_as_long_as_is_said() {
    let mut watched = Watched::default();
    assert_eq!(watched.look(100, errors(4, 0, 0)), [Kind::Io]);
    assert_eq!(watched.look(100, errors(4, 0, 0)), []);
    assert_eq!(
        watched.look(110, errors(9, 2, 0)),
        [Kind::Io, Kind::Checksum]
    );
    let io = |now, seconds| watched.within(Kind::Io, now, seconds);
    assert_eq!(io(110, 10), 9);
    assert_eq!(io(110, 9), 5);
    assert_eq!(io(121, 10), 0);
    assert_eq!(watched.within(Kind::Checksum, 111, 1), 2);
    assert_eq!(watched.within(Kind::Slow, 111, 100), 0);
    // Fewer than before: they were cleared.
    assert_eq!(watched.look(120, errors(1, 0, 0)), []);
    assert_eq!(watched.look(121, errors(2, 0, 1)), [Kind::Io, Kind::Slow]);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut times = Times::default();
    (0..5000).for_each(|second| times.add(second, 2));
    assert_eq!(times.within(5000, u64::MAX), 2 * SECONDS_MAX as u64);
}

#[test]
fn slow_operations_count_if_both_are_set() {
    assert_eq!(Kind::Slow.limit(Some(3), None), None);
    assert_eq!(Kind::Slow.limit(Some(3), Some(5)), Some((3, 5)));
    assert_eq!(Kind::Io.limit(None, Some(5)), Some((10, 5)));
    assert_eq!(Kind::Checksum.limit(Some(2), None), Some((2, 600)));
}
