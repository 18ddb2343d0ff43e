//! `zfs receive`: what one pool sent is in the other as it was, what may not be received is refused as OpenZFS refuses
//! it, and a stream that breaks off leaves nothing, or what can go on.

use crate::patience::until;
use crate::session::{Session, path};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Output, Stdio};

/// Two pools, `one` with a file system of two snapshots: in the second, files changed, came and went.
fn two_pools() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("one", 192, &[]);
    session.create("two", 192, &["-O", "atime=off"]);
    session.ok(&["zfs", "create", "one/a"]);
    let root = session.mount("one/a");
    fs::create_dir(root.join("sub")).expect("a directory");
    for number in 0..200_u32 {
        let name = root.join("sub").join(format!("file-{number}"));
        fs::write(name, vec![number as u8; 100 * number as usize]).expect("a file");
    }
    fs::write(root.join("big"), noise(3_000_000)).expect("a file");
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    for number in 0..100_u32 {
        fs::remove_file(root.join("sub").join(format!("file-{number}"))).expect("it is there");
    }
    fs::write(root.join("new"), "new").expect("a file");
    let big = File::options().write(true).open(root.join("big"));
    std::os::unix::fs::FileExt::write_at(&big.expect("it is there"), b"changed", 1_000_000)
        .expect("a write");
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    Some(session)
}

pub(crate) fn noise(bytes: u64) -> Vec<u8> {
    let mut state = bytes;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// `zfs send SENT | zfs receive RECEIVED`, each as words of a line; how the second ended.
pub(crate) fn pipe(session: &Session, sent: &str, received: &str) -> Output {
    session.shell(
        &format!("$0 zfs send {sent} | $0 zfs receive {received}"),
        &[],
    )
}

/// The same, which must succeed; what it printed.
pub(crate) fn piped(session: &Session, sent: &str, received: &str) -> String {
    let output = pipe(session, sent, received);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sent} | {received}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same, which must be refused with these words.
pub(crate) fn refused(session: &Session, sent: &str, received: &str, text: &str) {
    let output = pipe(session, sent, received);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{sent} | {received}: {errors}"
    );
    assert!(errors.contains(text), "{sent} | {received}: {errors}");
}

/// What `zfs send` writes.
fn stream(session: &Session, sent: &str) -> Vec<u8> {
    let output = session.shell(&format!("$0 zfs send {sent}"), &[]);
    assert!(output.status.success(), "{sent}");
    output.stdout
}

/// Receives bytes.
fn given(session: &Session, bytes: &[u8], received: &str) -> Output {
    let file = session.images().with_file_name("stream");
    fs::write(&file, bytes).expect("a file");
    let script = format!("$0 zfs receive {received} < {}", path(&file));
    session.shell(&script, &[])
}

