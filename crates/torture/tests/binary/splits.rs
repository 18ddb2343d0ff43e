//! `zpool split`, with the real binary.

use crate::session::{Session, path};
use std::fs;
use std::path::PathBuf;

fn images(session: &Session, names: &[&str]) -> Vec<PathBuf> {
    let made = names.iter().map(|name| {
        let image = session.images().join(name);
        let file = fs::File::create(&image).expect("an image");
        file.set_len(96 << 20).expect("its size");
        image
    });
    made.collect()
}

#[test]
fn a_pool_of_mirrors_is_split_into_two() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let all = images(&session, &["a", "b", "c", "d", "log"]);
    let [a, b, c, d, log] = [0, 1, 2, 3, 4].map(|at: usize| path(&all[at]));
    session.create_of("tank", &["mirror", a, b, "mirror", c, d, "log", log], &[]);
    let mounts = session.mounts();
    let file = |pool: &str| mounts.join(pool).join("file");
    fs::write(file("tank"), "before\n".repeat(100_000)).expect("written");

    let shown = session.ok(&["zpool", "split", "-n", "tank", "pond", a]);
    let wanted =
        format!("would create 'pond' with the following layout:\n\n\tpond\n\t  {a}\n\t  {d}\n");
    assert_eq!(shown, wanted);
    for (words, wanted) in [
        (vec!["tank"], "missing new pool name"),
        (vec!["tank", "mirror"], "name is reserved"),
        (
            vec!["tank", "tank"],
            "Unable to split tank: pool already exists",
        ),
        (vec!["tank", "pond", "nothing"], "no such device in pool"),
        (
            vec!["tank", "pond", a, b],
            "at most one disk from each mirror",
        ),
        (
            vec!["-l", "tank", "pond"],
            "only valid when importing the pool",
        ),
        (vec!["-o", "size=5", "tank", "pond"], "readonly"),
    ] {
        let refused = session.refused(&[&["zpool", "split"], &words[..]].concat());
        assert!(refused.contains(wanted), "{words:?}: {refused}");
    }

    session.ok(&["zpool", "split", "-o", "comment=half", "tank", "pond", a]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        !status.contains("mirror") && !status.contains(a) && !status.contains(d),
        "{status}"
    );
    assert!(
        status.contains(b) && status.contains(c) && status.contains(log),
        "{status}"
    );
    assert_eq!(session.ok(&["zpool", "list", "-H", "-o", "name"]), "tank\n");
    fs::write(file("tank"), "after\n").expect("written");
    session.import("pond", &[]);
    let found = fs::read_to_string(file("pond")).expect("read");
    assert_eq!(found, "before\n".repeat(100_000));
    let comment = session.ok(&["zpool", "get", "-H", "-o", "value", "comment", "pond"]);
    assert_eq!(comment, "half\n");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(
        history.contains("zpool split -o comment=half tank pond"),
        "{history}"
    );
    let history = session.ok(&["zpool", "history", "-i", "pond"]);
    assert!(history.contains("split from pool tank"), "{history}");
    let refused = session.refused(&["zpool", "split", "pond", "pool3"]);
    let wanted = "Unable to split pond: Source pool must be composed only of mirrors";
    assert_eq!(refused.trim(), wanted);
    session.ok(&["zpool", "scrub", "-w", "pond"]);
    let status = session.ok(&["zpool", "status", "pond"]);
    assert!(status.contains("with 0 errors"), "{status}");
    session.export_clean("pond");
    session.export_clean("tank");
}

#[test]
fn with_an_alternate_root_the_new_pool_is_mounted_at_once() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let all = images(&session, &["a", "b"]);
    session.create_of("tank", &["mirror", path(&all[0]), path(&all[1])], &[]);
    fs::write(session.mount("tank").join("file"), "text\n").expect("written");
    let below = session.mounts().join("below");
    fs::create_dir(&below).expect("made");
    session.ok(&["zpool", "split", "-R", path(&below), "tank", "pond"]);
    let names = session.ok(&["zpool", "list", "-H", "-o", "name,health"]);
    assert_eq!(names, "pond\tONLINE\ntank\tONLINE\n");
    let mounted = session.ok(&["zfs", "get", "-H", "-o", "value", "mountpoint", "pond"]);
    let found = fs::read_to_string(PathBuf::from(mounted.trim()).join("file")).expect("read");
    assert_eq!(found, "text\n");
    session.export_clean("pond");
    session.export_clean("tank");
}
