use super::*;
use proptest::prelude::*;

#[test]
fn short_forms() {
    let cases = [
        (0, "0", "0B"),
        (512, "512", "512B"),
        (1023, "1023", "1023B"),
        (1024, "1K", "1K"),
        (1536, "1.50K", "1.50K"),
        (24_576, "24K", "24K"),
        (1_971_712, "1.88M", "1.88M"),
        (39_971_328, "38.1M", "38.1M"),
        (93_696, "91.5K", "91.5K"),
        (917 * 1024 + 100, "917K", "917K"),
        (1_048_575, "1024K", "1024K"),
        (80 << 20, "80M", "80M"),
        (u64::MAX, "16.0E", "16.0E"),
    ];
    for (value, count, bytes) in cases {
        assert_eq!(human(value), count, "{value}");
        assert_eq!(human_bytes(value), bytes, "{value}");
    }
}

#[test]
fn ratios() {
    assert_eq!(ratio(169, false), "1.69x");
    assert_eq!(ratio(100, true), "1.00");
    assert_eq!(ratio(1203, false), "12.03x");
}

#[test]
fn sizes_read() {
    assert_eq!(parse_size("512"), Ok(512));
    assert_eq!(parse_size("128K"), Ok(131_072));
    assert_eq!(parse_size("1.5k"), Ok(1536));
    assert_eq!(parse_size("2TB"), Ok(2 << 40));
    assert_eq!(parse_size("1KiB"), Ok(1024));
    assert_eq!(parse_size("7b"), Ok(7));
    assert_eq!(parse_size("0.1G"), Ok(107_374_182));
    assert_eq!(parse_size(""), Err(NumberError::Bad(String::new())));
    assert_eq!(parse_size("abc"), Err(NumberError::Bad("abc".into())));
    assert_eq!(parse_size("1.2.3"), Err(NumberError::Bad("1.2.3".into())));
    assert_eq!(parse_size("1Q"), Err(NumberError::Suffix("Q".into())));
    assert_eq!(
        parse_size("10Kb/s"),
        Err(NumberError::Suffix("Kb/s".into()))
    );
    assert_eq!(parse_size("16E"), Err(NumberError::TooLarge));
    assert_eq!(
        parse_size("99999999999999999999999999999999999999999"),
        Err(NumberError::TooLarge)
    );
}

proptest! {
    #[test]
    fn short_form_fits_five_characters(value: u64) {
        prop_assert!(human(value).len() <= 5);
        prop_assert!(human_bytes(value).len() <= 5);
    }

    #[test]
    fn exact_numbers_round_trip(value: u64) {
        prop_assert_eq!(parse_size(&value.to_string()), Ok(value));
    }

    #[test]
    fn reading_never_panics(text in ".{0,40}") {
        let _ = parse_size(&text);
    }
}