/// Whether two trees have the same files.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let output = std::process::Command::new("diff")
        .args(["-r", path(one), path(other)])
        .output()
        .expect("diff runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

fn snapshot_of(session: &Session, snapshot: &str) -> std::path::PathBuf {
    let (dataset, short) = snapshot.split_once('@').expect("a snapshot");
    session.mount(dataset).join(".zfs/snapshot").join(short)
}

fn names(session: &Session, pool: &str) -> Vec<String> {
    let told = session.ok(&["zfs", "list", "-H", "-r", "-t", "all", "-o", "name", pool]);
    told.lines().map(str::to_owned).collect()
}

#[test]
fn a_snapshot_and_what_changed_since_it_arrive() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let told = piped(&session, "one/a@1", "-v two/a");
    assert!(
        told.starts_with("receiving full stream of one/a@1 into two/a@1\nreceived "),
        "{told}"
    );
    assert!(
        told.contains("M stream in ") && told.ends_with("/sec)\n"),
        "{told}"
    );
    assert_same(&snapshot_of(&session, "one/a@1"), &session.mount("two/a"));
    let guid =
        |name: &str| session.ok(&["zfs", "get", "-Hp", "-o", "value", "guid,creation", name]);
    assert_eq!(guid("one/a@1"), guid("two/a@1"));
    // It is mounted, and somebody stands in it.
    let inside = session.mount("two/a").join("sub");
    assert_eq!(fs::read_dir(&inside).expect("a directory").count(), 200);
    let told = piped(&session, "-i @1 one/a@2", "-n -v two/a");
    assert_eq!(
        told,
        "would receive incremental stream of one/a@2 into two/a@2\n"
    );
    assert_eq!(names(&session, "two").len(), 3);
    let told = piped(&session, "-i @1 one/a@2", "-v two/a");
    assert!(
        told.starts_with("receiving incremental stream of one/a@2 into two/a@2\n"),
        "{told}"
    );
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    assert_same(
        &snapshot_of(&session, "one/a@1"),
        &snapshot_of(&session, "two/a@1"),
    );
    assert_eq!(fs::read_dir(&inside).expect("a directory").count(), 100);
    fs::write(inside.join("more"), "it can be written").expect("a file");
    let history = session.ok(&["zpool", "history", "two"]);
    assert!(history.contains("zfs receive -v two/a\n"), "{history}");
    // All between, of which the first is there.
    fs::remove_file(inside.join("more")).expect("it is there");
    session.ok(&["zfs", "snapshot", "one/a@3"]);
    session.ok(&["zfs", "snapshot", "one/a@4"]);
    let told = piped(&session, "-I @1 one/a@4", "-F -v two/a");
    assert!(
        told.starts_with("snap two/a@2 already exists; ignoring\n"),
        "{told}"
    );
    let expected = ["two", "two/a", "two/a@1", "two/a@2", "two/a@3", "two/a@4"];
    assert_eq!(names(&session, "two"), expected);
    session.export_clean("two");
    session.import("two", &[]);
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.export_clean("one");
    session.export_clean("two");
}

/// An object with several blocks becomes one of a single small block, whose size is no power of two: the levels above
/// stay. The file grows all the same.
#[test]
fn a_small_file_in_the_place_of_a_large_one_can_grow() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("one", 96, &[]);
    session.create("two", 96, &[]);
    session.ok(&["zfs", "create", "one/a"]);
    let file = |session: &Session, pool: &str| session.mount(&format!("{pool}/a")).join("file");
    let number =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("told"));
    fs::write(file(&session, "one"), noise(400_000)).expect("written");
    let before = number(&file(&session, "one"));
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    piped(&session, "one/a@1", "two/a");
    fs::remove_file(file(&session, "one")).expect("removed");
    // After an import the lowest number that is free is the next.
    session.export("one");
    session.import("one", &[]);
    fs::write(file(&session, "one"), noise(2_500)).expect("written");
    assert_eq!(number(&file(&session, "one")), before, "the same object");
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    piped(&session, "-i @1 one/a@2", "-F two/a");
    let received = file(&session, "two");
    assert_eq!(fs::read(&received).expect("read"), noise(2_500));
    fs::write(&received, noise(300_000)).expect("written");
    session.export_clean("two");
    session.import("two", &[]);
    assert_eq!(fs::read(&received).expect("read"), noise(300_000));
    session.export_clean("two");
    session.export("one");
}

#[test]
fn what_may_not_be_received_is_refused() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "snapshot", "one/a@3"]);
    refused(
        &session,
        "-i @1 one/a@2",
        "two/a",
        "cannot receive incremental stream: destination 'two/a' does not exist\n",
    );
    refused(
        &session,
        "one/a@1",
        "two/no/a",
        "cannot receive new filesystem stream: destination 'two/no' does not exist\n",
    );
    refused(
        &session,
        "one/a@1",
        "-d two/no",
        "cannot receive: specified fs (two/no) does not exist\n",
    );
    piped(&session, "one/a@1", "two/a");
    refused(
        &session,
        "one/a@1",
        "two/a",
        "cannot receive new filesystem stream: destination 'two/a' exists\nmust specify -F to overwrite it\n",
    );
    refused(
        &session,
        "one/a@1",
        "-F two/a",
        "cannot receive new filesystem stream: destination has snapshots (eg. two/a@1)\n\
         must destroy them to overwrite it\n",
    );
    refused(
        &session,
        "-i @2 one/a@3",
        "two/a",
        "cannot receive incremental stream: most recent snapshot of two/a does not\nmatch incremental source\n",
    );
    let added = session.mount("two/a").join("added");
    fs::write(&added, "by somebody").expect("a file");
    refused(
        &session,
        "-i @1 one/a@2",
        "two/a",
        "cannot receive incremental stream: destination two/a has been modified\nsince most recent snapshot\n",
    );
    assert!(added.exists());
    piped(&session, "-i @1 one/a@2", "-F two/a");
    assert!(!added.exists());
    refused(
        &session,
        "-i @1 one/a@2",
        "two/a",
        "cannot restore to two/a@2: destination already exists\n",
    );
    session.export_clean("two");
}

