use super::*;

#[test]
fn keys_are_plain_hexadecimal() {
    assert_eq!(integer_key(0), "0");
    assert_eq!(integer_key(0x1F4), "1f4");
    assert_eq!(parse_integer_key(b"1f4"), Some(0x1F4));
    assert_eq!(parse_integer_key(b"+1"), None);
    assert_eq!(parse_integer_key(b""), None);
    assert_eq!(parse_integer_key(b"11111111111111111"), None);
    assert_eq!(parse_integer_key(b"ffffffffffffffff"), Some(u64::MAX));
    assert_eq!(parse_integer_key(b"00000000000000001"), Some(1));
    assert_eq!(parse_integer_key(b"aBcDeF9"), Some(0xABC_DEF9));
    for bad in [b"g", b"/", b":", b"@", b"G", b"`", b"\0", b"\xFF"] {
        assert_eq!(parse_integer_key(bad), None);
    }
}

#[test]
fn an_entry_takes_what_was_born_after_its_key() {
    let keys = [Txg(0), Txg(5), Txg(9)];
    assert_eq!(entry_for(&keys, Txg(5)), Some(0));
    assert_eq!(entry_for(&keys, Txg(6)), Some(1));
    assert_eq!(entry_for(&keys, Txg(100)), Some(2));
    assert_eq!(entry_for(&keys, Txg(0)), None);
}
