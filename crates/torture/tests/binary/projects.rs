//! `zfs project`: what it says, checks and sets, as the kernel's does; and what the pool counts then.

use crate::session::Session;
use std::fs;
use std::path::Path;

/// What `zfs project` says, with paths from `root` on and in order.
fn said(session: &Session, root: &Path, words: &str) -> Vec<String> {
    let mut arguments = vec!["zfs".to_owned(), "project".to_owned()];
    for word in words.split_whitespace() {
        let is_path = word.starts_with("./");
        let path = root.join(word.trim_start_matches("./"));
        arguments.push(if is_path {
            path.display().to_string()
        } else {
            word.to_owned()
        });
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = session.ok(&arguments);
    let text = text.replace(&format!("{}/", root.display()), "");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn projects_are_shown_checked_set_and_cleared() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let root = session.mount("tank");
    fs::create_dir_all(root.join("p/c")).expect("directories");
    for name in ["p/a", "p/b", "p/c/d"] {
        fs::write(root.join(name), "").expect("a file");
    }
    let silent = |words: &str| assert!(said(&session, &root, words).is_empty(), "{words}");
    assert_eq!(said(&session, &root, "-d ./p"), ["    0 - p"]);
    silent("-p 7 ./p/a");
    silent("-s -p 9 ./p/c");
    // Of a directory its entries, too, but not theirs.
    let entries = ["    0 - p", "    0 - p/b", "    7 - p/a", "    9 P p/c"];
    assert_eq!(said(&session, &root, "./p"), entries);
    let wrong = [
        "p - project inherit flag is not set",
        "p/a - project ID is not set properly (7/0)",
        "p/a - project inherit flag is not set",
        "p/b - project inherit flag is not set",
        "p/c - project ID is not set properly (9/0)",
    ];
    assert_eq!(said(&session, &root, "-c ./p"), wrong);
    let wrong = [
        "p/c/d - project ID is not set properly (0/9)",
        "p/c/d - project inherit flag is not set",
    ];
    assert_eq!(said(&session, &root, "-c -p 9 ./p/c"), wrong);
    assert_eq!(said(&session, &root, "-cr0 -p 9 ./p/c"), ["p/c/d\0"]);
    silent("-rs -p 11 ./p");
    silent("-cr -p 11 ./p");
    let all = ["p", "p/a", "p/b", "p/c", "p/c/d"].map(|name| format!("   11 P {name}"));
    assert_eq!(said(&session, &root, "-r ./p"), all);
    // What is made below belongs to the project, and is counted.
    fs::create_dir(root.join("p/c/new")).expect("a directory");
    fs::write(root.join("p/c/new/file"), vec![7; 300_000]).expect("a file");
    let new = ["   11 - p/c/new/file", "   11 P p/c/new"];
    assert_eq!(said(&session, &root, "-r ./p/c/new"), new);
    session.ok(&["zpool", "sync"]);
    let counted = [
        "zfs",
        "projectspace",
        "-Hp",
        "-o",
        "name,used,objused",
        "tank",
    ];
    let counted = session.ok(&counted);
    let row = counted.lines().find(|row| row.starts_with("11\t"));
    let row = row.expect("the project is counted");
    assert!(row.ends_with("\t7"), "{counted}");
    silent("-Ck ./p/b");
    silent("-Cr ./p/c");
    let left = ["    0 - p/c", "   11 - p/b", "   11 P p", "   11 P p/a"];
    assert_eq!(said(&session, &root, "./p"), left);
    session.export_clean("tank");
}
