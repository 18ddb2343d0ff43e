use super::*;

#[test]
fn a_send_is_asked_for_by_its_number() {
    let sending = Sending::new();
    let followed = sending.follow(7);
    assert_eq!(sending.progress(7), None);
    followed.written.begin("p@a");
    let mut output = Counted::new(Vec::new(), &followed.written);
    output.write_all(b"twelve bytes").unwrap();
    let progress = |bytes| {
        Some(SendProgress {
            name: "p@a".to_owned(),
            bytes,
        })
    };
    assert_eq!(sending.progress(7), progress(12));
    assert_eq!(sending.progress(8), None);
    followed.written.begin("p@b");
    assert_eq!(sending.progress(7).unwrap().bytes, 0);
    output.write_all(b"more").unwrap();
    assert_eq!(sending.progress(7).unwrap().bytes, 4);

    // The number again: the later one is meant, also when the other has ended.
    let again = sending.follow(7);
    again.written.begin("p@a");
    drop(followed);
    assert_eq!(sending.progress(7), progress(0));
    drop(again);
    assert_eq!(sending.progress(7), None);
    drop(sending.follow(0));
}
