//! Pools of numbered versions: what each knows is written as such, what it lacks is refused, and all are upgraded.

use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The versions on either side of what changed on disk.
const VERSIONS: [u64; 15] = [1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 22, 24, 25];

fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 + at) as u8 ^ seed).collect()
}

fn put(folder: &Path, name: &str, seed: u8) {
    fs::write(folder.join(name), bytes(seed, 300_000)).expect("written");
}

fn assert_holds(folder: &Path, name: &str, seed: u8) {
    let found = fs::read(folder.join(name)).expect("read");
    assert!(found == bytes(seed, 300_000), "{name} in {folder:?}");
}

/// Snapshots, clones, promotions, rollbacks and destructions; `round` keeps names apart.
fn change_all(session: &Session, round: &str) {
    let dataset = format!("verb/a{round}");
    let a = dataset.as_str();
    session.ok(&["zfs", "create", a]);
    let folder = session.mount(a);
    for (file, seed) in [("one", 1), ("two", 2), ("three", 3)] {
        put(&folder, file, seed);
    }
    for (snapshot, file, seed) in [("s1", "one", 4), ("s2", "two", 5), ("s3", "three", 6)] {
        session.ok(&["zfs", "snapshot", &format!("{a}@{snapshot}")]);
        put(&folder, file, seed);
    }
    let clone = format!("verb/c{round}");
    session.ok(&["zfs", "clone", &format!("{a}@s2"), &clone]);
    put(&session.mount(&clone), "three", 7);
    session.ok(&["zfs", "snapshot", &format!("{clone}@c1")]);
    fs::remove_file(session.mount(&clone).join("one")).expect("removed");
    session.ok(&["zfs", "destroy", &format!("{a}@s1")]);
    session.ok(&["zfs", "promote", &clone]);
    assert_holds(&folder, "two", 5);
    put(&folder, "two", 8);
    session.ok(&["zfs", "rollback", &format!("{a}@s3")]);
    assert_holds(&folder, "two", 5);
    assert_holds(&folder, "three", 3);
    session.ok(&["zfs", "destroy", &format!("{clone}@c1")]);
    // Of a clone, and of an origin that moved.
    session.ok(&[
        "zfs",
        "clone",
        &format!("{clone}@s2"),
        &format!("verb/t{round}"),
    ]);
    session.ok(&["zfs", "destroy", &format!("verb/t{round}")]);
    let log = fs::File::create(folder.join("log")).expect("made");
    log.write_all_at(b"durable", 0).expect("written");
    log.sync_all().expect("synced");
    let script = "$0 zfs send $1@s3 | $0 zfs receive $2 && $0 zfs snapshot $1@s4 && \
                  $0 zfs send -i @s3 $1@s4 | $0 zfs receive $2";
    let copy = format!("verb/r{round}");
    let ran = session.shell(script, &[a, &copy]);
    assert!(ran.status.success(), "{ran:?}");
    assert_holds(&session.mount(&copy), "two", 5);
    session.ok(&["zpool", "scrub", "-w", "verb"]);
    let status = session.ok(&["zpool", "status", "verb"]);
    assert!(
        status.contains("repaired 0B") && status.contains("with 0 errors"),
        "{status}"
    );
}

fn check_all(session: &Session, round: &str) {
    let folder = session.mount(&format!("verb/a{round}"));
    for (file, seed) in [("one", 4), ("two", 5), ("three", 3)] {
        assert_holds(&folder, file, seed);
    }
    assert_eq!(fs::read(folder.join("log")).expect("read"), b"durable");
    let clone = session.mount(&format!("verb/c{round}"));
    assert_holds(&clone, "three", 7);
    assert_holds(&clone.join(".zfs/snapshot/s2"), "one", 4);
}

/// What was made before an upgrade is changed, cloned and destroyed after it.
fn change_old(session: &Session) {
    session.ok(&["zfs", "snapshot", "verb/a@late"]);
    put(&session.mount("verb/a"), "one", 9);
    session.ok(&["zfs", "clone", "verb/c@s2", "verb/late"]);
    session.ok(&["zfs", "destroy", "verb/a@s3"]);
    session.ok(&["zfs", "promote", "verb/a"]);
    session.ok(&["zfs", "destroy", "verb/a@s4"]);
    session.ok(&["zfs", "rollback", "verb/a@late"]);
    session.ok(&["zfs", "destroy", "verb/late"]);
    session.ok(&["zfs", "destroy", "-r", "verb/c"]);
    assert_holds(&session.mount("verb/a"), "one", 4);
    session.ok(&["zfs", "destroy", "-r", "verb/a"]);
}

