use super::*;

#[test]
fn formats() {
    let moment = Timestamp::from_second(1_795_169_940)
        .unwrap()
        .to_zoned(TimeZone::UTC);
    assert_eq!(
        moment.strftime("%a %b %e %k:%M %Y").to_string(),
        "Fri Nov 20 10:19 2026"
    );
    let morning = Timestamp::from_second(1_795_162_140)
        .unwrap()
        .to_zoned(TimeZone::UTC);
    assert_eq!(
        morning.strftime("%a %b %e %k:%M %Y").to_string(),
        "Fri Nov 20  8:09 2026"
    );
}

#[test]
fn spans() {
    assert_eq!(span(0), "00:00:00");
    assert_eq!(span(65), "00:01:05");
    assert_eq!(span(2 * 86_400 + 3 * 3600 + 245), "2 days 03:04:05");
}

#[test]
fn impossible_moments_are_shown_as_numbers() {
    assert_eq!(creation(u64::MAX), u64::MAX.to_string());
}
