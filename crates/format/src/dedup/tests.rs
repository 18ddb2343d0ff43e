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

fn block(references: u64) -> DedupBlock {
    DedupBlock {
        addresses: [8, 0x1234, 0, 0, 0, 0],
        references,
        birth: 77,
    }
}

#[test]
fn a_value_is_packed_as_it_is_unpacked() {
    for form in [DedupForm::Legacy, DedupForm::Flat] {
        let mut value = DedupValue::new(form);
        assert_eq!(value.references(), 0);
        let found = value
            .block_mut(2)
            .expect("a place for each number of copies");
        *found = block(3);
        assert_eq!(value.class(), DedupClass::Duplicate);
        let packed = value.pack();
        match form {
            DedupForm::Legacy => assert!(packed.len() < 100, "zeros are left out"),
            DedupForm::Flat => assert_eq!(packed.len(), 1 + FLAT_BYTES),
        }
        assert_eq!(DedupValue::unpack(form, &packed), Some(value));
        let bytes = value.encode();
        assert_eq!(
            DedupValue::decode(form, &bytes, ByteOrder::NATIVE),
            Some(value)
        );
        assert_eq!(
            DedupValue::decode(form, &bytes[1..], ByteOrder::NATIVE),
            None
        );
    }
}

#[test]
fn what_old_pools_had_of_an_entry_besides_does_not_count() {
    let mut value = DedupValue::new(DedupForm::Legacy);
    value.blocks[0] = block(9);
    value.blocks[1] = block(1);
    assert_eq!((value.references(), value.class()), (1, DedupClass::Unique));
}

#[test]
fn a_pointer_and_its_key_say_the_same() {
    let key = [1, 2, 3, 4, 0x0F_0007_000F];
    let pointer = block(1).pointer(Checksum::Sha256, &key);
    assert_eq!((pointer.lsize(), pointer.psize()), (8192, 4096));
    assert_eq!(pointer.compression(), Ok(Compression::Lz4));
    assert_eq!(key_of(&pointer), key);
    assert!(block(1).is_of(&pointer) && !pointer.is_dedup());
    assert_eq!(DedupBlock::of(&pointer), block(0));
    let mut counted = pointer;
    counted.set_dedup(true);
    assert!(counted.is_dedup());
    assert_eq!(key_of(&counted), key);
    counted.set_birth(base::Txg(99), base::Txg(78));
    assert!(!block(1).is_of(&counted), "stored in another txg");
}

#[test]
fn a_record_of_a_log_is_read_as_it_was_written() {
    let value = DedupValue {
        blocks: [
            block(5),
            DedupBlock::default(),
            DedupBlock::default(),
            DedupBlock::default(),
        ],
        ..DedupValue::new(DedupForm::Flat)
    };
    let bytes = value.encode();
    let record = LogRecord {
        store: 0,
        class: 2,
        key: [1, 2, 3, 4, 5],
        value: &bytes,
    };
    let mut space = vec![0; 3 * RECORD_BYTES];
    record.encode(&mut space[..RECORD_BYTES]);
    record.encode(&mut space[RECORD_BYTES..]);
    let found: Vec<LogRecord<'_>> = log_records(&space).collect();
    assert_eq!(found, [record, record]);
    assert_eq!(RECORD_BYTES, 120);
}

#[test]
fn a_record_says_which_zap_has_the_entry() {
    for home in DedupClass::ALL.map(Some).into_iter().chain([None]) {
        let record = LogRecord::new([1; 5], home, &[]);
        assert_eq!(record.home(), home);
    }
    // As OpenZFS numbers what is in none.
    let record = LogRecord::new([1; 5], None, &[]);
    assert_eq!((record.store, record.class), (1, 3));
    assert_eq!(LogRecord { class: 2, ..record }.home(), None);
}