#[test]
fn what_is_no_stream_is_refused() {
    let Some(mut session) = two_pools() else {
        return;
    };
    for (bytes, text) in [
        (&b""[..], "cannot receive: failed to read from stream\n"),
        (
            &[7; 4096],
            "cannot receive: invalid stream (bad magic number)\n",
        ),
    ] {
        let output = given(&session, bytes, "two/x");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), text);
    }
    let errors = session.refused(&["zfs", "receive", "-A", "two"]);
    assert_eq!(
        errors,
        "'two' does not have any resumable receive state to abort\n"
    );
    let output = session.run(&["zfs", "receive"]);
    assert_eq!(output.status.code(), Some(2));
    if let Some(output) = session.as_user(12_345, &["zfs", "receive", "two/b"]) {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors, "cannot receive 'two/b': permission denied\n");
    }
    session.export_clean("two");
}

#[test]
fn names_and_properties_are_as_the_flags_say() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "create", "two/b"]);
    piped(&session, "one/a@1", "-d -u two/b");
    piped(
        &session,
        "one/a@1",
        "-e -o compression=off -o user:x=y -x recordsize two/b/a",
    );
    piped(&session, "one/a@1", "two/c@other");
    let expected = [
        "two",
        "two/b",
        "two/b/a",
        "two/b/a@1",
        "two/b/a/a",
        "two/b/a/a@1",
        "two/c",
        "two/c@other",
    ];
    let mut found = names(&session, "two");
    found.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    let told = session.ok(&[
        "zfs",
        "get",
        "-H",
        "-o",
        "value,source",
        "compression,user:x",
        "two/b/a/a",
    ]);
    assert_eq!(told, "off\tlocal\ny\tlocal\n");
    let told = session.ok(&[
        "zfs",
        "get",
        "-H",
        "-o",
        "value",
        "mounted",
        "two/b/a",
        "two/b/a/a",
    ]);
    assert_eq!(told, "no\nyes\n");
    // A clone, and a full stream as a clone.
    session.ok(&["zfs", "clone", "one/a@1", "one/c"]);
    fs::write(session.mount("one/c").join("own"), "own").expect("a file");
    session.ok(&["zfs", "snapshot", "one/c@1"]);
    refused(
        &session,
        "-i one/a@2 one/c@1",
        "two/d",
        "cannot receive: failed to read from stream",
    );
    piped(&session, "-i one/a@1 one/c@1", "two/d");
    piped(&session, "one/a@2", "-o origin=two/c@other two/e");
    let told = session.ok(&[
        "zfs", "get", "-H", "-o", "value", "origin", "two/d", "two/e",
    ]);
    assert!(told.ends_with("\ntwo/c@other\n"), "{told}");
    assert_same(&session.mount("one/c"), &session.mount("two/d"));
    assert_same(&session.mount("one/a"), &session.mount("two/e"));
    // The place of a file system without snapshots, and of the pool's own.
    session.ok(&["zfs", "create", "two/f"]);
    fs::write(session.mount("two/f").join("gone"), "soon").expect("a file");
    piped(&session, "one/a@2", "-F two/f");
    assert_same(&session.mount("one/a"), &session.mount("two/f"));
    session.export_clean("two");
    session.export_clean("one");
}

