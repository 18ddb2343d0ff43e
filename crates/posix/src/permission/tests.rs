use super::*;

fn subject(mode: u32) -> Subject<'static> {
    Subject {
        mode,
        uid: 10,
        gid: 20,
        is_directory: false,
        acl: None,
        entries: None,
    }
}

fn may(uid: u32, gid: u32, mode: u32, access: u32) -> bool {
    check(&Credentials::new(uid, gid), &subject(mode), Access(access)).is_ok()
}

#[test]
fn the_first_class_that_matches_decides() {
    assert!(may(10, 20, 0o700, 7) && !may(10, 20, 0o077, 1));
    assert!(may(11, 20, 0o070, 7) && !may(11, 20, 0o707, 4));
    assert!(may(11, 21, 0o007, 7) && !may(11, 21, 0o770, 4));
}

#[test]
fn root_executes_only_what_somebody_may() {
    assert!(may(0, 0, 0o000, 6) && !may(0, 0, 0o666, 1) && may(0, 0, 0o001, 1));
}

#[test]
fn nfs4_entries_decide_in_order() {
    let entries = [
        Ace {
            kind: kind::DENY,
            flags: 0,
            mask: mask::WRITE_DATA,
            who: 11,
        },
        Ace {
            kind: kind::ALLOW,
            flags: flag::EVERYONE,
            mask: 0x7,
            who: 0,
        },
    ];
    let subject = Subject {
        entries: Some(&entries),
        ..subject(0)
    };
    let may = |uid, access| check(&Credentials::new(uid, 1), &subject, Access(access)).is_ok();
    assert!(may(11, 4) && !may(11, 2) && may(12, 6) && !may(12, 1));
}

#[test]
fn sticky_directories_protect_entries() {
    let check = |uid| check_sticky(&Credentials::new(uid, 1), 0o1777, 5, 6).is_ok();
    assert!(check(0) && check(5) && check(6) && !check(7));
}

#[test]
fn set_id_bits_fall() {
    assert_eq!(without_set_id(0o6755), 0o755);
    assert_eq!(without_set_id(0o6745), 0o2745);
}
