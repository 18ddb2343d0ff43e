//! Packages of `zfs send -R`, `-p`, `-h` and `-b`: properties arrive as received ones, and what was renamed, promoted
//! or destroyed where they were sent from is so where they are received.

use crate::receiving::{assert_same, piped, refused};
use crate::session::{Session, path};
use golden::describe_tree;
use std::fs;

/// Two pools, `one` with a tree of file systems.
fn two_pools() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("one", 192, &["-O", "atime=off"]);
    session.create("two", 192, &["-O", "atime=off"]);
    for arguments in [
        &["zfs", "create", "-o", "my:own=text", "one/a"][..],
        &["zfs", "create", "-o", "compression=zstd", "one/a/b"],
        &["zfs", "create", "-o", "quota=50M", "one/a/b/c"],
        &["zfs", "create", "one/a/gone"],
        &[
            "zfs",
            "create",
            "-s",
            "-V",
            "8M",
            "-o",
            "volblocksize=4k",
            "one/a/volume",
        ],
    ] {
        session.ok(arguments);
    }
    for name in ["one/a", "one/a/b", "one/a/b/c", "one/a/gone"] {
        fs::write(session.mount(name).join("file"), name.repeat(1000)).expect("a file");
    }
    session.ok(&["zfs", "snapshot", "-r", "one/a@1"]);
    session.ok(&["zfs", "clone", "one/a/b@1", "one/a/clone"]);
    fs::write(session.mount("one/a/clone").join("own"), "own").expect("a file");
    session.ok(&["zfs", "snapshot", "-r", "one/a@2"]);
    Some(session)
}

