//! Dataset and pool commands at their boundary: texts, numbers and JSON as OpenZFS 2.3 gives them.

use crate::session::{Session, path};
use golden::Zdb;
use std::fs;

/// Requests that are refused, each after a `$`, and what OpenZFS 2.3.9 prints for them.
const REFUSALS: &str = include_str!("refusals.txt");

#[test]
fn refusals_are_those_of_openzfs() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &[]);
    for dataset in ["verb/q", "verb/q/r"] {
        session.ok(&["zfs", "create", dataset]);
    }
    session.ok(&["zfs", "snapshot", "-r", "verb/q@s"]);
    session.ok(&["zfs", "clone", "verb/q@s", "verb/c"]);
    session.ok(&["zfs", "snapshot", "verb/c@t"]);
    session.ok(&["zfs", "bookmark", "verb/q@s", "verb/q#b"]);
    let refusals = REFUSALS.strip_prefix("$ ").expect("a request");
    for refusal in refusals.split("\n\n$ ") {
        let (command, text) = refusal.split_once('\n').expect("an answer");
        let arguments: Vec<&str> = command.split(' ').collect();
        let said = session.refused(&arguments);
        assert_eq!(said.trim_end(), text.trim_end(), "{command}");
    }
    // Programs of OpenZFS that return −1.
    let output = session.run(&["zfs", "destroy", "-n", "verb/q#b"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "dryrun is not supported with bookmark\n");
    assert_eq!(output.status.code(), Some(255), "{said}");
    session.export_clean("verb");
}

/// As OpenZFS says where it refuses a pool: with `-r` all goes that is in it, and its root file system stays.
#[test]
fn all_in_a_pool_is_destroyed_but_its_root() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &[]);
    fs::write(session.mount("verb").join("file"), "kept").expect("written");
    for dataset in ["verb/a", "verb/a/b"] {
        session.ok(&["zfs", "create", dataset]);
    }
    session.ok(&["zfs", "snapshot", "-r", "verb@s"]);
    session.ok(&["zfs", "bookmark", "verb@s", "verb#m"]);
    session.ok(&["zfs", "clone", "verb/a@s", "verb/c"]);
    // What the root is a clone of does not go.
    session.ok(&["zfs", "clone", "verb@s", "verb/promoted"]);
    session.ok(&["zfs", "promote", "verb/promoted"]);
    let list = ["zfs", "list", "-H", "-o", "name", "-t", "all", "-r", "verb"];
    let before = session.ok(&list);
    let said = session.run(&["zfs", "destroy", "-r", "verb"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(
        said,
        "cannot destroy 'verb': it is a clone of what would be destroyed\nrun 'zfs promote verb' first\n"
    );
    assert_eq!(session.ok(&list), before, "nothing went");
    session.ok(&["zfs", "promote", "verb"]);
    let told = session.ok(&["zfs", "destroy", "-nrv", "verb"]);
    assert!(told.contains("would destroy verb/a/b\n"), "{told}");
    assert!(!told.contains("would destroy verb\n"), "{told}");
    session.ok(&["zfs", "destroy", "-r", "verb"]);
    assert_eq!(session.ok(&list), "verb\nverb#m\n");
    let text = fs::read_to_string(session.mount("verb").join("file")).expect("read");
    assert_eq!(text, "kept");
    // There is nothing more.
    session.ok(&["zfs", "destroy", "-R", "verb"]);
    session.export_clean("verb");
}

/// The columns are named where there is nothing to show, as OpenZFS does.
#[test]
fn a_snapshot_without_holds_has_an_empty_table() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 64, &[]);
    session.ok(&["zfs", "snapshot", "verb@s"]);
    let table = session.ok(&["zfs", "holds", "verb@s"]);
    assert_eq!(table, "NAME  TAG  TIMESTAMP\n");
    assert_eq!(session.ok(&["zfs", "holds", "-H", "verb@s"]), "");
    session.export_clean("verb");
}

