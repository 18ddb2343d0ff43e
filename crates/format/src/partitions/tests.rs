use super::*;

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
        let found = partitions(&head);
        assert_eq!(found, [2048 * size..4096 * size, 4096 * size..4097 * size]);
        for length in [0, 511, 512, sector + 80, 2 * sector + 100] {
            assert!(partitions(&head[..length]).is_empty(), "{length}");
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
    assert!(partitions(&head).is_empty(), "no signature");
    put(&mut head, 510, &MBR_SIGNATURE);
    assert_eq!(
        partitions(&head),
        [63 * 512..163 * 512, 300 * 512..301 * 512]
    );
}
