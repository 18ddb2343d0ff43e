use super::*;

#[test]
fn the_line_says_what_how_much_how_fast_and_how_long() {
    let mut now = ImageProgress {
        entries: 12,
        ..ImageProgress::default()
    };
    assert_eq!(line(&now, Duration::ZERO), "counting: 12 entries");
    now = ImageProgress {
        entries: 25,
        entries_total: 100,
        bytes: 1 << 20,
        bytes_total: 4 << 20,
    };
    assert_eq!(
        line(&now, Duration::from_secs(2)),
        "copying: 25 of 100 entries, 1M of 4M, 512K/s, 6 s left"
    );
    now.bytes = 0;
    now.bytes_total = 0;
    assert_eq!(
        line(&now, Duration::from_secs(1)),
        "copying: 25 of 100 entries, 0B of 0B, 0B/s, 3 s left"
    );
}
