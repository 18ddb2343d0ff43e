//! `zfs redact` and redacted streams: what all redaction snapshots changed is left out, reads as an error where it was
//! received, and comes with what is sent later.

use crate::patience::until;
use crate::receiving::{assert_same, noise, piped, refused};
use crate::sending::sent;
use crate::session::{Session, path};
use base::ByteOrder;
use format::stream::BeginRecord;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use stream::{Change, Record, StreamError};

/// Two pools; `one/a@1` has files of which clones changed some.
fn two_pools() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("one", 192, &["-O", "atime=off"]);
    session.create("two", 192, &["-O", "atime=off"]);
    session.ok(&["zfs", "create", "-o", "compression=off", "one/a"]);
    let root = session.mount("one/a");
    for name in ["same", "both", "first", "gone", "cut", "small"] {
        let bytes = if name == "small" { 900 } else { 1_000_000 };
        fs::write(root.join(name), noise(bytes)).expect("written");
    }
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    for clone in ["one/x", "one/y"] {
        session.ok(&["zfs", "clone", "one/a@1", clone]);
        let root = session.mount(clone);
        put(&root.join("both"), 262_144, b"secret");
        put(&root.join("small"), 0, b"secret");
        fs::remove_file(root.join("gone")).expect("it is there");
        let cut = File::options().write(true).open(root.join("cut"));
        cut.expect("it is there").set_len(200_000).expect("cut");
        if clone == "one/x" {
            put(&root.join("first"), 0, b"secret");
        }
        session.ok(&["zfs", "snapshot", &format!("{clone}@r")]);
    }
    Some(session)
}

fn put(file: &Path, offset: u64, bytes: &[u8]) {
    let open = File::options().write(true).open(file).expect("it is there");
    open.write_all_at(bytes, offset).expect("written");
}

fn feature(session: &Session, pool: &str, name: &str) -> String {
    let property = format!("feature@{name}");
    let text = session.ok(&["zpool", "get", "-Ho", "value", &property, pool]);
    text.trim().to_owned()
}

fn value(session: &Session, name: &str, property: &str) -> String {
    let text = session.ok(&["zfs", "get", "-Hpo", "value", property, name]);
    text.trim().to_owned()
}

/// Which records of a file can be read.
fn readable(file: &Path) -> Vec<bool> {
    let open = File::open(file).expect("it is there");
    let size = open.metadata().expect("attributes").len();
    let mut piece = [0; 512];
    let record = |at: u64| open.read_at(&mut piece, at).is_ok();
    (0..size).step_by(131_072).map(record).collect()
}

/// Makes the bookmark, which is refused again and of unrelated snapshots; the guids of its redaction snapshots.
fn redact(session: &Session) -> [String; 2] {
    let line = ["zfs", "redact", "one/a@1", "book", "one/x@r", "one/y@r"];
    assert_eq!(feature(session, "one", "redaction_bookmarks"), "enabled");
    session.ok(&line);
    assert_eq!(feature(session, "one", "redaction_bookmarks"), "active");
    let exists = session.refused(&line);
    assert!(exists.contains("bookmark '#book' exists"), "{exists}");
    let unrelated = session.refused(&["zfs", "redact", "one/x@r", "b2", "one/y@r"]);
    assert!(unrelated.contains("no later snapshot of it"), "{unrelated}");
    let guids = ["one/x@r", "one/y@r"].map(|name| value(session, name, "guid"));
    assert_eq!(
        value(session, "one/a#book", "redact_snaps"),
        guids.join(",")
    );
    guids
}

#[test]
fn what_was_left_out_reads_as_an_error_until_it_comes() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let guids = redact(&session);
    piped(&session, "--redact book one/a@1", "two/a");
    assert_eq!(value(&session, "two/a", "redact_snaps"), guids.join(","));
    assert_eq!(value(&session, "two/a@1", "redact_snaps"), guids.join(","));
    assert_eq!(feature(&session, "two", "redacted_datasets"), "active");
    assert_eq!(value(&session, "two/a", "mounted"), "no");
    let told = session.refused(&["zfs", "mount", "two/a"]);
    assert!(
        told.contains("created by receiving a redacted zfs send stream"),
        "{told}"
    );
    session.ok(&["zfs", "mount", "-f", "two/a"]);
    let (here, there) = (session.mount("one/a"), session.mount("two/a"));
    for name in ["same", "first"] {
        assert!(
            fs::read(here.join(name)).expect("read") == fs::read(there.join(name)).expect("read")
        );
    }
    assert_eq!(
        readable(&there.join("both")),
        [true, true, false, true, true, true, true, true]
    );
    assert_eq!(
        readable(&there.join("cut")),
        [true, false, false, false, false, false, false, false]
    );
    assert_eq!(readable(&there.join("gone")), [false; 8]);
    assert_eq!(readable(&there.join("small")), [false]);
    let error = fs::read(there.join("small")).expect_err("it is left out");
    assert_eq!(error.raw_os_error(), Some(5));
    session.ok(&["zfs", "unmount", "two/a"]);

    // A clone that is all there, from what lacks just that; and what was left out, sent later.
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    refused(
        &session,
        "-i @1 one/a@2",
        "-F two/a",
        "redacted otherwise than the stream",
    );
    piped(&session, "-i one/a@1 one/x@r", "two/x");
    assert_eq!(value(&session, "two/x", "redact_snaps"), "-");
    assert_same(&session.mount("one/x"), &session.mount("two/x"));
    session.export_clean("two");
    session.import("two", &[]);
    piped(&session, "-i one/a#book one/a@2", "-F two/a");
    assert_eq!(value(&session, "two/a", "redact_snaps"), "-");
    session.ok(&["zfs", "mount", "two/a"]);
    assert_same(&here, &there);
    session.ok(&["zpool", "scrub", "-w", "two"]);
    for dataset in ["two/x", "two/a@1"] {
        session.ok(&["zfs", "destroy", "-r", dataset]);
    }
    assert_eq!(feature(&session, "two", "redacted_datasets"), "enabled");
    session.export_clean("two");
    session.ok(&["zfs", "destroy", "one/a#book"]);
    assert_eq!(feature(&session, "one", "redaction_bookmarks"), "enabled");
    session.export_clean("one");
}