#[test]
fn file_systems_are_upgraded() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &[]);
    let current = session.ok(&["zfs", "upgrade"]);
    assert!(current.ends_with("All filesystems are formatted with the current version.\n"));
    session.ok(&["zfs", "create", "-o", "version=4", "verb/four"]);
    session.ok(&["zfs", "create", "-o", "version=3", "verb/three"]);
    fs::write(session.mount("verb/three").join("file"), "kept").expect("written");
    let old = session.ok(&["zfs", "upgrade"]);
    assert!(
        old.ends_with("---  ------------\n 4   verb/four\n 3   verb/three\n"),
        "{old}"
    );
    let raised = session.ok(&["zfs", "upgrade", "-V", "4", "verb/three"]);
    assert_eq!(raised, "1 filesystems upgraded\n");
    let raised = session.ok(&["zfs", "upgrade", "-a"]);
    assert_eq!(
        raised,
        "2 filesystems upgraded\n1 filesystems already at this version\n"
    );
    let text = fs::read_to_string(session.mount("verb/three").join("file")).expect("read");
    assert_eq!(text, "kept");
    session.export_clean("verb");
}

/// Holes made from an upgrade on tell when: an incremental stream relies on it.
fn holes_are_sent(session: &Session, sparse: &std::path::Path) {
    let script = "fallocate -p -o 131072 -l 131072 $1 && $0 zfs snapshot verb/a@holes && \
                  $0 zfs send verb/a@full | $0 zfs receive verb/copy && \
                  $0 zfs send -i @full verb/a@holes | $0 zfs receive verb/copy && cmp $1 $2";
    let copy = session.mount("verb/copy").join("sparse");
    let ran = session.shell(script, &[path(sparse), path(&copy)]);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn pools_of_numbered_versions_are_made_and_upgraded() {
    let Some(mut session) = Session::new() else {
        return;
    };
    for version in ["26", "28"] {
        session.create("verb", 96, &["-o", &format!("version={version}")]);
        let shown = session.ok(&["zpool", "get", "-Hpo", "value", "version", "verb"]);
        assert_eq!(shown.trim(), version);
        session.ok(&["zfs", "create", "verb/a"]);
        fs::write(session.mount("verb/a").join("file"), "kept").expect("written");
        session.ok(&["zfs", "snapshot", "verb/a@s"]);
        session.ok(&["zfs", "clone", "verb/a@s", "verb/c"]);
        fs::write(session.mount("verb/a").join("file"), "after").expect("written");
        let sparse = session.mount("verb/a").join("sparse");
        fs::write(&sparse, vec![b'y'; 500_000]).expect("written");
        session.ok(&["zfs", "snapshot", "verb/a@full"]);
        let refused = session.refused(&["zpool", "set", "feature@livelist=enabled", "verb"]);
        let reason = "pool must be upgraded to support feature flags";
        assert!(refused.contains(reason), "{refused}");
        session.export_clean("verb");
        session.import("verb", &[]);
        if version == "26" {
            let said = session.ok(&["zpool", "upgrade", "-V", "27", "verb"]);
            let line = "Successfully upgraded 'verb' from version 26 to version 27.\n\n";
            assert!(said.ends_with(line), "{said}");
            session.export_clean("verb");
            session.import("verb", &[]);
        }
        let said = session.ok(&["zpool", "upgrade", "verb"]);
        let header = "This system supports ZFS pool feature flags.\n\nSuccessfully upgraded 'verb' \
                      from version 2";
        assert!(said.starts_with(header), "{said}");
        assert!(said.contains("to feature flags.\nEnabled the following features on 'verb':\n"));
        assert!(said.ends_with("\n\n"), "{said}");
        let again = session.ok(&["zpool", "upgrade", "verb"]);
        let line = "Pool 'verb' already has all supported and requested features enabled.\n";
        assert!(again.ends_with(line), "{again}");
        let file = session.mount("verb/a").join("file");
        assert_eq!(fs::read_to_string(&file).expect("read"), "after");
        holes_are_sent(&session, &sparse);
        session.ok(&["zfs", "set", "compression=zstd", "checksum=skein", "verb/a"]);
        fs::write(&file, vec![b'x'; 300_000]).expect("written");
        session.ok(&["zfs", "destroy", "verb/c"]);
        session.ok(&["zfs", "snapshot", "verb/a@t"]);
        session.export_clean("verb");
        session.import("verb", &[]);
        let file = session.mount("verb/a").join("file");
        assert_eq!(fs::read(&file).expect("read"), vec![b'x'; 300_000]);
        session.ok(&["zpool", "destroy", "verb"]);
    }
    let image = session.images().join("none.img");
    let create = [
        "zpool",
        "create",
        "--size",
        "96M",
        "-o",
        "version=29",
        "verb",
        path(&image),
    ];
    let refused = session.refused(&create);
    assert!(refused.contains("number 29 is invalid"), "{refused}");
}

#[test]
fn fragmentation_is_what_zdb_says() {
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    for pool in ["default", "codecs", "many", "mirror", "gang"]
        .iter()
        .filter_map(|name| golden::pool(name))
    {
        let Some(mut session) = Session::new() else {
            return;
        };
        session.bring(&pool.images());
        let (name, images) = (pool.pool_name(), session.images());
        let said = zdb.run(&images, &["-M"], &[&name]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let line = format!("pool {name}\tfragmentation");
        let Some(percent) = said.lines().find_map(|l| l.trim().strip_prefix(&line)) else {
            continue;
        };
        session.import(&name, &["-N", "-o", "readonly=on"]);
        let shown = session.ok(&["zpool", "list", "-H", "-o", "frag", &name]);
        session.export(&name);
        assert_eq!(shown.trim(), percent.trim(), "{}", pool.name);
    }
}

#[test]
fn snapshots_say_what_they_have_together() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &["-O", "compression=off", "-O", "atime=off"]);
    session.ok(&["zfs", "create", "verb/d"]);
    let file = session.mount("verb/d").join("file");
    fs::write(session.mount("verb/d").join("other"), vec![7; 100_000]).expect("written");
    fs::write(&file, vec![1; 1 << 20]).expect("written");
    session.ok(&["zfs", "snapshot", "verb/d@one"]);
    session.ok(&["zfs", "snapshot", "verb/d@two"]);
    fs::remove_file(&file).expect("removed");
    session.ok(&["zfs", "snapshot", "verb/d@three"]);
    let reclaim = |spec: &str| -> u64 {
        let text = session.ok(&["zfs", "destroy", "-nvp", spec]);
        let last = text.lines().last().expect("a line");
        last.strip_prefix("reclaim\t")
            .expect("bytes")
            .parse()
            .expect("a number")
    };
    let used = || -> u64 {
        let text = session.ok(&["zfs", "get", "-Hp", "-o", "value", "used", "verb/d"]);
        text.trim().parse().expect("a number")
    };
    // Both have it, neither alone.
    assert!(reclaim("verb/d@one") < 100_000 && reclaim("verb/d@two") < 100_000);
    assert!(reclaim("verb/d@one,three") < 100_000);
    let together = reclaim("verb/d@one%two");
    assert!(together >= 1 << 20, "{together}");
    let written = session.ok(&[
        "zfs",
        "get",
        "-Hp",
        "-o",
        "value",
        "written@two",
        "verb/d@one",
    ]);
    assert_eq!(written, "-\n");
    let before = used();
    session.ok(&["zfs", "destroy", "verb/d@one%two"]);
    assert_eq!(before - used(), together);
    session.export_clean("verb");
}

