use super::*;

#[test]
fn both_forms_are_read() {
    let bookmark = BookmarkPhys {
        guid: Guid(1),
        creation_txg: Txg(2),
        creation_time: 3,
        flags: BookmarkPhys::FLAG_FREED_VALID,
        ivset_guid: 12,
        ..BookmarkPhys::default()
    };
    let words = bookmark.to_words();
    assert_eq!(BookmarkPhys::from_words(&words).unwrap(), bookmark);
    let short = BookmarkPhys::from_words(&words[..3]).unwrap();
    assert!(bookmark.needs_v2() && !short.needs_v2());
    assert!(BookmarkPhys::from_words(&words[..2]).is_err());
}
