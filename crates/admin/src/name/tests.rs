use super::*;
use proptest::prelude::*;

#[test]
fn good_names() {
    assert_eq!(check("tank"), Ok(NameKind::Dataset));
    assert_eq!(check("tank/a b/c.d:e-f_g"), Ok(NameKind::Dataset));
    assert_eq!(check("tank/a@one"), Ok(NameKind::Snapshot));
    assert_eq!(check("tank/a#mark"), Ok(NameKind::Bookmark));
}

#[test]
fn bad_names_say_why() {
    let long = format!("tank/{}", "a".repeat(251));
    let deep = vec!["a"; 51].join("/");
    let cases = [
        ("/tank", NameError::LeadingSlash),
        ("tank/", NameError::TrailingSlash),
        ("tank//a", NameError::EmptyComponent),
        ("tank@", NameError::EmptyComponent),
        ("@a", NameError::EmptyComponent),
        ("", NameError::EmptyComponent),
        ("tank@a@b", NameError::MultipleDelimiters),
        ("tank@a#b", NameError::MultipleDelimiters),
        ("tank/./a", NameError::SelfReference),
        ("tank/../a", NameError::ParentReference),
        ("tank/a%b", NameError::Character('%')),
        ("tank/é", NameError::Character('é')),
        ("tank@a/b", NameError::Character('/')),
        ("1tank", NameError::NoLetter),
        (&long, NameError::TooLong),
        (&deep, NameError::TooDeep),
    ];
    for (name, error) in cases {
        assert_eq!(check(name), Err(error), "{name}");
    }
    assert_eq!(check_dataset("a@b"), Err(NameError::SnapshotDelimiter));
    assert_eq!(check_snapshot("a"), Err(NameError::NoSnapshotDelimiter));
    assert_eq!(check_bookmark("a@b"), Err(NameError::SnapshotDelimiter));
}

#[test]
fn pool_names() {
    assert_eq!(check_pool("tank"), Ok(()));
    assert_eq!(check_pool("logs"), Ok(()));
    assert_eq!(check_pool("log"), Err(NameError::Reserved));
    assert_eq!(check_pool("mirrored"), Err(NameError::Reserved));
    assert_eq!(check_pool("raidz1"), Err(NameError::Reserved));
    assert_eq!(check_pool("tank/a"), Err(NameError::PoolCharacter('/')));
    assert_eq!(check_pool("9"), Err(NameError::NoLetter));
    assert_eq!(check_pool(""), Err(NameError::NoLetter));
    assert_eq!(check_pool(&"a".repeat(240)), Err(NameError::TooLong));
}

#[test]
fn reserved_words_are_those_of_datasets() {
    use dsl::name::{RESERVED_POOL_NAMES, RESERVED_POOL_PREFIXES};
    for word in RESERVED_POOL_NAMES.iter().chain(&RESERVED_POOL_PREFIXES) {
        assert_eq!(check_pool(word), Err(NameError::Reserved), "{word}");
    }
}

#[test]
fn parts_of_names() {
    assert_eq!(pool_of("tank/a@b"), "tank");
    assert_eq!(dataset_of("tank/a#b"), "tank/a");
    assert_eq!(parent_of("tank/a/b@c"), Some("tank/a"));
    assert_eq!(parent_of("tank"), None);
    assert!(is_within("tank/a", "tank"));
    assert!(is_within("tank@a", "tank"));
    assert!(!is_within("tanker", "tank"));
}

proptest! {
    #[test]
    fn never_panics(name in ".{0,300}") {
        let _ = (check(&name), check_pool(&name), kind_of(&name));
    }
}
