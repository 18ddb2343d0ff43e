use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// A message with the header of `opcode` and the given arguments.
fn message(opcode: u32, extension_words: u16, parts: &[&[u8]]) -> Vec<u8> {
    let body: Vec<u8> = parts.concat();
    let len = u32::try_from(IN_HEADER_LEN + body.len()).unwrap();
    let mut bytes = Vec::new();
    bytes.extend(len.to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(77_u64.to_ne_bytes());
    bytes.extend(5_u64.to_ne_bytes());
    for value in [1000_u32, 100, 4242] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(extension_words.to_ne_bytes());
    bytes.extend(0_u16.to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn words(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

fn longs(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

fn decoded(bytes: &[u8]) -> Operation<'_> {
    decode_request(bytes, Dialect::default()).unwrap().operation
}

#[test]
fn the_header_is_read() {
    let bytes = message(1, 0, &[b"name\0"]);
    let request = decode_request(&bytes, Dialect::default()).unwrap();
    let header = request.header;
    assert_eq!((header.unique, header.node), (77, 5));
    assert_eq!((header.uid, header.gid, header.pid), (1000, 100, 4242));
    assert_eq!(request.operation, Operation::Lookup { name: b"name" });
}

#[test]
fn names_are_checked() {
    for bad in [b"\0".as_slice(), b"a/b\0", b"no end", b""] {
        let bytes = message(1, 0, &[bad]);
        let refusal = decode_request(&bytes, Dialect::default());
        assert_eq!(refusal, Err(WireError::Name { opcode: 1 }), "{bad:?}");
    }
    let bytes = message(6, 0, &[b"link\0", b"../some/where\0"]);
    assert_eq!(
        decoded(&bytes),
        Operation::Symlink {
            name: b"link",
            target: b"../some/where"
        }
    );
}

#[test]
fn a_write_lends_its_data() {
    let parts = [
        longs(&[9, 4096]),
        words(&[5, 4]),
        longs(&[0]),
        words(&[0o2, 0]),
    ];
    let bytes = message(16, 0, &[&parts.concat(), b"hello"]);
    let Operation::Write(WriteRequest {
        handle,
        offset,
        data,
        write_flags,
        flags,
    }) = decoded(&bytes)
    else {
        panic!("no write");
    };
    assert_eq!(
        (handle, offset, data, flags),
        (9, 4096, b"hello".as_slice(), 2)
    );
    assert!(write_flags.contains(WriteFlags::KILL_SUIDGID));
    let short = message(16, 0, &[&parts.concat(), b"hell"]);
    let refusal = decode_request(&short, Dialect::default());
    assert_eq!(refusal, Err(WireError::Truncated { opcode: 16 }));
}

#[test]
fn both_setxattr_layouts() {
    let long = message(21, 0, &[&words(&[3, 1, 1, 0]), b"user.x\0abc"]);
    let expected = |kill_sgid| {
        Operation::Setxattr(SetxattrRequest {
            name: b"user.x",
            value: b"abc",
            flags: XattrFlags::CREATE,
            kill_sgid,
        })
    };
    assert_eq!(decoded(&long), expected(true));
    let short = message(21, 0, &[&words(&[3, 1]), b"user.x\0abc"]);
    let dialect = Dialect {
        extended_setxattr: false,
    };
    assert_eq!(
        decode_request(&short, dialect).unwrap().operation,
        expected(false)
    );
}

#[test]
fn creations_carry_groups() {
    let arguments = words(&[0o101, 0o644, 0o22, 1]);
    let groups = words(&[20, 32, 2, 27, 44, 0]);
    let bytes = message(35, 3, &[&arguments, b"file\0", &groups]);
    let request = decode_request(&bytes, Dialect::default()).unwrap();
    assert_eq!(request.groups.iter().collect::<Vec<_>>(), [27, 44]);
    let Operation::Create(CreateRequest {
        name,
        mode,
        kill_suidgid,
        ..
    }) = request.operation
    else {
        panic!("no create");
    };
    assert_eq!(
        (name, mode, kill_suidgid),
        (b"file".as_slice(), 0o644, true)
    );
    for broken in [words(&[4, 32]), words(&[200, 32]), words(&[12, 32, 900, 0])] {
        let count = u16::try_from(broken.len() / 8).unwrap();
        let bytes = message(35, count, &[&arguments, b"file\0", &broken]);
        let refusal = decode_request(&bytes, Dialect::default());
        assert_eq!(refusal, Err(WireError::Extension { opcode: 35 }));
    }
}

#[test]
fn init_of_old_and_new_kernels() {
    let old = message(26, 0, &[&words(&[7, 31, 131_072, 0x3F])]);
    let Operation::Init(init) = decoded(&old) else {
        panic!("no init")
    };
    assert_eq!((init.major, init.minor, init.flags.bits()), (7, 31, 0x3F));
    let mut fields = vec![7, 45, 131_072, 1 << 30, 1 << 2];
    fields.resize(16, 0);
    let new = message(26, 0, &[&words(&fields)]);
    let Operation::Init(init) = decoded(&new) else {
        panic!("no init")
    };
    assert!(init.flags.contains(InitFlags::CREATE_SUPP_GROUP));
}

#[test]
fn forgets_come_in_batches() {
    let bytes = message(42, 0, &[&words(&[999, 0]), &longs(&[3, 1, 4, 2])]);
    let Operation::BatchForget { forgets } = decoded(&bytes) else {
        panic!("no forget")
    };
    let all: Vec<_> = forgets.iter().map(|one| (one.node, one.lookups)).collect();
    assert_eq!(all, [(3, 1), (4, 2)]);
}

#[test]
fn unknown_requests_are_no_errors() {
    for opcode in [31, 40, 53, 4096, u32::MAX] {
        assert_eq!(
            decoded(&message(opcode, 0, &[b"whatever"])),
            Operation::Unsupported
        );
    }
}

#[test]
fn reply_layouts_have_their_sizes() {
    let attributes = Attributes::default();
    let timeouts = Timeouts {
        entry: Duration::from_secs(1),
        attributes: Duration::ZERO,
    };
    let entry = EntryReply {
        node: 1,
        generation: 2,
        timeouts,
        attributes,
    };
    let init = InitReply {
        max_readahead: 0,
        flags: InitFlags::from_bits_retain(u64::MAX),
        max_background: 1,
        congestion_threshold: 1,
        max_write: 1,
        time_granularity_ns: 1,
        max_pages: 1,
    };
    let none = OpenReplyFlags::empty();
    let sizes = [
        (Body::entry(&entry), 128),
        (Body::attribute(&attributes, Duration::ZERO), 104),
        (Body::statx(&attributes, Duration::ZERO), 288),
        (Body::open(1, none), 16),
        (Body::create(&entry, 1, none), 144),
        (Body::written(1), 8),
        (Body::seek(1), 8),
        (Body::statfs(&StatfsReply::default()), 80),
        (Body::ioctl(0), 16),
        (Body::init(&init), 64),
    ];
    for (body, size) in sizes {
        assert_eq!(body.as_bytes().len(), size);
    }
}

#[test]
fn headers_carry_negative_errors() {
    let header = out_header(7, 2, 8);
    assert_eq!(header[..4], 24_u32.to_ne_bytes());
    assert_eq!(header[4..8], (-2_i32).to_ne_bytes());
    assert_eq!(header[8..], 7_u64.to_ne_bytes());
}

#[test]
fn listings_are_aligned_and_bounded() {
    let mut listing = DirectoryBuffer::new(80, false);
    assert!(listing.push((10, FileKind::Regular), 1, b"a", None));
    assert_eq!(listing.as_bytes().len(), 32);
    assert!(listing.push((11, FileKind::Directory), 2, b"12345678", None));
    assert_eq!(listing.as_bytes().len(), 64);
    assert!(!listing.push((12, FileKind::Regular), 3, b"b", None));
    let mut plus = DirectoryBuffer::new(4096, true);
    assert!(plus.push((10, FileKind::Regular), 1, b"abc", None));
    assert_eq!(plus.as_bytes().len(), 160);
}

#[test]
fn device_numbers_survive_the_wire() {
    for (major, minor) in [(0, 0), (8, 1), (10, 229), (259, 65_535), (4095, 0xF_FFFF)] {
        let wire = device_number_to_wire(major, minor);
        assert_eq!(device_number_from_wire(wire), (major, minor));
    }
}

#[test]
fn notifications_have_the_documented_bytes() {
    let entry = inval_entry_notification(0x42, b"abc");
    assert_eq!(entry.len(), 0x24);
    assert_eq!(entry[..8], [0x24, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(entry[32..], *b"abc\0");
    let inode = inval_inode_notification(0x42, 100, 200);
    assert_eq!(inode.len(), 0x28);
    assert_eq!(inode[24], 100);
    assert_eq!(invalidate_all_entries_notification().len(), 16);
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), extended: bool) {
        let _ = decode_request(&bytes, Dialect { extended_setxattr: extended });
    }

    #[test]
    fn any_arguments_decode_or_are_refused(
        opcode in 0_u32..60,
        extension_words in 0_u16..6,
        body in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..200),
    ) {
        let bytes = message(opcode, extension_words, &[&body]);
        if let Ok(request) = decode_request(&bytes, Dialect::default()) {
            request.groups.iter().for_each(drop);
            if let Operation::BatchForget { forgets } = request.operation {
                forgets.iter().for_each(drop);
            }
        }
    }
}
