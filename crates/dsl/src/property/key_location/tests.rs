use super::*;

#[test]
fn a_location_is_a_word_or_an_address() {
    for (text, expected) in [
        ("prompt", Some(KeyLocation::Prompt)),
        ("file:///a/b", Some(KeyLocation::File("/a/b"))),
        ("file://b", Some(KeyLocation::File("b"))),
        ("https://a/b", Some(KeyLocation::Web("https://a/b"))),
        ("http://a", Some(KeyLocation::Web("http://a"))),
        ("none", None),
        ("", None),
        ("ftp://a", None),
        ("prompt://", None),
        ("/a/b", None),
    ] {
        assert_eq!(KeyLocation::parse(text), expected, "{text}");
    }
    assert_eq!(
        KeyLocation::parse(KeyLocation::DEFAULT),
        Some(KeyLocation::Prompt)
    );
}

#[test]
fn a_file_that_is_stored_has_a_whole_path() {
    let lasts = |text| KeyLocation::parse(text).is_some_and(KeyLocation::is_lasting);
    assert!(lasts("prompt") && lasts("https://a/b") && lasts("file:///a"));
    assert!(!lasts("file://a") && !lasts("file://"));
}

/// What `zfs get` and the manual page say that there is.
#[test]
fn the_row_names_each_location() {
    let said: Vec<&str> = KeyLocation::WORDS.split(" | ").collect();
    for word in &said {
        let text = match word.trim_start_matches('<').split_once(' ') {
            Some((scheme, _)) => format!("{scheme}:///x"),
            None => (*word).to_owned(),
        };
        let words: &[&str] = match KeyLocation::parse(&text) {
            Some(KeyLocation::Prompt) => &["prompt"],
            Some(KeyLocation::File(_)) => &["<file URI>"],
            Some(KeyLocation::Web(_)) => &["<https URL>", "<http URL>"],
            None => panic!("{word}"),
        };
        assert!(words.contains(word), "{word}");
    }
    assert_eq!(said.len(), 4);
}
