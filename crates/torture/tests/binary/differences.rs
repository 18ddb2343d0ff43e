//! `zfs diff` between snapshots, and between a snapshot and a file system that is mounted.

use crate::session::Session;
use golden::{GoldenPool, Manifest};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

/// The lines of a comparison, without what stands before the paths.
fn lines(session: &Session, flags: &[&str], names: &[&str]) -> Vec<String> {
    let root = session.mount("tank/a");
    let mut arguments = vec!["zfs", "diff"];
    arguments.extend(flags);
    arguments.extend(names);
    let text = session.ok(&arguments);
    let prefix = root.to_str().expect("text");
    text.lines().map(|line| line.replace(prefix, "")).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn changes_of_every_kind() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let at = |name: &str| session.mount("tank/a").join(name);
    for directory in ["d", "e", "quiet"] {
        fs::create_dir(at(directory)).expect("a directory");
    }
    for file in [
        "deleted",
        "linked",
        "oldname",
        "modified",
        "d/inside",
        "e/x",
        "two names",
    ] {
        fs::write(at(file), file).expect("a file");
    }
    fs::hard_link(at("two names"), at("twice")).expect("a link");
    for number in 0..200 {
        fs::write(at("quiet").join(format!("{number}")), "quiet").expect("a file");
    }
    session.ok(&["zfs", "snapshot", "tank/a@before"]);
    assert!(lines(&session, &[], &["tank/a@before"]).is_empty());

    fs::remove_file(at("deleted")).expect("removed");
    fs::hard_link(at("linked"), at("e/more")).expect("a link");
    fs::rename(at("oldname"), at("d/new name")).expect("renamed");
    fs::write(at("modified"), "otherwise").expect("a file");
    fs::remove_file(at("twice")).expect("removed");
    symlink("nowhere", at("l\u{e9}")).expect("a link");
    let open = File::create(at("open")).expect("a file");
    fs::remove_file(at("open")).expect("removed");
    let expected = [
        "+\t@\t/l\\0303\\0251",
        "-\tF\t/deleted",
        "M\t/\t/",
        "M\t/\t/d",
        "M\t/\t/e",
        "M\tF\t/e/more\t(+1)",
        "M\tF\t/modified",
        "M\tF\t/two\\0040names\t(-1)",
        "R\tF\t/oldname -> /d/new\\0040name",
    ];
    let live = lines(&session, &["-F"], &["tank/a@before", "tank/a"]);
    // The name by which a file with several is shown is one of its names.
    let shown: Vec<String> = live
        .iter()
        .map(|line| line.replace("\t/linked\t", "\t/e/more\t"))
        .collect();
    assert_eq!(sorted(shown), expected);
    session.ok(&["zfs", "snapshot", "tank/a@after"]);
    drop(open);
    fs::write(at("later"), "later").expect("a file");
    assert_eq!(lines(&session, &["-F"], &["tank/a@before", "@after"]), live);
    let raw = lines(&session, &["-Hh"], &["tank/a@before", "tank/a@after"]);
    assert!(
        raw.contains(&"R\t/oldname\t/d/new name".to_owned()),
        "{raw:?}"
    );
    assert!(raw.contains(&"+\t/l\u{e9}".to_owned()), "{raw:?}");
    let later = lines(&session, &[], &["tank/a@after", "tank/a"]);
    assert_eq!(sorted(later), ["+\t/later", "M\t/"]);
    let timed = lines(&session, &["-t"], &["tank/a@after"]);
    let (time, _) = timed[0].split_once('\t').expect("a time");
    let (seconds, nanoseconds) = time.split_once('.').expect("two parts");
    assert!(seconds.parse::<u64>().is_ok() && nanoseconds.len() == 9);
    refusals(&session);
    session.export_clean("tank");
}

fn refusals(session: &Session) {
    let refused = |names: &[&str]| {
        let mut arguments = vec!["zfs", "diff"];
        arguments.extend(names);
        session.refused(&arguments)
    };
    let reversed = refused(&["tank/a@after", "tank/a@before"]);
    let text = "Unable to obtain diffs: not an earlier snapshot from the same fs\n";
    assert_eq!(reversed, text);
    assert_eq!(refused(&["tank/a@before", "tank"]), text);
    assert!(refused(&["tank/a", "tank/a@before"]).contains("cannot open 'tank/a'"));
    let missing = refused(&["tank/a@none"]);
    assert_eq!(
        missing,
        "cannot open 'tank/a@none': dataset does not exist\n"
    );
}

/// Pools of OpenZFS with several snapshots of a file system.
const POOLS: &[&str] = &["default", "streams", "many"];

#[test]
fn differences_explain_the_manifests_of_golden_pools() {
    for pool in POOLS.iter().filter_map(|name| golden::pool(name)) {
        let Some(session) = Session::new() else {
            return;
        };
        explain(session, &pool);
    }
}

