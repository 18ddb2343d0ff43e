use super::*;

fn decoded(bytes: &[u8]) -> TxgRanges {
    let mut found = TxgRanges::new();
    for entry in space_map::decode(bytes, 0) {
        let entry = entry.unwrap();
        found.add(Txg(entry.offset), entry.length);
    }
    found
}

#[test]
fn a_list_is_short_however_much_was_missed() {
    for (first, length) in [
        (1, 1),
        (4, 1 << 31),
        (4, (1 << 31) + 1),
        (5, TXGS_APART_MAX),
        ((1 << 61) - 3, 1 << 40),
    ] {
        let mut missing = TxgRanges::new();
        missing.add(Txg(first), length);
        missing.add(Txg(first + length + 9), 7);
        let bytes = encode(&missing);
        assert!(bytes.len() < 1 << 20, "{first} {length}: {}", bytes.len());
        assert_eq!(decoded(&bytes), missing);
    }
}
