use super::*;

#[test]
fn a_head_is_what_it_was_and_no_more_is_believed_than_there_is() {
    let guids = [Guid(7), Guid(u64::MAX), Guid(9)];
    let head = RedactionHead {
        last_object: ObjectId(u64::MAX),
        last_block: u64::MAX,
        entries: 3,
        snapshots: 3,
    };
    assert!(head.is_complete());
    let bytes = head.encode_with_snapshots(&guids);
    assert_eq!(bytes.len(), RedactionHead::bytes_with(3));
    let (decoded, found) = RedactionHead::decode_with_snapshots(&bytes).unwrap();
    assert_eq!((decoded, found.as_slice()), (head.clone(), &guids[..]));
    RedactionHead::decode_with_snapshots(&bytes[..bytes.len() - 1]).unwrap_err();
    RedactionHead::decode_with_snapshots(&bytes[..8]).unwrap_err();
    let many = RedactionHead {
        snapshots: u64::MAX,
        ..head
    };
    RedactionHead::decode_with_snapshots(&many.encode_with_snapshots(&guids)).unwrap_err();
}

#[test]
fn the_bonus_of_one_slot_holds_thirty_six_snapshots() {
    assert_eq!(RedactionHead::bytes_with(SNAPSHOTS_IN_BONUS), 320);
}

#[test]
fn neighbours_of_one_size_join() {
    let mut range = RedactedRange::new(ObjectId(5), 10, 2, 131_072);
    assert_eq!(range.size_and_count, (256 << 48) | 1);
    assert!(range.join(&RedactedRange::new(ObjectId(5), 12, 3, 131_072)));
    assert_eq!((range.first, range.count(), range.end()), (10, 5, 15));
    for other in [
        RedactedRange::new(ObjectId(5), 16, 1, 131_072),
        RedactedRange::new(ObjectId(6), 15, 1, 131_072),
        RedactedRange::new(ObjectId(5), 15, 1, 512),
        RedactedRange::new(ObjectId(5), 15, 1 << 48, 131_072),
    ] {
        assert!(!range.join(&other));
    }
}
