//! A pool whose sync met a fault of ours: what it has accepted can be copied out, and what comes back after an import.

use crate::session::Session;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// More than a txg that is written at once, and some of it in more than one block.
fn contents(name: &str) -> Vec<u8> {
    let line = format!("{name}\n");
    line.as_bytes().repeat(300_000 / line.len())
}

/// Two files: one is synchronized, the other one is not.
fn write_both(root: &Path, number: u32) -> std::io::Result<()> {
    let durable = format!("durable-{number}");
    let mut file = File::create(root.join(&durable))?;
    file.write_all(&contents(&durable))?;
    file.sync_all()?;
    let accepted = format!("accepted-{number}");
    fs::write(root.join(&accepted), contents(&accepted))
}

fn assert_there(root: &Path, name: &str) {
    let found = fs::read(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(found == contents(name), "{name}");
}

fn assert_says_what_to_do(session: &Session) {
    let status = session.ok(&["zpool", "status", "tank"]);
    for line in [
        " state: SUSPENDED\n",
        "\tThe reason: txg ",
        "the fault that was asked for",
        "\tOn disk is the state of txg ",
        "synchronized (fsync), to another place.  Then run 'zpool export -f' and\n\t'zpool import'",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    for arguments in [
        &["zpool", "clear", "tank"][..],
        &["zpool", "export", "tank"],
        &["zpool", "sync", "tank"],
        &["zfs", "snapshot", "tank@now"],
    ] {
        let said = session.refused(arguments);
        assert!(said.contains("the fault that was asked for"), "{said}");
    }
}

/// Takes no changes, and nothing more is called durable.
fn assert_refuses_changes(root: &Path, number: u32) {
    let refused = |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(5), "{error}");
    refused(fs::write(root.join("new"), b"new").unwrap_err());
    let accepted = root.join(format!("accepted-{number}"));
    let file = File::options().write(true).open(&accepted).expect("opened");
    refused(file.sync_all().unwrap_err());
    refused(fs::remove_file(&accepted).unwrap_err());
}

/// The first number whose sync failed.
fn until_it_stops(session: &Session, root: &Path) -> u32 {
    for number in 0..200 {
        write_both(root, number).expect("accepted");
        if !session.run(&["zpool", "sync", "tank"]).status.success() {
            return number;
        }
    }
    panic!("the pool never stopped");
}

fn stop_and_come_back(kind: u32) {
    let Some(mut session) = Session::new() else {
        return;
    };
    // With little cache, so that what was written already is read from the image.
    session.limit(&format!(
        "pool.fault_txg=20,pool.fault_kind={kind},cache.limit_bytes_cap=1048576"
    ));
    session.create("tank", 160, &[]);
    let root = session.mount("tank");
    let last = until_it_stops(&session, &root);
    assert_says_what_to_do(&session);
    assert_refuses_changes(&root, last);
    // Not from the kernel's memory.
    let _only_for_root = fs::write("/proc/sys/vm/drop_caches", "3");
    for number in 0..=last {
        assert_there(&root, &format!("durable-{number}"));
        assert_there(&root, &format!("accepted-{number}"));
    }
    let exported = session.run(&["zpool", "export", "-f", "tank"]);
    assert!(exported.status.success(), "{exported:?}");
    let said = String::from_utf8_lossy(&exported.stderr);
    assert!(
        said.contains("are lost, but for what was synchronized to files"),
        "{said}"
    );
    session.limit("default");
    session.import("tank", &[]);
    for number in 0..=last {
        assert_there(&root, &format!("durable-{number}"));
    }
    for number in 0..last {
        assert_there(&root, &format!("accepted-{number}"));
    }
    session.export_clean("tank");
}

#[test]
fn what_was_accepted_can_be_read_after_an_error_in_a_sync() {
    stop_and_come_back(0);
}

#[test]
fn what_was_accepted_can_be_read_after_a_failed_assertion_in_a_sync() {
    stop_and_come_back(1);
}

#[test]
fn what_was_accepted_can_be_read_after_another_thread_finds_a_broken_invariant() {
    stop_and_come_back(2);
}
