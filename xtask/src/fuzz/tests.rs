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
fn a_target_that_is_not_there_is_named_with_those_that_are() {
    let names = || vec!["acl".to_owned(), "nbd".to_owned()];
    assert_eq!(choose(names(), None).unwrap(), names());
    assert_eq!(choose(names(), Some("nbd")).unwrap(), ["nbd"]);
    let told = choose(names(), Some("ndb")).unwrap_err().to_string();
    assert_eq!(told, "no such target: ndb; there are acl, nbd");
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
