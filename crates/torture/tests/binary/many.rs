//! A pool with many file systems, some inside of others: mounted and unmounted side by side, by few threads.

use crate::session::{Session, path};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const OUTER: usize = 6;
const INNER: usize = 8;

fn names() -> Vec<String> {
    let outer = (0..OUTER).map(|outer| format!("tank/d{outer}"));
    let inner = (0..OUTER * INNER).map(|at| format!("tank/d{}/e{}", at / INNER, at % INNER));
    outer.chain(inner).collect()
}

/// The datasets that are mounted at their places.
fn mounted(session: &Session) -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mounts").expect("the table of mounts");
    let all = names();
    let is_there = |name: &&String| {
        let line = format!("{name} {} fuse.zfs ", path(&session.mount(name)));
        table
            .lines()
            .filter(|found| found.starts_with(&line))
            .count()
            == 1
    };
    all.iter().filter(is_there).cloned().collect()
}

fn all_are_served(session: &Session) {
    assert_eq!(mounted(session).len(), names().len());
    for name in names() {
        let text = fs::read_to_string(session.mount(&name).join("file"));
        assert_eq!(text.expect("a file"), name);
    }
}

#[test]
fn many_file_systems_are_mounted_inside_each_other_by_few_threads() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50,fuse.busy_idle_ms=100");
    session.create("tank", 256, &[]);
    for name in names() {
        session.ok(&["zfs", "create", &name]);
        fs::write(session.mount(&name).join("file"), &name).expect("written");
    }
    session.export("tank");
    assert!(mounted(&session).is_empty());
    // The shell's limit of open files is not the daemon's, as long as it may be raised.
    let script = "ulimit -Sn 40; exec \"$0\" zpool import -d \"$1\" -R \"$2\" tank";
    let (images, mounts) = (session.images(), session.mounts());
    let few = session.shell(script, &[path(&images), path(&mounts)]);
    assert!(few.status.success() && few.stderr.is_empty(), "{few:?}");
    all_are_served(&session);
    session.ok(&["zpool", "export", "tank"]);
    session.import("tank", &[]);
    all_are_served(&session);
    let [daemon] = session.daemons()[..] else {
        panic!("one daemon")
    };
    let tasks = fs::read_dir(format!("/proc/{daemon}/task")).expect("its threads");
    let names = tasks.flatten().filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        name.starts_with("fuse-").then_some(name)
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() < 54, "{names:?}");

    // One that is in use stops an export, and what went comes back.
    let folder = session.mount("tank/d3/e4");
    let mut holder = Command::new("sleep")
        .arg("600")
        .current_dir(&folder)
        .spawn()
        .expect("sleep runs");
    let refused = session.refused(&["zpool", "export", "tank"]);
    assert!(refused.contains("pool or dataset is busy"), "{refused}");
    all_are_served(&session);
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
    session.export_clean("tank");
    assert!(mounted(&session).is_empty());
}
