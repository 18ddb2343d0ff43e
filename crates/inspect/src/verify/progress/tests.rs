use super::*;

#[test]
fn a_line_says_what_how_much_how_fast_and_how_long() {
    let second = Duration::from_secs(1);
    assert_eq!(
        line(0, Some(1 << 30), Duration::ZERO),
        "verifying: 0B of 1GB"
    );
    assert_eq!(line(5 << 20, None, second), "verifying: 5MB, 5MB/s");
    assert_eq!(
        line(256 << 20, Some(1 << 30), second),
        "verifying: 256MB of 1GB, 256MB/s, 3 s left"
    );
}

#[test]
fn work_is_done_in_a_pipe_as_well() {
    assert_eq!(shown(&AtomicU64::new(0), None, || 7), 7);
}