fn names(session: &Session, dataset: &str) -> Vec<String> {
    let told = session.ok(&[
        "zfs", "list", "-H", "-r", "-t", "all", "-o", "name", dataset,
    ]);
    let mut names: Vec<String> = told.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// What `zfs get` says of a property: value, source and received value.
fn told(session: &Session, property: &str, dataset: &str) -> String {
    let columns = [
        "zfs",
        "get",
        "-Hp",
        "-o",
        "value,source,received",
        property,
        dataset,
    ];
    session.ok(&columns).trim_end().to_owned()
}

/// The names below one tree are those below the other, and all files are equal.
fn assert_trees_equal(session: &Session, one: &str, other: &str) {
    let moved = |name: &String| name.replacen(one, other, 1);
    let mut wanted: Vec<String> = names(session, one).iter().map(moved).collect();
    wanted.sort();
    assert_eq!(names(session, other), wanted);
    let told = [
        "zfs",
        "list",
        "-H",
        "-r",
        "-t",
        "snapshot",
        "-o",
        "name,guid",
    ];
    let of = |dataset: &str| session.ok(&[&told[..], &[dataset]].concat());
    assert_eq!(of(one).replace(one, other), of(other));
    assert_same(&session.mount(one), &session.mount(other));
}

#[test]
fn a_tree_arrives_with_its_properties() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let output = piped(&session, "-R one/a@2", "-v two/a");
    assert!(
        output.starts_with("receiving full stream of one/a@1 into two/a@1\n"),
        "{output}"
    );
    assert_trees_equal(&session, "one/a", "two/a");
    assert_eq!(told(&session, "my:own", "two/a"), "text\treceived\ttext");
    assert_eq!(
        told(&session, "my:own", "two/a/b"),
        "text\tinherited from two/a\t-"
    );
    assert_eq!(
        told(&session, "compression", "two/a/b"),
        "zstd\treceived\tzstd"
    );
    assert_eq!(
        told(&session, "quota", "two/a/b/c"),
        "52428800\treceived\t52428800"
    );
    assert_eq!(told(&session, "origin", "two/a/clone"), "two/a/b@1\t-\t-");
    assert_eq!(
        told(&session, "volsize", "two/a/volume"),
        "8388608\tlocal\t-"
    );
    assert_eq!(told(&session, "volblocksize", "two/a/volume"), "4096\t-\t-");

    // Own values stand before received ones, which are still there.
    session.ok(&["zfs", "set", "compression=off", "two/a/b"]);
    assert_eq!(told(&session, "compression", "two/a/b"), "off\tlocal\tzstd");
    session.ok(&["zfs", "inherit", "-S", "compression", "two/a/b"]);
    assert_eq!(
        told(&session, "compression", "two/a/b"),
        "zstd\treceived\tzstd"
    );
    session.ok(&["zfs", "inherit", "compression", "two/a/b"]);
    assert_eq!(
        told(&session, "compression", "two/a/b"),
        "on\tdefault\tzstd"
    );
    let received = [
        "zfs",
        "get",
        "-H",
        "-s",
        "received",
        "-o",
        "property",
        "all",
        "two/a/b/c",
    ];
    assert_eq!(session.ok(&received), "quota\n");

    // What is no longer set there is no longer received here; what is set here stays.
    session.ok(&["zfs", "inherit", "my:own", "one/a"]);
    session.ok(&["zfs", "set", "my:other=more", "one/a"]);
    session.ok(&["zfs", "set", "my:local=here", "two/a"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    piped(&session, "-R -i @2 one/a@3", "two/a");
    assert_eq!(told(&session, "my:own", "two/a"), "-\t-\t-");
    assert_eq!(told(&session, "my:other", "two/a"), "more\treceived\tmore");
    assert_eq!(told(&session, "my:local", "two/a"), "here\tlocal\t-");
    assert_trees_equal(&session, "one/a", "two/a");
    session.export_clean("two");
    session.import("two", &[]);
    assert_trees_equal(&session, "one/a", "two/a");
    session.export_clean("one");
    session.export_clean("two");
}

#[test]
fn what_became_of_datasets_becomes_of_them_elsewhere() {
    let Some(mut session) = two_pools() else {
        return;
    };
    piped(&session, "-R one/a@2", "two/a");
    for arguments in [
        &["zfs", "rename", "one/a/b/c", "one/a/c"][..],
        &["zfs", "rename", "one/a/b", "one/a/new"],
        &["zfs", "rename", "one/a/c", "one/a/b"],
        &["zfs", "destroy", "-r", "one/a/gone"],
        &["zfs", "rename", "-r", "one/a@1", "first"],
        &["zfs", "create", "one/a/gone"],
        &["zfs", "promote", "one/a/clone"],
        &["zfs", "create", "one/a/new/late"],
    ] {
        session.ok(arguments);
    }
    fs::write(session.mount("one/a/gone").join("another"), "another").expect("a file");
    fs::write(session.mount("one/a/new").join("file"), "changed").expect("a file");
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    // Somebody stands in a file system that is renamed, and took snapshots of his own.
    session.ok(&["zfs", "snapshot", "two/a/b@own"]);
    session.ok(&["zfs", "create", "two/a/mine"]);
    let output = piped(&session, "-R -I @2 one/a@3", "-F -v two/a");
    assert!(
        output.contains("attempting rename two/a/b/c to "),
        "{output}"
    );
    assert!(output.contains("promoting two/a/clone\n"), "{output}");
    assert!(
        output.contains("attempting destroy two/a/b@own\nsuccess\n"),
        "{output}"
    );
    assert!(
        output.contains("attempting destroy two/a/gone\nsuccess\n"),
        "{output}"
    );
    session.ok(&["zfs", "destroy", "two/a/mine"]);
    assert_trees_equal(&session, "one/a", "two/a");
    assert_eq!(
        told(&session, "origin", "two/a/new"),
        "two/a/clone@first\t-\t-"
    );
    assert_eq!(
        told(&session, "quota", "two/a/b"),
        "52428800\treceived\t52428800"
    );

    // The same once more has nothing to do.
    let output = piped(&session, "-R -I @2 one/a@3", "-F -v two/a");
    assert!(
        output
            .lines()
            .all(|line| line.ends_with("already exists; ignoring")),
        "{output}"
    );
    // And back, into a pool that knows nothing of it.
    session.export_clean("one");
    session.create("three", 192, &["-O", "atime=off"]);
    piped(&session, "-R two/a@3", "-F -d three");
    assert_trees_equal(&session, "two/a", "three/a");
    session.export_clean("two");
    session.export_clean("three");
}

/// A clone that was promoted before it was ever sent comes as a file system of its own, with snapshots that are here
/// already. What had them goes when it is gone there, but for what something here was cloned from.
#[test]
fn what_was_destroyed_goes_though_a_new_clone_has_its_snapshots() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "clone", "one/a/b/c@1", "one/a/user"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    piped(&session, "-R one/a@3", "two/a");
    for (dataset, clone) in [("one/a/gone", "one/a/early"), ("one/a/b/c", "one/a/other")] {
        session.ok(&["zfs", "clone", &format!("{dataset}@1"), clone]);
        session.ok(&["zfs", "promote", clone]);
        session.ok(&["zfs", "destroy", "-r", dataset]);
    }
    session.ok(&["zfs", "snapshot", "-r", "one/a@4"]);
    let output = piped(&session, "-R -I @3 one/a@4", "-F -v two/a");
    assert!(
        output.contains("attempting destroy two/a/gone\nsuccess\n"),
        "{output}"
    );
    assert!(!output.contains("attempting destroy two/a/b/c"), "{output}");
    let there = names(&session, "two/a");
    let is_there = |name: &str| there.iter().any(|one| one == name);
    assert!(!is_there("two/a/gone") && is_there("two/a/early@1"));
    assert_eq!(told(&session, "origin", "two/a/user"), "two/a/b/c@1\t-\t-");
    assert!(is_there("two/a/b/c@3") && is_there("two/a/other@1"));
    session.export_clean("one");
    session.export_clean("two");
}

/// What is mounted goes with its name, though nothing new is mounted with `-u`.
#[test]
fn what_is_renamed_is_mounted_where_its_new_name_leads() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "create", "one/a/b/by-hand"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    piped(&session, "-R one/a@3", "two/a");
    session.ok(&["zfs", "unmount", "two/a/b/c"]);
    session.ok(&["zfs", "set", "-u", "canmount=noauto", "two/a/b/by-hand"]);
    session.ok(&["zfs", "rename", "one/a/b", "one/a/new"]);
    session.ok(&["zfs", "create", "one/a/new/late"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@4"]);
    piped(&session, "-R -I @3 one/a@4", "-F -u two/a");

    let told = ["zfs", "get", "-Hr", "-t", "filesystem", "-o", "name,value"];
    let mounted = session.ok(&[&told[..], &["mounted", "two/a/new"]].concat());
    assert_eq!(
        mounted,
        "two/a/new\tyes\ntwo/a/new/by-hand\tyes\ntwo/a/new/c\tno\ntwo/a/new/late\tno\n"
    );
    let (before, now) = (session.mount("two/a/b"), session.mount("two/a/new"));
    assert!(!before.exists(), "its old place is gone");
    let file = fs::read_to_string(now.join("file")).expect("it is mounted there");
    assert_eq!(file, "one/a/b".repeat(1000));
    // `zfs rename` does the same.
    session.ok(&["zfs", "rename", "two/a/new", "two/a/b"]);
    let mounted = session.ok(&[&told[..], &["mounted", "two/a/b"]].concat());
    assert_eq!(
        mounted,
        "two/a/b\tyes\ntwo/a/b/by-hand\tyes\ntwo/a/b/c\tno\ntwo/a/b/late\tno\n"
    );
    assert!(!now.exists() && before.join("file").exists());
    session.export_clean("two");
    session.export_clean("one");
}

/// A promotion makes a file system a clone of what is inside of it. What is new is sent after that which it is in.
#[test]
fn a_clone_of_what_is_inside_of_it_goes_on() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "clone", "one/a@1", "one/a/inside"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    piped(&session, "-R one/a@3", "two/a");
    for arguments in [
        &["zfs", "promote", "one/a/inside"][..],
        &["zfs", "clone", "one/a@2", "one/a/late"],
        &["zfs", "create", "one/a/late/below"],
        &["zfs", "snapshot", "-r", "one/a@4"],
    ] {
        session.ok(arguments);
    }
    piped(&session, "-R -I @3 one/a@4", "-F two/a");
    assert_trees_equal(&session, "one/a", "two/a");
    let origin = told(&session, "origin", "two/a");
    assert_eq!(origin, "two/a/inside@1\t-\t-");
    session.export_clean("one");
    session.export_clean("two");
}

/// A clone of a clone is promoted: it becomes the clone of what that was cloned from.
#[test]
fn a_promoted_clone_of_a_clone_is_promoted_elsewhere() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "clone", "one/a@1", "one/a/k"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@3"]);
    session.ok(&["zfs", "clone", "one/a/k@3", "one/a/l"]);
    session.ok(&["zfs", "clone", "one/a/k@3", "one/a/m"]);
    session.ok(&["zfs", "snapshot", "-r", "one/a@4"]);
    piped(&session, "-R one/a@4", "two/a");
    let origins = |session: &Session, top: &str| {
        let listed = session.ok(&["zfs", "list", "-Hr", "-o", "name,origin", top]);
        listed.replace(top, "top")
    };
    // Once, and once more up to the end of the chain; what is left of the first is destroyed.
    for (number, change) in [
        &["zfs", "promote", "one/a/l"][..],
        &["zfs", "promote", "one/a/l"],
        &["zfs", "promote", "one/a/m"],
        &["zfs", "destroy", "-r", "one/a/k"],
    ]
    .iter()
    .enumerate()
    {
        session.ok(change);
        let (before, now) = (number + 4, number + 5);
        session.ok(&["zfs", "snapshot", "-r", &format!("one/a@{now}")]);
        let sent = format!("-R -I @{before} one/a@{now}");
        piped(&session, &sent, "-F two/a");
        assert_eq!(
            origins(&session, "two/a"),
            origins(&session, "one/a"),
            "{change:?}"
        );
        assert_trees_equal(&session, "one/a", "two/a");
    }
    session.export_clean("one");
    session.export_clean("two");
}

