//! `zpool trim` and `autotrim` on images: the host gets the space back that the pool does not use, and nothing else.

use super::lifecycle::kill_server;
use super::session::{Session, path};
use crate::patience::until;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MEGABYTE: u64 = 1 << 20;
/// Bytes that do not compress, others for each seed.
fn noise(seed: u64, bytes: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| word()).collect()
}

fn write_noise(path: &Path, seed: u64, megabytes: u64) {
    for part in 0..megabytes {
        let name = path.with_extension(part.to_string());
        fs::write(name, noise(seed * 1000 + part, MEGABYTE)).expect("written");
    }
}

fn check_noise(path: &Path, seed: u64, megabytes: u64) {
    for part in 0..megabytes {
        let name = path.with_extension(part.to_string());
        let found = fs::read(&name).expect("read");
        assert!(found == noise(seed * 1000 + part, MEGABYTE), "{name:?}");
    }
}

fn remove_noise(path: &Path, megabytes: u64) {
    for part in 0..megabytes {
        fs::remove_file(path.with_extension(part.to_string())).expect("removed");
    }
}

impl Session {
    /// Bytes that the image takes of the host.
    fn host_bytes(&self, pool: &str) -> u64 {
        let image = self.images().join(format!("{pool}.img"));
        fs::metadata(image).expect("the image").blocks() * 512
    }

    /// Whether the host's file system can have holes in files.
    fn has_holes(&self) -> bool {
        let image = self.images().join("tank.img");
        let get = ["zpool", "get", "-Hpo", "value"];
        let able = self.ok(&[&get[..], &["trim_support", "tank", path(&image)]].concat());
        let able = matches!(able.trim(), "on" | "1");
        if !able {
            println!("skipped: no holes can be punched here");
        }
        able
    }
}

#[test]
fn a_trim_gives_back_what_was_removed() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 384, &[]);
    if !session.has_holes() {
        let refused = session.refused(&["zpool", "trim", "tank"]);
        assert!(refused.contains("no devices in pool support trim operations"));
        return;
    }
    let (kept, gone) = (
        session.mount("tank").join("kept"),
        session.mount("tank").join("gone"),
    );
    write_noise(&gone, 1, 60);
    write_noise(&kept, 2, 20);
    write_noise(&gone.with_file_name("more"), 3, 60);
    session.ok(&["zpool", "sync", "tank"]);
    let full = session.host_bytes("tank");
    assert!(full > 140 * MEGABYTE, "{full}");
    remove_noise(&gone, 60);
    remove_noise(&gone.with_file_name("more"), 60);
    session.ok(&["zpool", "sync", "tank"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("(untrimmed)"), "{status}");
    session.ok(&["zpool", "trim", "-w", "tank"]);
    let trimmed = session.host_bytes("tank");
    println!("{full} bytes of the host before, {trimmed} after");
    // What was freed last rests for some txgs, and labels are whole.
    assert!(trimmed < 45 * MEGABYTE, "{trimmed}");
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("(100% trimmed, completed at "), "{status}");
    session.ok(&["zpool", "wait", "-t", "trim", "tank"]);
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    for word in ["activated", "complete"] {
        let image = session.images().join("tank.img");
        let wanted = format!("trim vdev={} {word}", image.display());
        assert!(history.contains(&wanted), "{wanted}: {history}");
    }
    assert!(history.contains("zpool trim -w tank"), "{history}");
    let events = session.ok(&["zpool", "events", "tank"]);
    assert!(events.contains("sysevent.fs.zfs.trim_start"), "{events}");
    assert!(events.contains("sysevent.fs.zfs.trim_finish"), "{events}");
    let image = session.images().join("tank.img");
    let bytes = [
        "zpool",
        "get",
        "-Hpo",
        "value",
        "trim_bytes",
        "tank",
        path(&image),
    ];
    let bytes: u64 = session.ok(&bytes).trim().parse().expect("a number");
    assert!(bytes > 250 * MEGABYTE, "{bytes}");
    check_noise(&kept, 2, 20);
    refusals(&session);
    session.export_clean("tank");
    session.import("tank", &[]);
    check_noise(&kept, 2, 20);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("(100% trimmed, completed at "), "{status}");
    session.export("tank");
}

fn refusals(session: &Session) {
    let refused = session.refused(&["zpool", "trim", "-s", "tank"]);
    assert!(refused.contains("there is no active trim"), "{refused}");
    let refused = session.refused(&["zpool", "trim", "-c", "tank"]);
    assert!(refused.contains("there is no active trim"), "{refused}");
    let refused = session.refused(&["zpool", "trim", "-d", "tank"]);
    assert!(refused.contains("not supported"), "{refused}");
    let refused = session.refused(&["zpool", "trim", "tank", "none"]);
    assert!(refused.contains("no such device in pool"), "{refused}");
    let refused = session.refused(&["zpool", "trim", "-c", "-w", "tank"]);
    assert!(refused.contains("cannot be combined"), "{refused}");
    session.refused(&["zpool", "trim"]);
}