/// The names of 36 fit into the bonus of the list's object, those of more lie in a spill block.
#[test]
fn a_list_by_more_snapshots_than_fit_its_bonus_lies_in_a_spill_block() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("one", 96, &["-O", "atime=off"]);
    let root = session.mount("one");
    fs::write(root.join("file"), noise(400_000)).expect("written");
    session.ok(&["zfs", "snapshot", "one@0"]);
    put(&root.join("file"), 0, b"other");
    let later: Vec<String> = (1..=37).map(|number| format!("one@{number}")).collect();
    for name in &later {
        session.ok(&["zfs", "snapshot", name]);
    }
    for (bookmark, count, state) in [("#some", 36, "enabled"), ("#many", 37, "active")] {
        let mut line = vec!["zfs", "redact", "one@0", bookmark];
        line.extend(later.iter().take(count).map(String::as_str));
        session.ok(&line);
        let named = value(&session, &format!("one{bookmark}"), "redact_snaps");
        assert_eq!(named.split(',').count(), count);
        assert_eq!(feature(&session, "one", "redaction_list_spill"), state);
    }
    let without = sent(&session, &["zfs", "send", "--redact", "many", "one@0"]);
    session.export("one");
    // With the bookmarks, zdb does not come back.
    if let Some(zdb) = golden::Zdb::from_environment() {
        let out = zdb.run(&session.images(), &["-bcc"], &["one"]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("No leaks"), "{text}");
    }
    session.import("one", &[]);
    let named = value(&session, "one#many", "redact_snaps");
    assert_eq!(named.split(',').count(), 37);
    let again = sent(&session, &["zfs", "send", "--redact", "many", "one@0"]);
    assert!(again == without, "the list has changed");
    session.ok(&["zfs", "destroy", "one#many"]);
    assert_eq!(feature(&session, "one", "redaction_list_spill"), "enabled");
    session.ok(&["zfs", "destroy", "one#some"]);
    session.export_clean("one");
}

/// Has ranges that are left out go on for as long as a receiver takes them.
struct Endless;

impl Change for Endless {
    fn head(&mut self, _begin: &mut BeginRecord, _order: ByteOrder) -> Result<(), StreamError> {
        Ok(())
    }

    fn record(
        &mut self,
        record: &mut Record,
        _payload: &mut Vec<u8>,
        _position: u64,
    ) -> Result<bool, StreamError> {
        if let Record::Redact(redact) = record
            && redact.length >= 131_072
        {
            redact.length = 131_072 << 31;
        }
        Ok(true)
    }
}

/// Receives a stream whose first range takes hours.
fn receive_endless(session: &Session, options: &str) -> Child {
    let sent = session.shell("$0 zfs send --redact book one/a@1", &[]);
    assert!(sent.status.success());
    let mut forged = Vec::new();
    stream::convert(&sent.stdout[..], &mut forged, &mut Endless).expect("a stream");
    let file = session.images().with_file_name("endless");
    fs::write(&file, forged).expect("written");
    let mut command = session.shell_command(&format!("exec $0 zfs receive {options} two/a < $1"));
    command.arg(path(&file)).stderr(Stdio::piped());
    let child = command.spawn().expect("sh runs");
    std::thread::sleep(Duration::from_millis(500));
    child
}

#[test]
fn a_range_without_end_is_stopped_like_any_stream() {
    let Some(mut session) = two_pools() else {
        return;
    };
    redact(&session);
    let mut child = receive_endless(&session, "-s");
    let refused = session.refused(&["zfs", "receive", "-A", "two/a"]);
    assert!(refused.contains("busy"), "{refused}");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    // What came is there to go on with, or to be given up.
    until("it is given up", || {
        let given_up = session.run(&["zfs", "receive", "-A", "two/a"]);
        given_up.status.success()
    });
    for (options, left) in [("-s", "two\ntwo/a\n"), ("", "two\n")] {
        let child = receive_endless(&session, options);
        session.ok(&["zpool", "export", "-f", "two"]);
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("the pool is about to be closed"), "{told}");
        session.import("two", &[]);
        assert_eq!(
            session.ok(&["zfs", "list", "-Hr", "-o", "name", "two"]),
            left
        );
        if !options.is_empty() {
            let token = value(&session, "two/a", "receive_resume_token");
            piped(&session, &format!("-t {token}"), "-s two/a");
            session.ok(&["zfs", "destroy", "-r", "two/a"]);
        }
    }
    session.export_clean("two");
}