fn explain(mut session: Session, pool: &GoldenPool) {
    let name = pool.pool_name();
    session.bring(&pool.images());
    session.import(&name, &["-N", "-o", "readonly=on"]);
    let manifests = pool.manifests();
    let list = session.ok(&["zfs", "list", "-H", "-t", "snapshot", "-o", "name"]);
    let snapshots: Vec<&str> = list.lines().collect();
    // Snapshots of a file system are listed by age.
    for pair in snapshots.windows(2) {
        let find = |name: &str| manifests.iter().find(|(dataset, _)| dataset == name);
        let (Some((from, old)), Some((to, new))) = (find(pair[0]), find(pair[1])) else {
            continue;
        };
        if from.split('@').next() == to.split('@').next() {
            let text = session.ok(&["zfs", "diff", "-Hh", from, to]);
            explained(from, &text, old, new);
        }
    }
    session.export(&name);
}

/// What the lines say, applied to the old paths, gives the new ones; but for names of files that
/// have several. And whatever has other attributes is named.
fn explained(from: &str, text: &str, old: &Manifest, new: &Manifest) {
    let mut paths: BTreeSet<String> = old.entries.keys().cloned().collect();
    let (mut changed, mut links) = (BTreeSet::new(), 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let path = |field: &str| match field.split_once(":/").expect("a path").1 {
            "" => ".".to_owned(),
            path => path.to_owned(),
        };
        let was = path(fields[1]);
        match fields[0] {
            "-" => assert!(paths.remove(&was), "{from}: {line}"),
            "+" => assert!(paths.insert(was), "{from}: {line}"),
            "R" => {
                let is = path(fields[2]);
                let below = format!("{was}/");
                let moved = |path: &String| match path.strip_prefix(&below) {
                    Some(rest) => format!("{is}/{rest}"),
                    None if *path == was => is.clone(),
                    None => path.clone(),
                };
                paths = paths.iter().map(moved).collect();
                changed.insert(is);
            }
            _ => {
                let number = |field: &&str| field.trim_matches(['(', ')']).parse::<i64>().ok();
                links += fields.get(2).and_then(number).map_or(0, i64::abs);
                changed.insert(was);
            }
        }
    }
    let new_paths: BTreeSet<String> = new.entries.keys().cloned().collect();
    let unexplained = paths.symmetric_difference(&new_paths).count();
    assert!(unexplained as i64 <= links, "{from}: {text}");
    for (path, entry) in &new.entries {
        let was = old.entries.get(path);
        if entry.nlink == 1 && was.is_some_and(|was| was != entry) {
            assert!(changed.contains(path), "{from}: {path}: {text}");
        }
    }
}

/// Files and directories below a folder, with what a comparison says of them.
fn tree(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("below").display();
        found.insert(format!("/{name}"));
        if entry.file_type().expect("a type").is_dir() {
            tree(root, &path, found);
        }
    }
}

#[test]
fn many_files_come_and_go() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zfs", "snapshot", "tank/a@empty"]);
    let root = session.mount("tank/a");
    for directory in 0..20 {
        let directory = root.join(format!("dir{directory}"));
        fs::create_dir(&directory).expect("a directory");
        for file in 0..100 {
            fs::write(directory.join(format!("file{file}")), "x").expect("a file");
        }
    }
    session.ok(&["zfs", "snapshot", "tank/a@full"]);
    let mut all = BTreeSet::new();
    tree(&root, &root, &mut all);
    let expect = |sign: char, names: &BTreeSet<String>| -> Vec<String> {
        let changed = names.iter().map(|name| format!("{sign}\t{name}"));
        sorted(changed.chain(["M\t/".to_owned()]).collect())
    };
    let created = lines(&session, &[], &["tank/a@empty", "@full"]);
    assert_eq!(sorted(created), expect('+', &all));
    for directory in 0..20 {
        fs::remove_dir_all(root.join(format!("dir{directory}"))).expect("removed");
    }
    let removed = lines(&session, &[], &["tank/a@full", "tank/a"]);
    assert_eq!(sorted(removed), expect('-', &all));
    let nothing = lines(&session, &[], &["tank/a@empty"]);
    assert_eq!(nothing, ["M\t/"]);
    // A file system that is not mounted is compared as well, under its name.
    session.ok(&["zfs", "unmount", "tank/a"]);
    let text = session.ok(&["zfs", "diff", "tank/a@empty"]);
    assert_eq!(text, "M\ttank/a:/\n");
    session.ok(&["zfs", "clone", "tank/a@full", "tank/c"]);
    let text = session.ok(&["zfs", "diff", "tank/a@full", "tank/c"]);
    assert!(text.is_empty(), "{text}");
    session.export_clean("tank");
}