#[test]
fn a_trim_goes_on_after_a_kill() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    if !session.has_holes() {
        return;
    }
    let (kept, gone) = (
        session.mount("tank").join("kept"),
        session.mount("tank").join("gone"),
    );
    write_noise(&gone, 4, 40);
    write_noise(&kept, 5, 20);
    session.ok(&["zpool", "sync", "tank"]);
    remove_noise(&gone, 40);
    session.ok(&["zpool", "sync", "tank"]);
    // 1 MiB a second: under way for minutes, however slow the machine.
    session.ok(&["zpool", "trim", "-r", "1M", "tank"]);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("% trimmed, started at "), "{status}");
    let refused = session.refused(&["zpool", "trim", "tank"]);
    assert!(refused.contains("currently trimming"), "{refused}");
    for round in 0..6 {
        write_noise(&gone, 100 + round, 8);
        session.ok(&["zpool", "sync", "tank"]);
        remove_noise(&gone, 8);
    }
    kill_server(&session, "tank");
    let mounts = session.mounts();
    let _ = std::process::Command::new("umount")
        .args(["-l", path(&mounts.join("tank"))])
        .output();
    session.import("tank", &["-f"]);
    check_noise(&kept, 5, 20);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("% trimmed, started at "), "{status}");
    // At full speed from here on.
    session.ok(&["zpool", "trim", "-s", "tank"]);
    session.ok(&["zpool", "trim", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("(100% trimmed, completed at "), "{status}");
    session.ok(&["zpool", "trim", "-r", "1M", "tank"]);
    session.ok(&["zpool", "trim", "-s", "tank"]);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(
        status.contains("% trimmed, suspended, started at "),
        "{status}"
    );
    session.ok(&["zpool", "trim", "-c", "tank"]);
    let status = session.ok(&["zpool", "status", "-t", "tank"]);
    assert!(status.contains("(untrimmed)"), "{status}");
    check_noise(&kept, 5, 20);
    session.export_clean("tank");
}

#[test]
fn autotrim_gives_back_what_was_removed() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &["-o", "autotrim=on"]);
    if !session.has_holes() {
        return;
    }
    let (kept, gone) = (
        session.mount("tank").join("kept"),
        session.mount("tank").join("gone"),
    );
    write_noise(&gone, 6, 60);
    write_noise(&kept, 7, 10);
    session.ok(&["zpool", "sync", "tank"]);
    let full = session.host_bytes("tank");
    remove_noise(&gone, 60);
    // Batches come every 32 txgs.
    until("it is trimmed", || {
        session.ok(&["zpool", "sync", "tank"]);
        session.host_bytes("tank") + 50 * MEGABYTE <= full
    });
    check_noise(&kept, 7, 10);
    session.ok(&["zpool", "set", "autotrim=off", "tank"]);
    let value = session.ok(&["zpool", "get", "-Ho", "value", "autotrim", "tank"]);
    assert_eq!(value, "off\n");
    session.export_clean("tank");
}

#[test]
fn free_space_is_initialized() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let file = session.mount("tank/a").join("file");
    fs::write(&file, vec![7; 1 << 20]).expect("written");
    let refused = session.refused(&["zpool", "initialize", "-c", "tank"]);
    assert!(refused.starts_with("cannot initialize '"), "{refused}");
    assert!(
        refused.contains("there is no active initialization"),
        "{refused}"
    );
    let refused = session.refused(&["zpool", "initialize", "-c", "-s", "tank"]);
    assert!(refused.starts_with("-c, -s, and -u are mutually exclusive"));
    let status = session.ok(&["zpool", "status", "-i", "tank"]);
    assert!(status.contains("(uninitialized)"), "{status}");
    session.ok(&["zpool", "initialize", "tank"]);
    session.ok(&["zpool", "wait", "-t", "initialize", "tank"]);
    let status = session.ok(&["zpool", "status", "-i", "tank"]);
    assert!(
        status.contains("(100% initialized, completed at "),
        "{status}"
    );
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("] initialize vdev="), "{history}");
    assert_eq!(fs::read(&file).expect("read"), vec![7; 1 << 20]);
    session.ok(&["zpool", "initialize", "-u", "tank"]);
    let status = session.ok(&["zpool", "status", "-i", "tank"]);
    assert!(status.contains("(uninitialized)"), "{status}");
    session.ok(&["zpool", "initialize", "-w", "tank", "tank.img"]);
    session.export_clean("tank");
}