fn run_version(version: u64) {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 128, &["-o", &format!("version={version}")]);
    change_all(&session, "");
    session.export_clean("verb");
    session.import("verb", &[]);
    check_all(&session, "");
    let shown = session.ok(&["zpool", "get", "-Hpo", "value", "version", "verb"]);
    assert_eq!(shown.trim(), version.to_string());
    let steps: &[&str] = match version % 3 {
        0 => &[],
        1 => &["26"],
        _ => &["25", "28"],
    };
    for step in steps.iter().filter(|step| **step != version.to_string()) {
        session.ok(&["zpool", "upgrade", "-V", step, "verb"]);
        change_all(&session, step);
        session.export_clean("verb");
        session.import("verb", &[]);
    }
    session.ok(&["zpool", "upgrade", "verb"]);
    change_all(&session, "5000");
    change_old(&session);
    session.export_clean("verb");
    session.import("verb", &[]);
    check_all(&session, "5000");
    session.ok(&["zpool", "destroy", "verb"]);
}

#[test]
fn pools_of_old_versions_are_written_and_upgraded() {
    for version in VERSIONS {
        println!("version {version}");
        run_version(version);
    }
}

/// What a version lacks is refused, and there from the version on that brought it.
#[test]
fn what_a_version_lacks_is_refused() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let since: [(u64, &[&str]); 13] = [
        (2, &["zfs", "set", "copies=2", "verb/a"]),
        (5, &["zfs", "set", "compression=gzip-9", "verb/a"]),
        (6, &["zpool", "set", "bootfs=verb/a", "verb"]),
        (8, &["zfs", "allow", "-e", "snapshot", "verb/a"]),
        (9, &["zfs", "set", "refquota=50M", "verb/a"]),
        (9, &["zfs", "create", "-o", "normalization=formD", "verb/n"]),
        (12, &["zfs", "set", "a:b=c", "verb/a@s"]),
        (14, &["zfs", "set", "aclinherit=passthrough-x", "verb/a"]),
        (15, &["zfs", "create", "-o", "version=4", "verb/four"]),
        (18, &["zfs", "hold", "tag", "verb/a@s"]),
        (20, &["zfs", "set", "compression=zle", "verb/a"]),
        (21, &["zfs", "set", "dedup=on", "verb/a"]),
        (24, &["zfs", "create", "-o", "version=5", "verb/five"]),
    ];
    for (version, request) in since {
        let before = format!("version={}", version - 1);
        session.create("verb", 64, &["-o", &before]);
        session.ok(&["zfs", "create", "verb/a"]);
        session.ok(&["zfs", "snapshot", "verb/a@s"]);
        let said = session.refused(request);
        assert!(
            said.contains("upgraded") || said.contains("version"),
            "{request:?} of version {version}: {said}"
        );
        session.ok(&["zpool", "upgrade", "-V", &version.to_string(), "verb"]);
        session.ok(request);
        if request[1] == "allow" {
            // zdb takes tables of permissions for leaked ones.
            session.ok(&["zfs", "unallow", "-e", "verb/a"]);
        }
        session.export_clean("verb");
        session.import("verb", &[]);
        session.ok(&["zpool", "destroy", "verb"]);
    }
}

#[test]
fn vdevs_that_a_version_lacks_are_refused() {
    let Some(session) = Session::new() else {
        return;
    };
    let images: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|name| session.images().join(name))
        .into();
    let names: Vec<&str> = images.iter().map(|image| path(image)).collect();
    for (version, vdevs) in [
        ("16", vec!["raidz3", names[0], names[1], names[2], names[3]]),
        ("2", vec!["raidz2", names[0], names[1], names[2]]),
        ("2", vec![names[0], "spare", names[1]]),
        ("6", vec![names[0], "log", names[1]]),
        ("9", vec![names[0], "cache", names[1]]),
    ] {
        let option = format!("version={version}");
        let mut request = vec!["zpool", "create", "--size", "64M", "-o", &option, "verb"];
        request.extend(vdevs);
        let said = session.refused(&request);
        assert!(said.contains("need pool version"), "{said}");
    }
    for version in ["0", "29"] {
        let option = format!("version={version}");
        let said = session.refused(&[
            "zpool", "create", "--size", "64M", "-o", &option, "verb", names[0],
        ]);
        assert!(
            said.contains(&format!("number {version} is invalid")),
            "{said}"
        );
    }
}