#[test]
fn the_command_has_the_last_word_on_properties() {
    let Some(mut session) = two_pools() else {
        return;
    };
    refused(
        &session,
        "-R one/a@2",
        "two/a@x",
        "cannot receive: cannot specify snapshot name for multi-snapshot stream\n",
    );
    let output = piped(&session, "-R one/a@2", "-n -v two/a");
    assert_eq!(output.lines().count(), 11, "{output}");
    assert_eq!(names(&session, "two"), ["two"]);
    piped(
        &session,
        "-R one/a@2",
        "-o compression=gzip -x my:own -x quota two/a",
    );
    assert_eq!(told(&session, "compression", "two/a"), "gzip\tlocal\t-");
    assert_eq!(
        told(&session, "compression", "two/a/b"),
        "gzip\tinherited from two/a\tzstd"
    );
    assert_eq!(told(&session, "my:own", "two/a"), "-\t-\t-");
    assert_eq!(told(&session, "quota", "two/a/b/c"), "0\tdefault\t-");
    let mounted = [
        "zfs",
        "get",
        "-Hr",
        "-t",
        "filesystem",
        "-o",
        "value",
        "mounted",
        "two/a",
    ];
    assert_eq!(session.ok(&mounted), "yes\n".repeat(5));

    // As a backup, what was received goes on, and not what was set here.
    session.ok(&["zfs", "set", "my:local=here", "two/a"]);
    session.ok(&["zfs", "hold", "keep", "two/a@2"]);
    piped(&session, "-b -h two/a@2", "two/copy");
    assert_eq!(told(&session, "my:own", "two/copy"), "text\treceived\ttext");
    assert_eq!(told(&session, "my:local", "two/copy"), "-\t-\t-");
    assert_eq!(told(&session, "compression", "two/copy"), "on\tdefault\t-");
    let holds = session.ok(&["zfs", "holds", "-H", "two/copy@2"]);
    assert!(holds.starts_with("two/copy@2\tkeep\t"), "{holds}");
    piped(&session, "-p -h two/a@2", "-h two/other");
    assert_eq!(session.ok(&["zfs", "holds", "-H", "two/other@2"]), "");
    assert_eq!(
        told(&session, "my:local", "two/other"),
        "here\treceived\there"
    );

    // What was set at a dataset that never received properties was received, as far as anybody knew.
    piped(&session, "one/a@1", "two/plain");
    session.ok(&["zfs", "set", "my:local=here", "two/plain"]);
    piped(&session, "-p -i @1 one/a@2", "two/plain");
    assert_eq!(told(&session, "my:local", "two/plain"), "-\t-\t-");
    assert_eq!(
        told(&session, "my:own", "two/plain"),
        "text\treceived\ttext"
    );
    session.export_clean("two");
    session.export_clean("one");
}