/// Numbers without a pattern that are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn a_damaged_stream_leaves_nothing() {
    let Some(mut session) = two_pools() else {
        return;
    };
    piped(&session, "one/a@1", "two/a");
    let (full, step) = (
        stream(&session, "one/a@2"),
        stream(&session, "-i @1 one/a@2"),
    );
    let before = names(&session, "two");
    let mut chance = Chance(5);
    for round in 0..8 {
        for (bytes, received) in [(&full, "two/b"), (&step, "two/a")] {
            let mut cut = bytes.clone();
            cut.truncate(chance.below(bytes.len()));
            let mut flipped = bytes.clone();
            flipped[chance.below(bytes.len())] ^= 1 << round;
            for damaged in [cut, flipped] {
                let output = given(&session, &damaged, received);
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "round {round}: {errors}");
                assert!(
                    errors.starts_with("cannot receive"),
                    "round {round}: {errors}"
                );
                assert_eq!(names(&session, "two"), before, "round {round}: {errors}");
            }
        }
        assert_same(&snapshot_of(&session, "one/a@1"), &session.mount("two/a"));
    }
    session.export_clean("two");
    session.import("two", &[]);
    assert!(given(&session, &step, "two/a").status.success());
    assert!(given(&session, &full, "two/b").status.success());
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    assert_same(&session.mount("one/a"), &session.mount("two/b"));
    session.export_clean("two");
}

#[test]
fn a_receive_under_way_is_in_nobodys_way() {
    let Some(mut session) = two_pools() else {
        return;
    };
    piped(&session, "one/a@1", "two/a");
    let step = stream(&session, "-i @1 one/a@2");
    for force in [false, true] {
        let mut command = session.command(&["zfs", "receive", "two/a"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut input = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut input, &step[..step.len() / 2]).expect("it is read");
        let begins = if force { "finish receiving" } else { "%recv" };
        until("it begins", || {
            session
                .ok(&["zpool", "history", "-i", "two"])
                .contains(begins)
        });
        let errors = session.refused(&["zpool", "export", "two"]);
        assert!(errors.contains("pool is busy"), "{errors}");
        let errors = session.refused(&["zfs", "destroy", "-r", "two/a"]);
        assert!(errors.contains("busy"), "{errors}");
        // Others change the pool meanwhile, and the file system is there.
        session.ok(&["zfs", "create", &format!("two/other-{force}")]);
        assert!(session.mount("two/a").join("big").exists());
        if force {
            session.ok(&["zpool", "export", "-f", "two"]);
            drop(input);
            let output = child.wait_with_output().expect("it ends");
            assert_eq!(output.status.code(), Some(1));
        } else {
            std::io::Write::write_all(&mut input, &step[step.len() / 2..]).expect("it is read");
            drop(input);
            let output = child.wait_with_output().expect("it ends");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            session.ok(&["zfs", "rollback", "-r", "two/a@1"]);
        }
    }
    session.import("two", &[]);
    assert!(!names(&session, "two").contains(&"two/a@2".to_owned()));
    assert!(given(&session, &step, "two/a").status.success());
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.export_clean("two");
}

#[test]
fn what_was_received_in_part_is_sent_on() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.create("three", 192, &["-O", "atime=off"]);
    let token = |name: &str| {
        let line = ["zfs", "get", "-Ho", "value", "receive_resume_token", name];
        session.ok(&line).trim().to_owned()
    };
    let place = |name: &str| {
        let told = session.ok(&["zstream", "token", &token(name)]);
        let wanted = |line: &&str| {
            ["object", "offset", "guid"]
                .iter()
                .any(|word| line.contains(word))
        };
        told.lines().filter(wanted).collect::<Vec<_>>().join("\n")
    };
    refused(
        &session,
        "-S one/a",
        "three/a",
        "failed to read from stream",
    );
    for sent in ["one/a@1", "-i @1 one/a@2"] {
        let mut whole = stream(&session, sent);
        whole.truncate(whole.len() * 2 / 3);
        let cut = given(&session, &whole, "-s two/a");
        assert!(!cut.status.success());
        // It has no end: what has come is kept, up to the same place.
        let on = pipe(&session, "-S two/a", "-s three/a");
        assert_eq!(on.status.code(), Some(1));
        assert!(
            String::from_utf8_lossy(&on.stderr).contains("Partially received snapshot is saved")
        );
        assert_eq!(place("two/a"), place("three/a"));
        for pool in ["two/a", "three/a"] {
            piped(
                &session,
                &format!("-t {}", token(pool)),
                &format!("-s {pool}"),
            );
        }
        assert_same(&session.mount("two/a"), &session.mount("three/a"));
    }
    assert_same(&session.mount("one/a"), &session.mount("three/a"));
    session.export_clean("two");
    session.export_clean("three");
}
