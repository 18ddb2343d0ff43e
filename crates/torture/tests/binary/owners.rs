//! What users, groups and projects use: pools of OpenZFS against zdb, and files of our own.

use crate::session::Session;
use golden::{GoldenPool, Zdb};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// Pools whose file systems zdb is asked about.
const POOLS: &[&str] = &["default", "mirror", "nofeat", "streams", "old"];
/// The commands and the objects whose tables they show.
const COMMANDS: [(&str, &str); 3] = [
    ("userspace", "-1"),
    ("groupspace", "-2"),
    ("projectspace", "-3"),
];

type Table = BTreeMap<u64, (u64, Option<u64>)>;

#[test]
fn owners_of_golden_pools_are_what_zdb_says() {
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    for pool in POOLS.iter().filter_map(|name| golden::pool(name)) {
        let Some(session) = Session::new() else {
            return;
        };
        compare(session, &pool, &zdb);
    }
}

fn compare(mut session: Session, pool: &GoldenPool, zdb: &Zdb) {
    let name = pool.pool_name();
    session.bring(&pool.images());
    session.import(&name, &["-N", "-o", "readonly=on"]);
    let kinds = "filesystem,snapshot";
    let list = session.ok(&["zfs", "list", "-H", "-o", "name,version", "-t", kinds]);
    let mut seen = Vec::new();
    for (dataset, version) in list.lines().filter_map(|line| line.split_once('\t')) {
        // Volumes have no version, and file systems before 4 count nothing.
        if version.parse().is_ok_and(|version: u64| version >= 4) {
            let tables = COMMANDS.map(|(command, _)| shown(&session, command, dataset));
            seen.push((dataset.to_owned(), tables));
        }
    }
    session.export(&name);
    assert!(seen.iter().any(|(_, [users, ..])| !users.is_empty()));
    for (dataset, tables) in seen {
        let known = zdb_tables(zdb, &session.images(), &dataset);
        for ((command, object), table) in COMMANDS.iter().zip(tables) {
            let known = known.get(*object).cloned().unwrap_or_default();
            assert_eq!(table, known, "{command} {dataset}");
        }
    }
}

/// What a command shows: bytes and objects by number, of those who have any.
fn shown(session: &Session, command: &str, dataset: &str) -> Table {
    let mut arguments = vec!["zfs", command, "-Hp", "-o", "name,used,objused"];
    if command != "projectspace" {
        arguments.push("-n");
    }
    arguments.push(dataset);
    let text = session.ok(&arguments);
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let used = fields[1].parse().expect("bytes");
        (
            fields[0].parse().expect("an id"),
            (used, fields[2].parse().ok()),
        )
    };
    let mut table: Table = text.lines().map(line).collect();
    table.retain(|_, (bytes, objects)| *bytes != 0 || objects.is_some_and(|count| count != 0));
    table
}

/// The same from zdb's dump of a dataset, by object.
fn zdb_tables(zdb: &Zdb, images: &Path, dataset: &str) -> BTreeMap<String, Table> {
    // zdb wants a separator in the name of a dataset.
    let name = if dataset.contains(['/', '@']) {
        dataset.to_owned()
    } else {
        format!("{dataset}/")
    };
    let output = zdb.run(images, &["-dddd"], &[&name]);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let mut object = "";
    for line in text.lines() {
        if line.contains("  ZFS user/group/project used") {
            object = line.split_whitespace().next().unwrap_or_default();
        } else if line.trim_start().starts_with("Object ") {
            object = "";
        } else if let Some((key, value)) = line.split_once(" = ")
            && !object.is_empty()
            && line.starts_with("\t\t")
        {
            let (key, value) = (key.trim(), value.trim().parse().expect("a number"));
            let table = tables.entry(object.to_owned()).or_default();
            let id = |key| u64::from_str_radix(key, 16).expect("an id");
            match key.strip_prefix("obj-") {
                Some(key) => table.entry(id(key)).or_default().1 = Some(value),
                None => table.entry(id(key)).or_default().0 = value,
            }
        }
    }
    tables
}

#[test]
fn owners_of_files_pay_for_them() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: files are given away by root only");
        return;
    }
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off"]);
    let root = session.mount("tank");
    for (name, owner, size) in [("a", 4001, 300_000), ("b", 4001, 10), ("c", 4002, 1)] {
        fs::write(root.join(name), vec![7; size]).expect("written");
        chown(root.join(name), Some(owner), Some(5001)).expect("given away");
    }
    session.ok(&["zfs", "set", "userquota@4001=1G", "tank"]);
    session.ok(&["zfs", "set", "userobjquota@4003=7", "tank"]);
    session.ok(&["zpool", "sync"]);
    let charged = |names: &[&str]| -> u64 {
        let bytes = |name: &&str| fs::metadata(root.join(name)).expect("a file").blocks() * 512;
        // The blocks of a file include the 512 bytes that it pays for its dnode.
        names.iter().map(bytes).sum()
    };
    let (first, second) = (charged(&["a", "b"]), charged(&["c"]));
    let columns = "name,used,quota,objused,objquota";
    let users = session.ok(&["zfs", "userspace", "-Hpn", "-o", columns, "tank"]);
    let lines: Vec<&str> = users.lines().filter(|line| line.starts_with('4')).collect();
    assert_eq!(
        lines,
        [
            format!("4001\t{first}\t1073741824\t2\t0"),
            format!("4002\t{second}\t0\t1\t0"),
            "4003\t0\t0\t0\t7".to_owned(),
        ]
    );
    let all = first + second;
    let inside = root.join("a");
    let by_path = inside.to_str().expect("text");
    let groups = session.ok(&["zfs", "groupspace", "-Hp", "-S", "used", by_path]);
    assert_eq!(
        groups.lines().next(),
        Some(&*format!("POSIX Group\t5001\t{all}\t0\t3\t0"))
    );
    let both = [
        "zfs",
        "userspace",
        "-Hpn",
        "-t",
        "all",
        "-o",
        "type",
        "tank",
    ];
    let types = session.ok(&both);
    assert_eq!(
        types.lines().collect::<Vec<_>>(),
        [vec!["POSIX Group"; 2], vec!["POSIX User"; 4]].concat()
    );
    let projects = session.ok(&["zfs", "projectspace", "-Hp", "-o", "name,objused", "tank"]);
    // Three files and the root directory.
    assert_eq!(projects, "0\t4\n");

    session.ok(&["zfs", "snapshot", "tank@then"]);
    fs::remove_file(root.join("c")).expect("removed");
    session.ok(&["zpool", "sync"]);
    let used = |dataset: &str| {
        let text = session.ok(&["zfs", "userspace", "-Hpn", "-o", "name,used", dataset]);
        text.lines().any(|line| line.starts_with("4002\t"))
    };
    assert!(used("tank@then") && !used("tank"));
    session.export_clean("tank");
}

#[test]
fn owners_of_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &["-O", "mountpoint=none"]);
    session.ok(&["zfs", "create", "-V", "8M", "tank/v"]);
    let refused = session.refused(&["zfs", "userspace", "tank/v"]);
    let text = "cannot open 'tank/v': operation not applicable to datasets of this type\n";
    assert_eq!(refused, text);
    let refused = session.refused(&["zfs", "userspace", "tank/none"]);
    assert_eq!(refused, "cannot open 'tank/none': dataset does not exist\n");
    session.ok(&["zfs", "create", "-o", "version=3", "tank/old"]);
    let refused = session.refused(&["zfs", "userspace", "tank/old"]);
    let text = "cannot get used/quota for tank/old: unsupported version or feature\n";
    assert_eq!(refused, text);
    session.export_clean("tank");
}