#[test]
fn what_lies_below_encrypted_file_systems_is_encrypted() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let key = session.images().with_file_name("key");
    fs::write(&key, "0".repeat(64)).expect("a file");
    let location = format!("keylocation=file://{}", path(&key));
    let options = [
        "-o",
        "encryption=on",
        "-o",
        "keyformat=hex",
        "-o",
        &location,
    ];
    session.ok(&[&["zfs", "create"][..], &options, &["two/secret"]].concat());
    piped(&session, "one/a@1", "two/secret/a");
    assert_eq!(
        told(&session, "encryptionroot", "two/secret/a"),
        "two/secret\t-\t-"
    );
    // Also what continues it, as long as the key is there.
    piped(&session, "-i @1 one/a@2", "two/secret/a");
    // With properties comes that it is plain, unless that is not asked for.
    piped(&session, "-p one/a@2", "two/secret/plain");
    piped(&session, "-p one/a@2", "-x encryption two/secret/b");
    assert_eq!(
        told(&session, "encryption", "two/secret/plain"),
        "off\tdefault\t-"
    );
    assert_eq!(
        told(&session, "encryptionroot", "two/secret/b"),
        "two/secret\t-\t-"
    );
    for name in ["two/secret/a", "two/secret/b", "two/secret/plain"] {
        let file = |dataset: &str| fs::read(session.mount(dataset).join("file")).expect("a file");
        assert_eq!(file(name), file("one/a"));
    }
    fs::write(session.mount("one/a").join("file"), "changed").expect("a file");
    session.ok(&["zfs", "snapshot", "one/a@3"]);
    session.ok(&["zfs", "unmount", "two/secret"]);
    session.ok(&["zfs", "unload-key", "two/secret"]);
    let text = "inherited key must be loaded";
    refused(&session, "one/a@1", "two/secret/c", text);
    refused(&session, "-i @2 one/a@3", "two/secret/a", text);
    session.ok(&["zfs", "load-key", "two/secret"]);
    piped(&session, "-i @2 one/a@3", "two/secret/a");
    session.ok(&["zfs", "mount", "-a"]);
    let changed = fs::read(session.mount("two/secret/a").join("file"));
    assert_eq!(changed.expect("a file"), b"changed");
    session.export_clean("two");
    session.export_clean("one");
}

#[test]
fn the_package_that_openzfs_sent_is_what_it_showed() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: owners and device nodes can be compared by root only");
        return;
    }
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("two", 192, &[]);
    let file = pool.folder.join("replicate.stream");
    let script = format!("$0 zfs receive -d two < {}", path(&file));
    let output = session.shell(&script, &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for (dataset, manifest) in pool.manifests() {
        let Some((head, snapshot)) = dataset.split_once('@') else {
            continue;
        };
        let here = head.replacen("gst", "two", 1);
        let root = session.mount(&here).join(".zfs/snapshot").join(snapshot);
        let differences = manifest.differences(&describe_tree(&root));
        assert!(
            differences.is_empty(),
            "{dataset}:\n{}",
            differences.join("\n")
        );
    }
    session.export_clean("two");
}
