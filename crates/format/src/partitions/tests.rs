use super::*;

fn all(found: &[(u32, Range<u64>)]) -> Vec<Partition> {
    let found = found.iter().cloned();
    found
        .map(|(number, bytes)| numbered(number, bytes))
        .collect()
}

fn put(head: &mut [u8], at: usize, bytes: &[u8]) {
    head[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_gpt_of_either_sector_size_names_what_is_in_use() {
    for sector in [512, 4096] {
        let mut head = vec![0; HEAD_LENGTH];
        // As every disk with a GPT has, for those who know none.
        put(&mut head, 446 + 4, &[0xEE]);
        put(&mut head, 510, &MBR_SIGNATURE);
        put(&mut head, sector, GPT_SIGNATURE);
        put(&mut head, sector + 72, &2_u64.to_le_bytes());
        put(&mut head, sector + 80, &128_u32.to_le_bytes());
        put(&mut head, sector + 84, &128_u32.to_le_bytes());
        for (entry, first, last) in [(0, 2048_u64, 4095_u64), (2, 4096, 4096), (3, 9, 8)] {
            let at = 2 * sector + entry * 128;
            put(&mut head, at, &[7; 16]);
            put(&mut head, at + 32, &first.to_le_bytes());
            put(&mut head, at + 40, &last.to_le_bytes());
        }
        let size = sector as u64;
        let found = partitions(&head, &mut |_| None);
        let wanted = [(1, 2048 * size..4096 * size), (3, 4096 * size..4097 * size)];
        assert_eq!(found, all(&wanted));
        for length in [0, 511, 512, sector + 80, 2 * sector + 100] {
            assert!(
                partitions(&head[..length], &mut |_| None).is_empty(),
                "{length}"
            );
        }
    }
}

#[test]
fn an_mbr_names_its_primary_partitions() {
    let mut head = vec![0; HEAD_LENGTH];
    for (entry, kind, first, count) in [
        (0, 0xBF, 63_u32, 100_u32),
        (1, 5, 200, 9),
        (3, 0x83, 300, 1),
    ] {
        let at = 446 + entry * 16;
        put(&mut head, at + 4, &[kind]);
        put(&mut head, at + 8, &first.to_le_bytes());
        put(&mut head, at + 12, &count.to_le_bytes());
    }
    assert!(partitions(&head, &mut |_| None).is_empty(), "no signature");
    put(&mut head, 510, &MBR_SIGNATURE);
    assert_eq!(
        partitions(&head, &mut |_| None),
        all(&[(1, 63 * 512..163 * 512), (4, 300 * 512..301 * 512)])
    );
}

/// A table of a partition and, unless it is 0, of the next table.
fn table(first: u32, count: u32, next: u32) -> Sector {
    let mut sector = [0; 512];
    for (at, kind, first, count) in [(446, 0x83, first, count), (462, 5, next, 1)] {
        if first > 0 {
            put(&mut sector, at + 4, &[kind]);
            put(&mut sector, at + 8, &first.to_le_bytes());
            put(&mut sector, at + 12, &count.to_le_bytes());
        }
    }
    put(&mut sector, 510, &MBR_SIGNATURE);
    sector
}

#[test]
fn logical_partitions_are_found_by_their_tables() {
    let head = table(100, 9, 1000);
    let found = partitions(&head, &mut |at| match at / 512 {
        1000 => Some(table(63, 10, 500)),
        1500 => Some(table(63, 20, 900)),
        1900 => Some([0; 512]),
        other => panic!("nothing is at {other}"),
    });
    let sectors = |first: u64, count: u64| first * 512..(first + count) * 512;
    let wanted = [
        (1, sectors(100, 9)),
        (5, sectors(1063, 10)),
        (6, sectors(1563, 20)),
    ];
    assert_eq!(found, all(&wanted));
    // In circles, and past all numbers.
    let endless = partitions(&head, &mut |_| Some(table(1, 1, 1)));
    assert!(endless.len() < 200, "{}", endless.len());
    partitions(&table(u32::MAX, u32::MAX, u32::MAX), &mut |_| {
        Some(table(u32::MAX, u32::MAX, u32::MAX))
    });
}
