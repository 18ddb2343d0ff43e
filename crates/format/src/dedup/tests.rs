//! Values of dedup tables, as they are stored.

use super::*;

fn stored(compression: Compression, value: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; value.len()];
    let payload = match codec::compress(compression, value, &mut packed) {
        Some(length) => &packed[..length],
        None => value,
    };
    [&[compression.id() | 0x80], payload].concat()
}

#[test]
fn a_value_is_unpacked_by_the_compression_that_it_names() {
    for size in [LEGACY_BYTES, FLAT_BYTES] {
        let mut value = vec![0; size];
        value[..8].copy_from_slice(&0x1234_5678_u64.to_le_bytes());
        for compression in [
            Compression::Off,
            Compression::Lzjb,
            Compression::Gzip(6),
            Compression::Zle,
            Compression::Lz4,
        ] {
            let unpacked = unpack(&stored(compression, &value));
            let expected = Some((value.clone(), ByteOrder::Little));
            assert_eq!(unpacked, expected, "{compression:?}");
        }
    }
}

#[test]
fn a_value_that_does_not_unpack_is_none() {
    assert_eq!(unpack(&[]), None);
    assert_eq!(unpack(&[0x7F, 1, 2]), None);
    assert_eq!(unpack(&[Compression::Empty.id(), 0, 0]), None);
    assert_eq!(unpack(&[Compression::Lz4.id(), 0xFF, 0xFF]), None);
}

#[test]
fn entries_of_a_log_end_with_what_is_none() {
    let entry = |key: u64, value: &[u8]| {
        let head = 1 | ((48 + value.len()) as u64) << 8;
        let words = [head, key, 0, 0, 0, 0];
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        words.chain(value.iter().copied()).collect::<Vec<u8>>()
    };
    let mut block = [entry(7, &[1; 72]), entry(8, &[2; 72])].concat();
    let found = |block: &[u8]| -> Vec<(u64, u8)> {
        log_entries(block)
            .map(|(key, value)| (key[0], value[0]))
            .collect()
    };
    assert_eq!(found(&block), [(7, 1), (8, 2)]);
    block.truncate(block.len() - 1);
    assert_eq!(found(&block), [(7, 1)]);
    block[1] = 47;
    assert_eq!(found(&block), []);
    assert_eq!(found(&[]), []);
}
