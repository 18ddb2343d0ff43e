use super::*;

fn wire(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(permissions.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn named() -> PosixAcl {
    let any = u32::MAX;
    PosixAcl::decode(&wire(&[
        (1, 7, any),
        (2, 6, 1001),
        (4, 5, any),
        (8, 7, 50),
        (0x10, 6, any),
        (0x20, 0, any),
    ]))
    .unwrap()
    .unwrap()
}

#[test]
fn round_trip_and_mode() {
    let acl = named();
    assert_eq!(PosixAcl::decode(&acl.encode()).unwrap().unwrap(), acl);
    assert_eq!(acl.permissions(), 0o760);
    assert!(!acl.is_mode_only());
    assert_eq!(acl.clone().with_permissions(0o647).permissions(), 0o647);
    assert_eq!(acl.inherit(0o644).permissions(), 0o640);
}

#[test]
fn the_mask_bounds_named_entries_and_groups() {
    let acl = named();
    let owner = (1000, 100);
    let may = |uid, gid, access| acl.allows(&Credentials::new(uid, gid), owner, Access(access));
    assert!(may(1000, 1, 7));
    assert!(may(1001, 1, 6));
    assert!(!may(1001, 1, 1));
    assert!(may(5, 50, 6) && !may(5, 50, 1));
    assert!(may(5, 100, 4) && !may(5, 100, 2));
    assert!(!may(5, 5, 4));
}

#[test]
fn damaged_lists_are_refused() {
    let any = u32::MAX;
    for bad in [
        vec![],
        vec![1, 0, 0, 0],
        wire(&[(1, 7, any)]),
        wire(&[(1, 7, any), (4, 7, any), (0x20, 9, any)]),
        wire(&[(1, 7, any), (2, 7, 5), (4, 7, any), (0x20, 7, any)]),
        wire(&[(1, 7, any), (1, 7, any), (4, 7, any), (0x20, 7, any)]),
        wire(&[(3, 7, any)]),
    ] {
        assert!(PosixAcl::decode(&bad).is_err(), "{bad:?}");
    }
    assert_eq!(PosixAcl::decode(&wire(&[])).unwrap(), None);
}
