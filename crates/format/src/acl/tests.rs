use super::*;

fn masks(mode: u32, is_directory: bool) -> Vec<(u16, u16, u32)> {
    trivial(mode, is_directory)
        .iter()
        .map(|ace| (ace.kind, ace.flags, ace.mask))
        .collect()
}

#[test]
fn trivial_lists_as_seen_on_real_pools() {
    let plain = |o, g, e| vec![(0, 0x1000, o), (0, 0x2040, g), (0, 0x4000, e)];
    assert_eq!(masks(0o755, true), plain(0x1E_01FF, 0x12_00A9, 0x12_00A9));
    assert_eq!(masks(0o644, false), plain(0x1E_019F, 0x12_0089, 0x12_0089));
}

#[test]
fn unordered_modes_need_exceptions() {
    let list = masks(0o604, false);
    assert_eq!(list[0], (0, 0x1000, 1));
    assert_eq!(list[1], (1, 0x2040, 1));
    assert_eq!(list.len(), 5);
    assert_eq!(masks(0o044, false)[0], (1, 0x1000, 1));
}

#[test]
fn packing_round_trip() {
    let mut list = trivial(0o604, true);
    list.push(Ace {
        kind: 0,
        flags: flag::IDENTIFIER_GROUP,
        mask: 7,
        who: 1 << 32 | 5,
    });
    let bytes = encode(&list);
    assert_eq!(bytes.len(), 5 * 8 + 16);
    assert_eq!(decode(&bytes, 6).unwrap(), list);
    assert!(decode(&bytes, 7).is_err());
    let mut twice = bytes.clone();
    swap(&mut twice);
    assert_ne!(twice, bytes);
    assert!(decode(&bytes[..50], 6).is_err());
}

#[test]
fn old_entries_carry_their_id() {
    let mut bytes = [0; 12];
    put_u32(&mut bytes, 0, 1000);
    put_u32(&mut bytes, 4, 3);
    assert_eq!(
        decode_old(&bytes, 1).unwrap(),
        [Ace {
            kind: 0,
            flags: 0,
            mask: 3,
            who: 1000
        }]
    );
    assert!(decode_old(&bytes, 2).is_err());
    assert!(decode_old(&bytes, u64::MAX).is_err());
}

#[test]
fn an_id_of_a_domain_becomes_nobodys_in_version_0() {
    let ace = |who| Ace {
        kind: 0,
        flags: 0,
        mask: 7,
        who,
    };
    let stored = encode_old(&[ace(5), ace(u32::MAX.into()), ace(1 << 32 | 5)]);
    let decoded = decode_old(&stored, 3).unwrap();
    assert_eq!(decoded, [ace(5), ace(u32::MAX.into()), ace(65_534)]);
}
