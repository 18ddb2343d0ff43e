use super::*;

#[test]
fn files_are_read_and_intersected() {
    let folder = tempfile::tempdir().unwrap();
    let (strict, loose) = (folder.path().join("etc"), folder.path().join("share"));
    std::fs::create_dir_all(&strict).unwrap();
    std::fs::create_dir_all(&loose).unwrap();
    let folders = [strict.clone(), loose.clone()];
    let read = |value: &str| Compatibility::read_in(value, &folders);
    std::fs::write(
        loose.join("some"),
        "# a comment, with lz4_compress in it\nasync_destroy, empty_bpobj\nnot_a_feature\n",
    )
    .unwrap();
    std::fs::write(strict.join("less"), "empty_bpobj bookmarks # one more\n").unwrap();
    std::fs::write(strict.join("bad"), "nonsense\n").unwrap();
    std::fs::write(strict.join("open"), "empty_bpobj").unwrap();
    std::fs::write(strict.join("empty"), "").unwrap();
    let some = read("some").unwrap();
    assert!(some.allows("async_destroy") && some.allows("empty_bpobj"));
    assert!(!some.allows("lz4_compress") && !some.allows("not_a_feature"));
    let both = read("some,less").unwrap();
    assert_eq!(
        both,
        Compatibility::Only(BTreeSet::from(["empty_bpobj".to_owned()]))
    );
    assert_eq!(read("off"), Ok(Compatibility::Off));
    assert!(read("off").unwrap().allows("anything"));
    assert!(!read("legacy").unwrap().allows("lz4_compress"));
    for wrong in [
        "bad",
        "open",
        "empty",
        "none",
        "some,none",
        "../etc/less",
        ",",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let absolute = loose.join("some").display().to_string();
    assert_eq!(read(&absolute).unwrap(), some);
}
