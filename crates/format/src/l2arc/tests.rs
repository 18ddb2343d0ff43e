use super::*;
use base::VdevId;

fn entry(number: u64) -> CopyEntry {
    CopyEntry {
        address: Dva {
            vdev: VdevId(3),
            offset: number << 20,
            asize: 4096,
            gang: false,
        },
        birth: Txg(number + 4),
        logical_size: 131_072,
        physical_size: 4096,
        place: (5 << 20) + number * 4096,
        compression: Compression::Lz4.id(),
        is_metadata: number.is_multiple_of(2),
        is_encrypted: number.is_multiple_of(3),
        is_prefetched: number.is_multiple_of(5),
    }
}

fn pointer() -> LogPointer {
    LogPointer {
        address: 6 << 20,
        stored_size: 8192,
        payload_bytes: 40_960,
        payload_start: 5 << 20,
        compression: Compression::Lz4,
        checksum: ChecksumValue([1, 2, 3, 4]),
    }
}

#[test]
fn a_header_is_what_was_written_and_nothing_else_is_one() {
    let header = CacheHeader {
        magic: MAGIC,
        version: VERSION,
        pool: Guid(1),
        device: Guid(2),
        log_entries: 1022,
        evict: 5 << 20,
        flags: FIRST_SWEEP,
        start: HEADER_OFFSET + 4096,
        end: 2 << 30,
        newest: pointer().to_words(),
        second: [0; 8],
        log_bytes: 8192,
        log_count: 1,
        trim_time: 0,
        trim_state: 0,
    };
    let mut sector = header.seal(12).unwrap();
    assert_eq!(sector.len(), 4096);
    assert_eq!(CacheHeader::open(&sector), Ok(header));
    assert_eq!(LogPointer::from_words(header.newest), Some(pointer()));
    assert_eq!(LogPointer::from_words(header.second), None);
    sector[40] ^= 1;
    assert!(CacheHeader::open(&sector).is_err());
    assert!(CacheHeader::open(&[]).is_err());
    let newer = CacheHeader {
        version: 2,
        ..header
    };
    assert!(CacheHeader::open(&newer.seal(9).unwrap()).is_err());
}

#[test]
fn a_log_block_is_what_was_written() {
    for count in [0, 1, LOG_ENTRIES_MAX] {
        let block = LogBlock {
            previous: (count > 0).then(pointer),
            copies: (0..count).map(entry).collect(),
        };
        let (stored, compression) = block.seal(12).unwrap();
        assert_eq!(stored.len() % 4096, 0);
        let sum = |bytes: &[u8]| {
            let salt = Salt::default();
            codec::checksum(Checksum::Fletcher4, bytes, ByteOrder::NATIVE, &salt)
        };
        let pointer = LogPointer {
            compression,
            checksum: sum(&stored),
            ..pointer()
        };
        assert_eq!(LogBlock::open(&pointer, &stored, count), Ok(block));
        let mut damaged = stored.clone();
        damaged[9] ^= 1;
        assert!(LogBlock::open(&pointer, &damaged, count).is_err());
    }
    let too_many = LogBlock {
        previous: None,
        copies: (0..=LOG_ENTRIES_MAX).map(entry).collect(),
    };
    assert!(too_many.seal(12).is_err());
}

#[test]
fn room_lies_between_the_labels() {
    assert_eq!(room(4 << 20, 9), None);
    let small = room(64 << 20, 12).unwrap();
    assert_eq!(small, (4 << 20) + 4096..(64 << 20) - (512 << 10));
    assert_eq!(log_entries(&small), 0);
    assert_eq!(log_entries(&room(2 << 30, 12).unwrap()), 127);
    assert_eq!(log_entries(&room(1 << 40, 12).unwrap()), LOG_ENTRIES_MAX);
}
