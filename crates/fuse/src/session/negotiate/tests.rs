use super::*;

fn request(major: u32, minor: u32, flags: u64) -> InitRequest {
    InitRequest {
        major,
        minor,
        max_readahead: 131_072,
        flags: InitFlags::from_bits_retain(flags),
    }
}

#[test]
fn only_what_is_offered_is_accepted() {
    let options = SessionOptions::default();
    let Negotiation::Settled(settled, reply) = negotiate(&request(7, 31, 0xFF), &options) else {
        panic!("not settled");
    };
    assert_eq!(
        reply.flags.difference(InitFlags::from_bits_retain(0xFF)),
        InitFlags::empty()
    );
    assert!(!settled.dialect.extended_setxattr && !settled.has_epochs);
    let all = negotiate(&request(7, 45, u64::MAX), &options);
    let Negotiation::Settled(settled, reply) = all else {
        panic!("not settled")
    };
    assert!(settled.dialect.extended_setxattr && settled.has_epochs);
    assert!(!reply.flags.contains(InitFlags::WRITEBACK_CACHE));
    assert!(!reply.flags.contains(InitFlags::POSIX_ACL));
    assert!(!reply.flags.contains(InitFlags::AUTO_INVAL_DATA));
}

#[test]
fn writeback_is_opt_in() {
    let options = SessionOptions {
        writeback_cache: true,
        ..SessionOptions::default()
    };
    let Negotiation::Settled(_, reply) = negotiate(&request(7, 45, u64::MAX), &options) else {
        panic!("not settled");
    };
    assert!(reply.flags.contains(InitFlags::WRITEBACK_CACHE));
}

#[test]
fn other_versions() {
    let options = SessionOptions::default();
    assert!(matches!(
        negotiate(&request(8, 1, 0), &options),
        Negotiation::AskAgain(_)
    ));
    assert_eq!(negotiate(&request(7, 30, 0), &options), Negotiation::TooOld);
    assert_eq!(negotiate(&request(6, 40, 0), &options), Negotiation::TooOld);
}
