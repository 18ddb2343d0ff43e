use super::print_histogram;

fn printed(buckets: &[u64], shift: u32) -> String {
    let mut out = Vec::new();
    print_histogram(&mut out, buckets, shift).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_histogram_is_as_wide_as_its_longest_bar() {
    let lines = printed(&[0, 80, 1, 0], 9);
    let lines: Vec<&str> = lines.lines().map(str::trim_start).collect();
    assert_eq!(
        lines,
        [
            format!("10:     80 {}", "*".repeat(40)),
            "11:      1 *".to_owned()
        ]
    );
}

#[test]
fn a_histogram_of_any_numbers_is_printed() {
    let lines = printed(&[u64::MAX, 1], u32::MAX);
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.contains(&"*".repeat(40)));
}
