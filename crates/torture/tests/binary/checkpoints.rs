//! `zpool checkpoint`, and `zpool import --rewind-to-checkpoint`, with the real binary.

use crate::session::Session;
use std::fs;

fn status_line(session: &Session) -> String {
    let status = session.ok(&["zpool", "status", "tank"]);
    let mut lines = status.lines().filter(|line| line.contains("checkpoint"));
    lines.next().unwrap_or_default().to_owned()
}

fn shown(session: &Session) -> String {
    let list = session.ok(&["zpool", "list", "-H", "-o", "checkpoint", "tank"]);
    list.trim().to_owned()
}

#[test]
fn a_checkpoint_is_taken_shown_discarded_and_returned_to() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let noise: Vec<u8> = (0..4_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let file = session.mount("tank/a").join("file");
    fs::write(&file, &noise).expect("written");
    let refused = session.refused(&["zpool", "checkpoint", "-d", "tank"]);
    let said = "cannot discard checkpoint in 'tank': checkpoint does not exist";
    assert_eq!(refused.trim(), said);
    assert_eq!(shown(&session), "-");
    session.ok(&["zpool", "checkpoint", "tank"]);
    let refused = session.refused(&["zpool", "checkpoint", "tank"]);
    assert_eq!(
        refused.trim(),
        "cannot checkpoint 'tank': checkpoint exists"
    );
    let refused = session.refused(&["zpool", "reguid", "tank"]);
    assert_eq!(refused.trim(), "cannot reguid 'tank': checkpoint exists");
    let refused = session.refused(&["zpool", "checkpoint", "-w", "tank"]);
    assert!(refused.starts_with("--wait only valid when discarding the checkpoint"));
    fs::write(&file, b"overwritten").expect("written");
    session.ok(&["zfs", "create", "tank/b"]);
    session.ok(&["zpool", "sync"]);
    let line = status_line(&session);
    assert!(line.starts_with("checkpoint: created ") && line.contains(", consumes "));
    assert_ne!(shown(&session), "-");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("spa checkpoint checkpointed uberblock txg="));
    session.export_clean("tank");

    // Looked at, and left as it is.
    let looking = ["-o", "readonly=on", "--rewind-to-checkpoint"];
    session.import("tank", &looking);
    let file = session.mount("tank/a").join("file");
    assert!(fs::read(&file).expect("read") == noise);
    session.refused(&["zfs", "list", "tank/b"]);
    session.ok(&["zpool", "export", "tank"]);
    session.import("tank", &[]);
    let file = session.mount("tank/a").join("file");
    assert_eq!(fs::read(&file).expect("read"), b"overwritten");
    session.export_clean("tank");

    // For good.
    session.import("tank", &["--rewind-to-checkpoint"]);
    let file = session.mount("tank/a").join("file");
    assert!(fs::read(&file).expect("read") == noise);
    assert_eq!(status_line(&session), "");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("checkpoint rewind rewound state to txg="));

    session.ok(&["zpool", "checkpoint", "tank"]);
    fs::remove_file(&file).expect("removed");
    session.ok(&["zpool", "sync"]);
    session.ok(&["zpool", "checkpoint", "-d", "-w", "tank"]);
    session.ok(&["zpool", "wait", "-t", "discard", "tank"]);
    assert_eq!(status_line(&session), "");
    assert_eq!(shown(&session), "-");
    let feature = [
        "zpool",
        "get",
        "-H",
        "-o",
        "value",
        "feature@zpool_checkpoint",
        "tank",
    ];
    assert_eq!(session.ok(&feature), "enabled\n");
    session.export_clean("tank");
    session.import("tank", &[]);
    session.export_clean("tank");
}