#[test]
fn health_as_json() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &[]);
    session.ok(&["zpool", "scrub", "-w", "verb"]);
    let text = session.ok(&["zpool", "status", "-j", "--json-int"]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pool = &json["pools"]["verb"];
    let keys: Vec<&str> = pool
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert!(!keys.contains(&"type"));
    assert_eq!(pool["scan_stats"]["function"], "SCRUB");
    assert_eq!(pool["scan_stats"]["state"], "FINISHED");
    let root = &pool["vdevs"]["verb"];
    assert_eq!(root["vdev_type"], "root");
    let leaves = root["vdevs"].as_object().expect("vdevs");
    let leaf = leaves.values().next().expect("a leaf");
    assert_eq!(leaf["phys_space"], 96 << 20);
    assert_eq!(leaf["read_errors"], 0);
    assert_eq!(root["alloc_space"], leaf["alloc_space"]);
    let text = session.ok(&["zpool", "status", "-xj"]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["pools"], serde_json::json!({}));
    session.export("verb");
}

#[test]
fn manual_pages_are_written() {
    let Some(session) = Session::new() else {
        return;
    };
    let folder = session.images();
    session.ok(&["millpond", "man", path(&folder)][1..]);
    for page in ["millpond.8", "millpond-zfs.8", "millpond-zpool.8"] {
        let text = fs::read_to_string(folder.join(page)).expect("a page");
        assert!(
            text.starts_with(".TH MILLPOND") && text.contains(".SH COMMANDS"),
            "{page}"
        );
    }
}

