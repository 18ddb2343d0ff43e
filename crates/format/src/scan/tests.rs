use super::*;

#[test]
fn words_are_in_the_order_of_the_format() {
    let words: Vec<u64> = (1..=24).collect();
    let scan = ScanPhys::from_value(&Value::words(&words)).unwrap();
    assert_eq!((scan.function, scan.errors), (1, 14));
    assert_eq!(scan.dedup, [15, 16, 17, 18, 19]);
    assert_eq!(scan.bookmark, [20, 21, 22, 23]);
    assert_eq!(scan.flags, 24);
    assert_eq!(scan.to_value().to_words(), words);
}

#[test]
fn an_entry_of_another_form_is_none() {
    assert_eq!(ScanPhys::from_value(&Value::words(&[1; 23])), None);
    assert_eq!(ScanPhys::from_value(&Value::words(&[1; 25])), None);
    let bytes = Value::from_stored(4, vec![0; ScanPhys::SIZE]).unwrap();
    assert_eq!(ScanPhys::from_value(&bytes), None);
}
