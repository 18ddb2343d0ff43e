use super::*;

#[test]
fn images_end_at_the_first_colon_behind_a_file() {
    let exists = |path: &Path| path == Path::new("a:b.img") || path == Path::new("c.img");
    assert_eq!(split("a:b.img", &exists), None);
    assert_eq!(
        split("a:b.img:pool/x:y", &exists),
        Some(("a:b.img", "pool/x:y"))
    );
    assert_eq!(split("c.img:", &exists), Some(("c.img", "")));
    assert_eq!(
        split("missing.img:pool", &exists),
        Some(("missing.img", "pool"))
    );
    assert_eq!(split(":/etc", &exists), Some(("", "/etc")));
    assert_eq!(split("plain", &exists), None);
}

#[test]
fn several_images_and_places() {
    let words = ["m0", "m1:p/x", ":p/y", "n:"].map(str::to_owned);
    let targets = parse(&words).unwrap();
    let images = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(targets[0].images, images(&["m0", "m1"]));
    assert_eq!(targets[1].images, images(&["m0", "m1"]));
    assert_eq!(targets[1].place, "p/y");
    assert_eq!(targets[2].images, images(&["n"]));
    assert!(parse(&["alone".to_owned()]).is_err());
    assert!(parse(&[":p".to_owned()]).is_err());
    assert!(parse(&["a:p".to_owned(), "b".to_owned()]).is_err());
}

#[test]
fn places() {
    let root = Components::of("");
    assert_eq!((root.dataset, root.rest.len()), (Some(vec![]), 0));
    let path = Components::of("/etc/./passwd");
    assert_eq!(
        (path.dataset, path.rest),
        (Some(vec![]), vec!["etc", "passwd"])
    );
    let open = Components::of("pool/fs/dir/");
    assert_eq!((open.dataset, open.rest), (None, vec!["pool", "fs", "dir"]));
    assert!(open.is_directory);
    let ended = Components::of("pool/fs//dir");
    assert_eq!(
        (ended.dataset, ended.rest),
        (Some(vec!["pool", "fs"]), vec!["dir"])
    );
    let snapshot = Components::of("pool@s/dir@x");
    assert_eq!(snapshot.dataset, Some(vec!["pool"]));
    assert_eq!(
        (snapshot.snapshot, snapshot.rest),
        (Some("s"), vec!["dir@x"])
    );
    let bare = Components::of("@s/dir");
    assert_eq!((bare.dataset, bare.snapshot), (Some(vec![]), Some("s")));
}
