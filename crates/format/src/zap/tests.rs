use super::*;

#[test]
fn crc_of_the_check_string() {
    // CRC-64/XZ is the same polynomial with all-ones start and final inversion.
    assert_eq!(!hash::crc64(u64::MAX, b"123456789"), 0x995D_C9BB_DF19_39FA);
}

#[test]
fn hashes_keep_their_top_bits() {
    let plain = hash_name(HashKind::PLAIN, 0x1234_5678_9ABC_DEF1, b"name");
    assert_eq!(plain & ((1 << 36) - 1), 0);
    let kind = HashKind::from_flags(FatHeader::FLAG_HASH_48 | FatHeader::FLAG_WORD_KEYS);
    assert_eq!(hash_words(kind, 1, &[7, 8]) & 0xFFFF, 0);
    let hashed = HashKind {
        hashed: true,
        ..kind
    };
    assert_eq!(hash_words(hashed, 1, &[u64::MAX, 8]), 0xFFFF_FFFF_FFFF_0000);
}

#[test]
fn cursors_serialise_and_end() {
    let cursor = Cursor {
        hash: 0xABCD_EF10_0000_0000,
        differentiator: 3,
    };
    assert_eq!(Cursor::deserialize(cursor.serialize(28), 28), Some(cursor));
    assert_eq!(cursor.serialize(28), 0xABC_DEF1 | 3 << 28);
    assert_eq!(Cursor::deserialize(Cursor::END, 28), None);
    assert_eq!(
        Cursor::after(5 << 36, u32::MAX),
        Cursor {
            hash: (5 << 36) + 1,
            differentiator: 0
        }
    );
}

#[test]
fn a_micro_zap_stores_frees_and_swaps() {
    let mut block = vec![0; 512];
    let mut micro = MicroMut::create(&mut block, 9, 2);
    let entry = MicroEntry {
        slot: 3,
        name: b"deflate",
        value: 1,
        differentiator: 0,
    };
    micro.put(&entry).unwrap();
    micro
        .put(&MicroEntry {
            slot: 0,
            name: &[b'x'; 49],
            value: 7,
            differentiator: 1,
        })
        .unwrap();
    assert!(
        micro
            .put(&MicroEntry {
                name: &[b'x'; 50],
                ..entry
            })
            .is_err()
    );
    assert!(micro.put(&MicroEntry { slot: 7, ..entry }).is_err());
    micro.set_value(3, 2);
    let mut swapped = block.clone();
    super::micro::swap(&mut swapped);
    assert_ne!(swapped, block);
    swap_block(&mut swapped);
    assert_eq!(swapped, block);
    let micro = Micro::new(&block).unwrap();
    assert_eq!(micro.header().salt, 9);
    assert_eq!(micro.entries().count(), 2);
    assert_eq!(micro.entry(3).unwrap().value, 2);
    MicroMut::new(&mut block).unwrap().clear(3);
    assert_eq!(Micro::new(&block).unwrap().entries().count(), 1);
}

#[test]
fn a_fat_header_checks_its_table() {
    let mut block = vec![0; 16384];
    let header = FatHeader::new(14, 5, 0, 0);
    header.write(&mut block);
    fat::set_embedded_entry(&mut block, 1023, 77);
    assert_eq!(fat::embedded_entry(&block, 1023), 77);
    assert_eq!(fat::embedded_entry(&block, 1024), 0);
    assert_eq!(FatHeader::read(&block).unwrap(), header);
    assert_eq!(header.table_index(u64::MAX), 1023);
    let external = FatHeader {
        table_block: 9,
        table_block_count: 2,
        table_shift: 12,
        ..header
    };
    external.write(&mut block);
    assert_eq!(FatHeader::read(&block).unwrap(), external);
    FatHeader {
        table_shift: 13,
        ..external
    }
    .write(&mut block);
    assert!(FatHeader::read(&block).is_err());
}
