//! `zpool wait` and `zfs wait`: they return when the work has ended, and not before.

use crate::patience::until;
use crate::session::Session;
use std::fs::{self, File};
use std::process::Child;
use std::time::Duration;

/// What runs beside a command that should not have ended, is given so long.
const MOMENT: Duration = Duration::from_millis(700);

/// A command whose wait has begun.
fn begin(session: &Session, arguments: &[&str]) -> Child {
    let mut child = session.spawn(arguments);
    let descriptors = format!("/proc/{}/fd", child.id());
    until("it asks the daemon", || {
        let open = fs::read_dir(&descriptors).expect("a process of ours");
        open.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        })
    });
    std::thread::sleep(MOMENT);
    assert!(child.try_wait().expect("a child").is_none());
    child
}

#[test]
fn scrubs_and_frees_are_waited_for() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let noise: Vec<u8> = (0..16_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(session.mount("tank/a").join("noise"), &noise).expect("written");
    session.ok(&["zpool", "sync"]);
    session.ok(&["zpool", "wait", "tank"]);
    session.ok(&["zpool", "scrub", "tank"]);
    session.ok(&["zpool", "wait", "-t", "trim,resilver", "tank"]);
    session.ok(&["zpool", "wait", "-t", "scrub", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("scrub repaired 0B in"), "{status}");
    session.ok(&["zfs", "destroy", "tank/a"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    let freeing = ["zpool", "get", "-Hp", "-o", "value", "freeing", "tank"];
    assert_eq!(session.ok(&freeing), "0\n");
    let rows = session.ok(&["zpool", "wait", "-t", "scrub,free", "tank", "1"]);
    assert_eq!(rows, "  FREE   SCRUB\n    0B      0B\n");
    let row = session.ok(&["zpool", "wait", "-Hp", "-T", "u", "tank", "0.1"]);
    let (time, row) = row.split_once('\n').expect("two lines");
    assert!(time.parse::<u64>().is_ok());
    assert_eq!(row, "0\t0\t0\t0\t0\t0\t0\t0\t0\n");
    let refused = session.refused(&["zpool", "wait", "-t", "sleep", "tank"]);
    assert!(refused.starts_with("invalid activity 'sleep'\n"));
    let refused = session.refused(&["zpool", "wait", "none"]);
    assert_eq!(refused, "cannot open 'none': no such pool\n");
    session.export_clean("tank");
}

#[test]
fn removed_files_are_waited_for_while_they_are_open() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zfs", "wait", "tank/a"]);
    let open_and_remove = || {
        let path = session.mount("tank/a").join("file");
        fs::write(&path, "text").expect("written");
        let file = File::open(&path).expect("open");
        fs::remove_file(&path).expect("removed");
        file
    };
    let file = open_and_remove();
    let mut waiting = begin(&session, &["zfs", "wait", "-t", "deleteq", "tank/a"]);
    session.ok(&["zfs", "wait", "tank"]);
    drop(file);
    assert!(waiting.wait().expect("a child").success());

    // A file that is open keeps its file system mounted, and the wait goes on.
    let file = open_and_remove();
    let mut waiting = begin(&session, &["zfs", "wait", "tank/a"]);
    session.refused(&["zfs", "unmount", "-f", "tank/a"]);
    assert!(waiting.try_wait().expect("a child").is_none());
    drop(file);
    session.ok(&["zfs", "unmount", "tank/a"]);
    assert!(waiting.wait().expect("a child").success());
    session.ok(&["zfs", "mount", "tank/a"]);

    // The end of the pool ends the wait.
    let file = open_and_remove();
    let mut waiting = begin(&session, &["zfs", "wait", "tank/a"]);
    session.ok(&["zpool", "export", "-f", "tank"]);
    assert!(waiting.wait().expect("a child").success());
    drop(file);
    session.import("tank", &[]);
    let refused = session.refused(&["zfs", "wait", "tank/none"]);
    assert_eq!(refused, "cannot open 'tank/none': dataset does not exist\n");
    let refused = session.refused(&["zfs", "wait", "tank@none"]);
    assert!(refused.contains("operation not applicable to datasets of this type"));
    session.export_clean("tank");
}
