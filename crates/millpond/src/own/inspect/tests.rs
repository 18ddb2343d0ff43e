use super::*;

fn status(words: &[&str]) -> u8 {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    inspected(&words, &mut Vec::new())
}

#[test]
fn a_wrong_line_is_told_from_a_pool_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    assert_eq!(status(&["-b", folder]), 1);
    let wrong: [&[&str]; 7] = [
        &["-Z", folder],
        &["--frobnicate", folder],
        &["-b"],
        &["-b", "-t", "x", folder],
        &["-b", folder, "-t"],
        &["-j", folder],
        &["-d", folder, "pool", "1:x"],
    ];
    for words in wrong {
        assert_eq!(status(words), 2, "{words:?}");
    }
}

#[test]
fn letters_words_and_operands_say_what_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let asked = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words::parse(&words).unwrap()
    };
    let found = asked(&[
        "-bcc",
        "-vt9",
        "-p",
        folder,
        "tank/home@monday",
        "5",
        "7:-1",
    ]);
    assert_eq!((found.blocks, found.checksums, found.datasets), (2, 2, 0));
    assert_eq!(found.txg_max, Some(base::Txg(9)));
    assert_eq!(found.pool.as_deref(), Some("tank"));
    assert_eq!(found.dataset.as_deref(), Some("tank/home@monday"));
    assert_eq!(found.objects, [5..=5, 7..=u64::MAX]);
    assert!(found.leaks && !found.exact && !found.json);

    let found = asked(&["--verify", "--json", "-LP", folder]);
    assert_eq!((found.blocks, found.checksums), (1, 2));
    assert!(!found.leaks && found.exact && found.json);

    let found = asked(&["-c", folder]);
    assert_eq!((found.blocks, found.checksums), (1, 1));
    assert_eq!(asked(&[folder]).datasets, 1);
    assert_eq!(asked(&["-lu", "--", folder]).datasets, 0);
}
