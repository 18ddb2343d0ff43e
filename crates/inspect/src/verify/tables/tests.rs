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
