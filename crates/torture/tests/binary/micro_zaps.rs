//! Directories as micro ZAPs above 128 KiB (`large_microzap`), where a limit that is raised has them.

use crate::receiving::{assert_same, piped, refused};
use crate::session::Session;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

const NAMES: usize = 5000;

fn feature(session: &Session, pool: &str, name: &str) -> String {
    let property = format!("feature@{name}");
    let text = session.ok(&["zpool", "get", "-Ho", "value", &property, pool]);
    text.trim().to_owned()
}

/// The states of the feature and of the one that it depends on.
fn states(session: &Session, pool: &str) -> [String; 2] {
    ["large_microzap", "large_blocks"].map(|name| feature(session, pool, name))
}

fn name(number: usize) -> String {
    format!("a name with 42 bytes and the number {number:06}")
}

fn make(directory: &Path, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        File::create(directory.join(name(number))).expect("created");
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names: Vec<_> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    let all: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(all.len(), names.len(), "a name is listed twice");
    all
}

#[test]
fn a_large_micro_zap_is_counted_as_a_feature_until_its_datasets_are_gone() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("dmu.micro_zap_bytes_max=1048576");
    for pool in ["one", "two"] {
        session.create(pool, 192, &["-O", "atime=off"]);
        assert_eq!(states(&session, pool), ["enabled", "enabled"]);
    }
    session.ok(&["zfs", "create", "one/a"]);
    let directory = session.mount("one/a").join("many");
    fs::create_dir(&directory).expect("a directory");
    make(&directory, 0..2000);
    session.ok(&["zpool", "sync"]);
    assert_eq!(states(&session, "one"), ["enabled", "enabled"]);
    make(&directory, 2000..NAMES);
    session.ok(&["zpool", "sync"]);
    assert_eq!(states(&session, "one"), ["active", "active"]);
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    refused(&session, "one/a@1", "two/a", "-L");
    piped(&session, "-L one/a@1", "two/a");
    assert_eq!(states(&session, "two"), ["active", "active"]);
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.export_clean("one");
    session.export_clean("two");

    // Others have the usual limit: what is there is used as it is, and becomes fat when it is full.
    session.limit("default");
    session.import("one", &[]);
    let mut wanted: BTreeSet<String> = (0..NAMES).map(name).collect();
    assert_eq!(names(&directory), wanted);
    for number in (0..NAMES).step_by(2) {
        fs::remove_file(directory.join(name(number))).expect("it is there");
        wanted.remove(&name(number));
    }
    session.ok(&["zpool", "sync"]);
    assert_eq!(names(&directory), wanted);
    make(&directory, NAMES..2 * NAMES);
    wanted.extend((NAMES..2 * NAMES).map(name));
    session.export_clean("one");
    session.import("one", &[]);
    assert_eq!(names(&directory), wanted);
    assert_eq!(states(&session, "one"), ["active", "active"]);
    session.ok(&["zfs", "destroy", "one/a@1"]);
    session.ok(&["zfs", "destroy", "one/a"]);
    session.ok(&["zpool", "sync"]);
    assert_eq!(states(&session, "one"), ["enabled", "enabled"]);
    session.export_clean("one");
}

/// Without the feature directories become fat at 128 KiB, whatever the limit. One that is enabled later acts on a file
/// system that is open once a change of it has synced.
#[test]
fn without_the_feature_there_are_no_large_micro_zaps() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("dmu.micro_zap_bytes_max=1048576");
    session.create("tank", 192, &["-o", "feature@large_microzap=disabled"]);
    let many = session.mount("tank").join("many");
    let more = session.mount("tank").join("more");
    for directory in [&many, &more] {
        fs::create_dir(directory).expect("a directory");
    }
    make(&many, 0..NAMES);
    session.ok(&["zpool", "sync"]);
    assert_eq!(states(&session, "tank"), ["disabled", "enabled"]);
    session.ok(&["zpool", "set", "feature@large_microzap=enabled", "tank"]);
    make(&more, 0..1);
    session.ok(&["zpool", "sync"]);
    make(&more, 1..NAMES);
    session.ok(&["zpool", "sync"]);
    assert_eq!(states(&session, "tank"), ["active", "active"]);
    session.export_clean("tank");
    session.import("tank", &[]);
    let wanted: BTreeSet<String> = (0..NAMES).map(name).collect();
    assert_eq!(names(&many), wanted);
    assert_eq!(names(&more), wanted);
    session.export_clean("tank");
}