/// A property of a vdev with its source.
fn of_vdev(session: &Session, property: &str, vdev: &str) -> String {
    let columns = "value,source";
    let text = session.ok(&["zpool", "get", "-Hp", "-o", columns, property, "verb", vdev]);
    text.trim_end().to_owned()
}

#[test]
fn vdevs_have_properties() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("verb", 96, &[]);
    let image = session.images().join("verb.img");
    let vdev = path(&image);
    for (property, name, known) in [
        ("psize", vdev, "100663296\t-"),
        ("state", vdev, "7\t-"),
        ("parent", vdev, "verb\t-"),
        ("numchildren", "root-0", "1\t-"),
        ("comment", vdev, "-\tdefault"),
        ("failfast", vdev, "on\tdefault"),
    ] {
        assert_eq!(of_vdev(&session, property, name), known, "{property}");
    }
    let all = session.ok(&["zpool", "get", "-H", "all", "verb", "all-vdevs"]);
    assert!(
        all.lines().any(|line| line == "root-0\tashift\t0\t-"),
        "{all}"
    );
    for (assignment, reason) in [
        ("ashift=9", "ashift for VDEV on verb: 'ashift' is readonly"),
        ("no=9", "no for VDEV on verb: invalid property: 'no'"),
        (
            "failfast=x",
            "failfast for VDEV on verb: 'failfast' must be one of 'on | off'",
        ),
    ] {
        let said = session.refused(&["zpool", "set", assignment, "verb", vdev]);
        let said = said.trim_end().replace(vdev, "VDEV");
        assert_eq!(said, format!("cannot set property {reason}"));
    }
    set_vdev(session, vdev);
}

fn set_vdev(mut session: Session, vdev: &str) {
    for assignment in ["comment=a disk", "checksum_n=9", "a:b=c", "failfast=off"] {
        session.ok(&["zpool", "set", assignment, "verb", vdev]);
    }
    session.ok(&["zpool", "set", "comment=all of it", "verb", "root-0"]);
    session.export_clean("verb");
    session.import("verb", &[]);
    for (property, name, known) in [
        ("comment", vdev, "a disk\tlocal"),
        ("comment", "root-0", "all of it\tlocal"),
        ("checksum_n", vdev, "9\tlocal"),
        ("a:b", vdev, "c\tlocal"),
        ("failfast", vdev, "off\tlocal"),
    ] {
        assert_eq!(of_vdev(&session, property, name), known, "{property}");
    }
    session.ok(&["zpool", "set", "checksum_n=none", "verb", vdev]);
    assert_eq!(of_vdev(&session, "checksum_n", vdev), "-\tdefault");
    session.export_clean("verb");
}
