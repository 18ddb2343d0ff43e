use super::*;

#[test]
fn a_line_says_what_how_much_how_fast_and_how_long() {
    let shown = |done, since, seconds| {
        line(
            "tank: scrub",
            done,
            4 << 30,
            since,
            Duration::from_secs(seconds),
        )
    };
    assert_eq!(shown(1 << 30, 0, 0), "tank: scrub: 1G of 4G");
    assert_eq!(shown(1 << 30, 0, 1), "tank: scrub: 1G of 4G, 0B/s");
    assert_eq!(
        shown(2 << 30, 1 << 30, 2),
        "tank: scrub: 2G of 4G, 512M/s, 00:00:04 left"
    );
    // More than was announced.
    assert_eq!(
        shown(5 << 30, 1 << 30, 1),
        "tank: scrub: 5G of 4G, 1G/s, 00:00:00 left"
    );
}
