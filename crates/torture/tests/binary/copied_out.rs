//! `millpond cp -r` and `ls` of images that hold several datasets.

use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A pool `tank` with file systems `a` and `a/b`, a file in each, and a snapshot `s` of all; exported.
fn pool(session: &mut Session) {
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "-p", "tank/a/b"]);
    for place in ["", "a", "a/b"] {
        let file = session.mount("tank").join(place).join("file");
        fs::write(file, format!("in tank/{place}")).expect("written");
    }
    session.ok(&["zfs", "snapshot", "-r", "tank@s"]);
    fs::write(session.mount("tank/a").join("later"), "").expect("written");
}

fn assert_whole(copy: &Path) {
    for place in ["", "a", "a/b"] {
        let text = fs::read_to_string(copy.join(place).join("file"));
        assert_eq!(text.expect("copied"), format!("in tank/{place}"));
    }
}

#[test]
fn a_recursive_copy_has_the_datasets_below() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    session.export("tank");
    let out = session.mounts().join("out");
    let image = session.images().join("tank.img");
    let from = |place: &str| format!("{}:{place}", path(&image));
    session.ok(&["cp", "-r", &from(""), path(&out)]);
    assert_whole(&out);
    assert!(out.join("a/later").exists());
    // Into a directory that is there, from a snapshot.
    session.ok(&["cp", "-r", &from("tank@s"), path(&session.mounts())]);
    let copy = session.mounts().join("tank@s");
    assert_whole(&copy);
    assert!(!copy.join("a/later").exists());
    let alone = session.mounts().join("alone");
    session.ok(&["cp", "-rx", &from(""), path(&alone)]);
    assert!(alone.join("file").exists() && !alone.join("a/file").exists());
    // Only what is below what is named; a directory has nothing below it.
    let part = session.mounts().join("part");
    session.ok(&["cp", "-r", &from("tank/a"), path(&part)]);
    assert!(part.join("b/file").exists());

    let listed = session.run(&["ls", &from("/a")]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{listed:?}");
    assert!(said.contains("a mount point; what is in the dataset is listed as IMAGE:tank/a"), "{said}");
}

#[test]
fn what_cannot_be_copied_along_makes_the_copy_fail() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    // Where a mount point would be there is a link out of the copy.
    let outside = session.mounts().join("outside");
    fs::create_dir(&outside).expect("made");
    session.ok(&["zfs", "unmount", "tank/a"]);
    let place = session.mount("tank").join("a");
    fs::remove_dir(&place).expect("removed");
    symlink(&outside, &place).expect("linked");
    session.export("tank");
    let out = session.mounts().join("out");
    let from = format!("{}:", path(&session.images().join("tank.img")));
    let refused = session.refused(&["cp", "-r", &from, path(&out)]);
    assert!(refused.contains("out/a"), "{refused}");
    assert_eq!(fs::read_dir(&outside).expect("read").count(), 0);
    let file = fs::read_to_string(out.join("file"));
    assert_eq!(file.expect("the rest is copied"), "in tank/");
}
