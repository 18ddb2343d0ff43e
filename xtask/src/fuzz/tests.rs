use super::*;

#[test]
fn command_lines() {
    assert_eq!(plan(&[]), Some((None, 60)));
    assert_eq!(plan(&["acl"]), Some((Some("acl"), 60)));
    assert_eq!(plan(&["acl", "--seconds", "5"]), Some((Some("acl"), 5)));
    assert_eq!(plan(&["--seconds", "5"]), Some((None, 5)));
    for wrong in [&["--seconds"][..], &["--what"], &["acl", "--seconds", "x"]] {
        assert_eq!(plan(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_corpus_is_packed_smallest_first() {
    let folder = std::env::temp_dir().join(format!("millpond-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, input) in [("a", vec![7; CORPUS_MAX]), ("b", vec![1, 2]), ("c", vec![])] {
        std::fs::write(folder.join(name), input).unwrap();
    }
    assert_eq!(pack(&folder).unwrap(), [0, 0, 2, 0, 1, 2]);
    std::fs::remove_dir_all(folder).unwrap();
}
