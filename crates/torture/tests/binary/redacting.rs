//! `zfs redact` under way: other changes go on beside it, what it reads stays, and who stops it finds nothing of it;
//! one whose daemon was killed is gone on with.

use super::lifecycle::kill_server;
use super::session::Session;
use crate::patience::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// So many ranges the lists here have, each of which costs a txg, and a rest after it.
const RANGES: u64 = 250;
/// Long enough for some commands on a busy machine.
const REST_MS: u64 = 40;
/// As long as that such a list never ends by itself.
const LONG_REST_MS: u64 = 1000;
const LINE: [&str; 5] = ["zfs", "redact", "one/a@1", "book", "one/x@r"];

/// A pool where lists take long.
fn slow_lists(rest_ms: u64) -> Option<Session> {
    let mut session = Session::new()?;
    let rest = format!("replication.redaction_rest_ms={rest_ms}");
    session.limit(&format!("replication.redaction_batch=1,{rest}"));
    session.create("one", 192, &["-O", "atime=off"]);
    session.ok(&["zfs", "create", "-o", "recordsize=4k", "one/a"]);
    let bytes = super::receiving::noise(RANGES * 2 * 4096);
    fs::write(session.mount("one/a").join("file"), bytes).expect("written");
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    session.ok(&["zfs", "clone", "one/a@1", "one/x"]);
    let file = File::options()
        .write(true)
        .open(session.mount("one/x").join("file"));
    let file = file.expect("it is there");
    for block in 0..RANGES {
        file.write_all_at(b"x", block * 8192).expect("written");
    }
    session.ok(&["zfs", "snapshot", "one/x@r"]);
    Some(session)
}

fn bookmarks(session: &Session) -> Vec<String> {
    let told = session.ok(&["zfs", "list", "-Hr", "-t", "bookmark", "-o", "name", "one"]);
    told.lines().map(str::to_owned).collect()
}

/// Waits until there are just these bookmarks.
fn await_bookmarks(session: &Session, wanted: &[&str]) {
    until(&format!("{wanted:?}"), || bookmarks(session) == wanted);
}

/// Starts the command, and returns when its bookmark is there.
fn begin(session: &Session) -> Child {
    let mut command: Command = session.command(&LINE);
    command.stderr(Stdio::piped());
    let child = command.spawn().expect("the binary runs");
    await_bookmarks(session, &["one/a#book"]);
    child
}

/// What a command that is not to succeed said.
fn failed(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(id, signal).expect("it is there");
}

/// What is sent by a list.
fn sent(session: &Session, options: &str) -> Vec<u8> {
    let output = session.shell(&format!("$0 zfs send {options}"), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options}: {errors}");
    output.stdout
}

#[test]
fn other_changes_go_on_beside_a_list_that_is_made() {
    let Some(mut session) = slow_lists(REST_MS) else {
        return;
    };
    let first = begin(&session);
    session.ok(&["zfs", "create", "one/b"]);
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    session.ok(&["zfs", "set", "compression=lz4", "one/a"]);
    for name in ["one/x@r", "one/a@1"] {
        let told = session.refused(&["zfs", "destroy", name]);
        assert!(
            told.contains("dataset is busy") || told.contains("clones"),
            "{told}"
        );
    }
    let told = session.refused(&LINE);
    assert!(told.contains("is being made by another command"), "{told}");
    let told = session.refused(&["zpool", "export", "one"]);
    assert!(
        told.contains("a redaction bookmark is being made"),
        "{told}"
    );
    let incomplete = session.shell("$0 zfs send --redact book one/a@1", &[]);
    let told = String::from_utf8_lossy(&incomplete.stderr);
    assert!(told.contains("incomplete redaction bookmark"), "{told}");
    // What it reads and writes is called otherwise from here on.
    session.ok(&["zfs", "rename", "one/a", "one/c"]);
    session.ok(&["zfs", "rename", "one/x@r", "one/x@s"]);
    let second = session.spawn(&["zfs", "redact", "one/c@1", "other", "one/x@s"]);
    await_bookmarks(&session, &["one/c#book", "one/c#other"]);
    for child in [first, second] {
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
    let book = sent(&session, "--redact book one/c@1");
    assert!(book == sent(&session, "--redact other one/c@1"));
    assert!(book.len() as u64 > RANGES * 4096);
    let history = session.ok(&["zpool", "history", "one"]);
    assert!(
        history.contains("zfs redact one/a@1 book one/x@r"),
        "{history}"
    );
    session.ok(&["zfs", "destroy", "one/c#book"]);
    session.ok(&["zfs", "destroy", "one/c#other"]);
    session.ok(&["zfs", "destroy", "one/x@s"]);
    session.export_clean("one");
}

#[test]
fn who_stops_a_list_finds_nothing_of_it() {
    let Some(mut session) = slow_lists(LONG_REST_MS) else {
        return;
    };
    // Not as by a key: who starts the tests in the background has that ignored.
    for stop in [Signal::TERM, Signal::KILL] {
        let child = begin(&session);
        signal(&child, stop);
        failed(child);
        await_bookmarks(&session, &[]);
    }
    // Nothing is held any more, and nobody makes it.
    let child = begin(&session);
    session.ok(&["zfs", "destroy", "one/a#book"]);
    let told = failed(child);
    assert!(
        told.contains("its bookmark was destroyed meanwhile"),
        "{told}"
    );
    let child = begin(&session);
    session.ok(&["zpool", "export", "-f", "one"]);
    let told = failed(child);
    assert!(told.contains("the pool is about to be closed"), "{told}");
    session.import("one", &[]);
    assert!(bookmarks(&session).is_empty());
    let property = [
        "zpool",
        "get",
        "-Ho",
        "value",
        "feature@redaction_bookmarks",
        "one",
    ];
    assert_eq!(session.ok(&property).trim(), "enabled");
    session.ok(&["zfs", "destroy", "one/x@r"]);
    session.export_clean("one");
}

#[test]
fn a_list_whose_daemon_was_killed_is_gone_on_with() {
    let Some(mut session) = slow_lists(REST_MS) else {
        return;
    };
    let child = begin(&session);
    std::thread::sleep(Duration::from_millis(300));
    kill_server(&session, "one");
    failed(child);
    session.limit("replication.redaction_batch=100");
    session.import("one", &["-f"]);
    assert_eq!(bookmarks(&session), ["one/a#book"]);
    session.ok(&LINE);
    session.ok(&["zfs", "redact", "one/a@1", "whole", "one/x@r"]);
    let book = sent(&session, "--redact book one/a@1");
    assert!(book == sent(&session, "--redact whole one/a@1"));
    // What was not complete when somebody stopped it goes, too.
    session.ok(&["zfs", "destroy", "one/a#book"]);
    session.ok(&["zfs", "destroy", "one/a#whole"]);
    session.export_clean("one");
}
