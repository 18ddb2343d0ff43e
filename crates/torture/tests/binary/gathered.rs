//! Mounts for which the kernel gathers writes (`zfs mount -o writeback`): what commands see, and where writing ends.

use crate::lifecycle::kill_server;
use crate::session::{Session, path};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;

/// Mounts a file system so that the kernel gathers writes.
fn mount_gathering(session: &Session, dataset: &str) {
    session.ok(&["zfs", "unmount", dataset]);
    session.ok(&["zfs", "mount", "-o", "writeback", dataset]);
}

#[test]
fn commands_see_what_was_written_before_them() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 4096, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    mount_gathering(&session, "tank/a");
    let place = session.mount("tank/a");
    let mut file = File::create(place.join("f")).expect("a file");
    session.ok(&["zfs", "snapshot", "tank/a@none"]);
    file.write_all(b"first").expect("written");
    session.ok(&["zfs", "snapshot", "tank/a@first"]);
    session.ok(&["zfs", "clone", "tank/a@first", "tank/clone"]);
    let cloned = session.mount("tank/clone").join("f");
    assert_eq!(fs::read(cloned).expect("read"), b"first");
    file.write_all(b", second").expect("written");
    let changed = session.ok(&["zfs", "diff", "tank/a@first", "tank/a"]);
    let shown = format!("M\t{}", path(&place.join("f")));
    assert!(changed.contains(&shown), "{changed}");
    session.ok(&["zpool", "sync", "tank"]);
    // It is on disk now, without an fsync.
    file.write_all(b", lost").expect("taken");
    kill_server(&session, "tank");
    let told = file.sync_all();
    assert!(told.is_err(), "what the server did not get is not durable");
    drop(file);
    session.import("tank", &[]);
    assert_eq!(fs::read(place.join("f")).expect("read"), b"first, second");
    mount_gathering(&session, "tank/a");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(place.join("f"))
        .expect("opened");
    file.write_all(b", third").expect("written");
    session.ok(&["zfs", "rollback", "tank/a@first"]);
    assert_eq!(fs::read(place.join("f")).expect("read"), b"first");
    assert!(file.write_all(b"x").and_then(|()| file.sync_all()).is_err());
    drop(file);
    let mut file = File::create(place.join("g")).expect("a file");
    file.write_all(b"exported").expect("written");
    drop(file);
    session.export("tank");
    session.import("tank", &[]);
    assert_eq!(fs::read(place.join("g")).expect("read"), b"exported");
    session.export_clean("tank");
}

#[test]
fn the_option_is_refused_where_it_would_not_hold() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-o", "sync=always", "tank/a"]);
    session.ok(&["zfs", "unmount", "tank/a"]);
    let refused = session.refused(&["zfs", "mount", "-o", "writeback", "tank/a"]);
    assert!(refused.contains("sync=always"), "{refused}");
    session.ok(&["zfs", "inherit", "sync", "tank/a"]);
    session.ok(&["zfs", "mount", "-o", "writeback", "tank/a"]);
    let remount = ["zfs", "mount", "-o", "remount,nowriteback", "tank/a"];
    let refused = session.refused(&remount);
    assert!(refused.contains("take a new mount"), "{refused}");
    let told = session.run(&["zfs", "set", "sync=always", "tank/a"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("from its next mount on"), "{told}");
    session.ok(&["zfs", "inherit", "sync", "tank/a"]);
    session.ok(&["zfs", "set", "readonly=on", "tank/a"]);
    session.export_clean("tank");
}

/// Writes small pieces until that is refused: what was taken, and the error.
fn fill(file: &mut File) -> (u64, Option<i32>) {
    let piece = crate::limits::noise(1);
    let mut taken = 0;
    loop {
        for part in piece.chunks(10_000) {
            if let Err(error) = file.write_all(part) {
                return (taken, error.raw_os_error());
            }
            taken += part.len() as u64;
        }
    }
}

/// With little that the kernel may gather, writers go on without asking until near the limit; with much, they ask
/// from the beginning.
#[test]
fn writing_ends_at_limits_and_what_was_taken_is_there() {
    const QUOTA: u64 = 48 << 20;
    for gathered in [64 << 10, 64 << 20] {
        let Some(mut session) = Session::new() else {
            return;
        };
        session.limit(&format!("fuse.write_back_bytes={gathered}"));
        session.create("tank", 384, &[]);
        let kinds = [("refquota", Errno::DQUOT), ("quota", Errno::DQUOT)];
        let mut expected = Vec::new();
        for (limit, error) in kinds {
            let name = format!("tank/{limit}");
            session.ok(&["zfs", "create", "-o", &format!("{limit}={QUOTA}"), &name]);
            expected.push((name, error));
        }
        expected.push(("tank".to_owned(), Errno::NOSPC));
        for (name, error) in &expected {
            mount_gathering_alone(&session, name);
            let at = session.mount(name).join("f");
            let mut file = File::create(&at).expect("a file");
            let (taken, refusal) = fill(&mut file);
            assert_eq!(refusal, Some(error.raw_os_error()), "{name}");
            assert!(taken > QUOTA / 2, "{name}: {taken}");
            file.sync_all().expect("what was taken is stored");
            let length = file.metadata().expect("its size").len();
            assert!(length >= taken, "{name}: {length} of {taken}");
            session.ok(&["zpool", "sync", "tank"]);
            drop(file);
            let found = fs::read(&at).expect("read");
            let noise = crate::limits::noise(1);
            let pieces = found.chunks(noise.len());
            assert!(
                pieces.into_iter().all(|piece| noise.starts_with(piece)),
                "{name}"
            );
            if name == "tank" {
                fs::remove_file(&at).expect("removed");
            }
        }
        session.export_clean("tank");
    }
}

/// The same for one that others are mounted in.
fn mount_gathering_alone(session: &Session, dataset: &str) {
    if dataset.contains('/') {
        mount_gathering(session, dataset);
        return;
    }
    session.ok(&["zfs", "unmount", "-a"]);
    session.ok(&["zfs", "mount", "-o", "writeback", dataset]);
    session.ok(&["zfs", "mount", "-a"]);
}
