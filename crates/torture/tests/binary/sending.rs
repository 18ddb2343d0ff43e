//! `zfs send`: what OpenZFS sent of a pool is sent byte for byte, and a stream that is under way is in nobody's way.

use crate::patience::until;
use crate::session::Session;
use format::NvList;
use format::nvlist::Value;
use format::stream::FLAG_CLONE;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use stream::{Part, Reader, Record, ResumeToken, begin_name, decode_list};

/// What a command writes to its standard output.
pub(crate) fn sent(session: &Session, arguments: &[&str]) -> Vec<u8> {
    let output = session.run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output.stdout
}

/// The records of a whole stream: how many there are of each kind.
fn count(bytes: &[u8], kind: &str) -> usize {
    let mut reader = Reader::new(bytes);
    let mut payload = Vec::new();
    let mut found = 0;
    while let Some(item) = reader.next(&mut payload).expect("a whole stream") {
        found += usize::from(item.record.name() == kind);
    }
    assert_eq!(reader.position(), bytes.len() as u64);
    found
}

#[test]
fn streams_are_those_of_openzfs() {
    let Some(golden) = golden::pool("streams") else {
        return;
    };
    let Some(mut session) = Session::new() else {
        return;
    };
    session.bring(&golden.images());
    session.import("gst", &["-N", "-f", "-o", "readonly=on"]);
    for (file, arguments) in [
        ("full.stream", &["gst/src@1"][..]),
        ("incr.stream", &["-i", "@1", "gst/src@2"]),
        ("incr.stream", &["-i", "gst/src@1", "gst/src@2"]),
        ("multi.stream", &["-I", "@1", "gst/src@3"]),
        ("replicate.stream", &["-R", "gst/src@3"]),
        ("compressed.stream", &["-c", "-L", "-e", "gst/src@2"]),
    ] {
        let expected = fs::read(golden.folder.join(file)).expect("the stream is there");
        let stream = sent(&session, &[&["zfs", "send"], arguments].concat());
        assert!(stream == expected, "{arguments:?} is not {file}");
    }
    // In a pool that nobody writes a file system can be sent as it is.
    let head = sent(&session, &["zfs", "send", "gst/src"]);
    assert_eq!(count(&head, "END"), 1);
    session.export("gst");
}

/// A pool with a file system of two snapshots; the second has `big` that the first has not.
fn pool_with_snapshots() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("tank", 256, &[]);
    session.ok(&["zfs", "create", "-o", "compression=off", "tank/a"]);
    let root = session.mount("tank/a");
    fs::write(root.join("small"), "small").expect("a file");
    session.ok(&["zfs", "snapshot", "tank/a@one"]);
    session.ok(&["zfs", "bookmark", "tank/a@one", "tank/a#mark"]);
    let noise: Vec<u8> = (0..40_000_000_u64).map(|at| (at * at / 77) as u8).collect();
    fs::write(root.join("big"), noise).expect("a file");
    session.ok(&["zfs", "snapshot", "tank/a@two"]);
    Some(session)
}

/// The words are OpenZFS's: only where many streams may come is the source's own name enough.
#[test]
fn what_a_stream_comes_to_is_told_as_openzfs_tells_it() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    for (flags, source, target) in [
        (
            &["-nv", "-i"][..],
            "@one",
            "send from tank/a@one to tank/a@two estimated",
        ),
        (
            &["-nv", "-p", "-i"],
            "@one",
            "send from tank/a@one to tank/a@two estimated",
        ),
        (
            &["-nvP", "-h", "-i"],
            "@one",
            "incremental\ttank/a@one\ttank/a@two\t",
        ),
        (
            &["-nv", "-R", "-i"],
            "@one",
            "send from @one to tank/a@two estimated",
        ),
        (
            &["-nvP", "-R", "-i"],
            "@one",
            "incremental\tone\ttank/a@two\t",
        ),
        (
            &["-nv", "-I"],
            "one",
            "send from @one to tank/a@two estimated",
        ),
        (
            &["-nvP", "-p", "-i"],
            "#mark",
            "incremental\ttank/a#mark\ttank/a@two\t",
        ),
    ] {
        let words = [&["zfs", "send"], flags, &[source, "tank/a@two"]].concat();
        let told = session.ok(&words);
        assert!(told.starts_with(target), "{words:?}: {told}");
    }
    // A source without `@` or `#` is taken for a snapshot, and that is said.
    let bare = session.run(&["zfs", "send", "-n", "-i", "one", "tank/a@two"]);
    let said = String::from_utf8_lossy(&bare.stderr);
    assert!(bare.status.success(), "{bare:?}");
    assert!(
        said.starts_with("Warning: incremental source didn't specify type, assuming snapshot."),
        "{said}"
    );
    // Raw is compressed, encrypted or not.
    session.ok(&["zfs", "create", "-o", "compression=lz4", "tank/small"]);
    let text = "again and again ".repeat(100_000);
    fs::write(session.mount("tank/small").join("text"), text).expect("a file");
    session.ok(&["zfs", "snapshot", "tank/small@s"]);
    let sizes = ["-c", "-w", "-L"].map(|flag| {
        let told = session.ok(&["zfs", "send", "-nP", flag, "tank/small@s"]);
        told.rsplit('\t')
            .next()
            .and_then(|size| size.trim_end().parse::<u64>().ok())
            .expect("a number")
    });
    assert_eq!(sizes[0], sizes[1]);
    assert!(sizes[0] < sizes[2], "{sizes:?}");
    session.export_clean("tank");
}

#[test]
fn what_is_sent_is_what_was_asked_for() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    let full = sent(&session, &["zfs", "send", "tank/a@two"]);
    assert!(
        full.len() > 40_000_000 && full.len() < 41_000_000,
        "{}",
        full.len()
    );
    let step = sent(&session, &["zfs", "send", "-i", "@one", "tank/a@two"]);
    assert!(count(&step, "WRITE") < count(&full, "WRITE"));
    let same = sent(&session, &["zfs", "send", "-i", "#mark", "tank/a@two"]);
    assert!(same == step, "from a bookmark it is the same");
    let empty = sent(
        &session,
        &["zfs", "send", "-i", "tank/a@one", "-n", "tank/a@two"],
    );
    assert!(empty.is_empty());

    let told = session.ok(&["zfs", "send", "-nv", "tank/a@two"]);
    assert!(
        told.starts_with("full send of tank/a@two estimated size is 38.3M\n"),
        "{told}"
    );
    assert!(told.ends_with("total estimated size is 38.3M\n"), "{told}");
    let told = session.ok(&["zfs", "send", "-nvP", "-I", "@one", "tank/a@two"]);
    let lines: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines[0][..3], ["incremental", "one", "tank/a@two"]);
    let size: u64 = lines[0][3].parse().expect("a number");
    assert!(
        size.abs_diff(step.len() as u64) < 200_000,
        "{told} of {}",
        step.len()
    );
    assert_eq!(lines[1], ["size", lines[0][3]]);

    for (arguments, text) in [
        (
            &["-i", "@two", "tank/a@one"][..],
            "cannot send 'tank/a@one': not an earlier snapshot from the same fs",
        ),
        (
            &["-i", "@none", "tank/a@one"],
            "incremental source (tank/a@none) does not exist",
        ),
        (&["tank/a@none"], "dataset does not exist"),
        (&["tank/a"], "only a snapshot can be sent"),
    ] {
        let errors = session.refused(&[&["zfs", "send"], arguments].concat());
        assert!(errors.contains(text), "{arguments:?}: {errors}");
    }
    if let Some(output) = session.as_user(12_345, &["zfs", "send", "tank/a@one"]) {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("permission denied"),
            "{errors}"
        );
        assert!(output.stdout.is_empty());
    }
    session.export("tank");
}

/// The data of a stream's blocks: object, offset, bytes.
fn written(bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut reader = Reader::new(bytes);
    let mut payload = Vec::new();
    let mut found = Vec::new();
    while let Some(item) = reader.next(&mut payload).expect("a whole stream") {
        if let Record::Write(write) = item.record {
            found.push((write.object.0, write.offset, payload.clone()));
        }
    }
    found
}

#[test]
fn large_blocks_are_cut_unless_they_may_go() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create(
        "tank",
        128,
        &["-O", "recordsize=1M", "-O", "compression=off"],
    );
    // Of one block that is no multiple of the pieces, and of several blocks.
    let data = |bytes: u32| {
        (0..bytes)
            .map(|at| (at / 3 % 251) as u8)
            .collect::<Vec<u8>>()
    };
    let files = [("one", data(300_032)), ("more", data(3 << 20))];
    for (name, data) in &files {
        fs::write(session.mount("tank").join(name), data).expect("a file");
    }
    session.ok(&["zfs", "snapshot", "tank@s"]);
    for (arguments, longest) in [
        (&["zfs", "send", "tank@s"][..], 128 << 10),
        (&["zfs", "send", "-L", "tank@s"], 1 << 20),
    ] {
        let blocks = written(&sent(&session, arguments));
        let lengths = blocks.iter().map(|(_, _, data)| data.len());
        assert_eq!(lengths.max(), Some(longest), "{arguments:?}");
        for (name, data) in &files {
            let whole = |object: u64| {
                let own = blocks.iter().filter(|block| block.0 == object);
                own.flat_map(|block| block.2.clone()).collect::<Vec<u8>>()
            };
            let is_there = blocks.iter().any(|block| whole(block.0) == *data);
            assert!(is_there, "{arguments:?}: {name} is not whole");
        }
    }
    session.export("tank");
}

#[test]
fn a_clone_starts_from_its_origin() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    session.ok(&["zfs", "clone", "tank/a@one", "tank/c"]);
    fs::write(session.mount("tank/c").join("own"), "own").expect("a file");
    session.ok(&["zfs", "snapshot", "tank/c@s"]);
    let stream = sent(&session, &["zfs", "send", "-i", "tank/a@one", "tank/c@s"]);
    let mut payload = Vec::new();
    let first = Reader::new(&stream[..])
        .next(&mut payload)
        .expect("a stream");
    let Some(Record::Begin(begin)) = first.map(|item| item.record) else {
        panic!("no BEGIN");
    };
    assert_eq!(begin.flags & 1, 1, "it is a clone's");
    let errors = session.refused(&["zfs", "send", "-i", "tank/a@two", "tank/c@s"]);
    assert!(errors.contains("not an earlier snapshot"), "{errors}");
    session.export("tank");
}

/// With properties as well as without: an increment from a bookmark, and a clone from a snapshot of what it was
/// made of.
#[test]
fn a_package_of_one_starts_from_what_was_named() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    let to = |session: &Session, words: &[&str], into: &str| {
        let stream = session.images().join("stream");
        let bytes = sent(session, words);
        fs::write(&stream, &bytes).expect("written");
        let receive = format!("\"$0\" zfs receive {into} < {}", stream.display());
        let received = session.shell(&receive, &[]);
        assert!(received.status.success(), "{words:?}: {received:?}");
        bytes.len()
    };
    let value = |session: &Session, name: &str, of: &str| {
        let told = session.ok(&["zfs", "get", "-Ho", "value", name, of]);
        told.trim_end().to_owned()
    };
    session.ok(&["zfs", "set", "my:own=text", "tank/a"]);
    to(&session, &["zfs", "send", "tank/a@one"], "tank/copy");
    session.ok(&["zfs", "destroy", "tank/a@one"]);
    let words = ["zfs", "send", "-p", "-i", "#mark", "tank/a@two"];
    to(&session, &words, "tank/copy");
    assert_eq!(value(&session, "my:own", "tank/copy"), "text");
    let big = |name| fs::read(session.mount(name).join("big")).expect("read");
    assert!(big("tank/a") == big("tank/copy"));

    session.ok(&["zfs", "clone", "tank/a@two", "tank/clone"]);
    session.ok(&["zfs", "set", "my:own=clone", "tank/clone"]);
    for name in ["between", "last"] {
        fs::write(session.mount("tank/clone").join(name), name).expect("written");
        session.ok(&["zfs", "snapshot", &format!("tank/clone@{name}")]);
    }
    for (flag, into, snapshots) in [("-i", "tank/cloned", 1), ("-I", "tank/all", 2)] {
        let words = ["zfs", "send", "-p", flag, "tank/a@two", "tank/clone@last"];
        let length = to(&session, &words, into);
        assert!(length < 1_000_000, "{flag}: {length}");
        assert!(value(&session, "origin", into).ends_with("@two"));
        assert_eq!(value(&session, "my:own", into), "clone");
        let list = session.ok(&["zfs", "list", "-Ht", "snapshot", "-o", "name", into]);
        assert_eq!(list.lines().count(), snapshots, "{list}");
        assert!(session.mount(into).join("last").exists());
    }
    session.export_clean("tank");
}

#[test]
fn the_rest_of_a_stream_follows_from_a_token() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    let full = sent(&session, &["zfs", "send", "tank/a@two"]);
    let mut reader = Reader::new(&full[..]);
    let mut payload = Vec::new();
    let mut writes = Vec::new();
    let mut guid = None;
    while let Some(item) = reader.next(&mut payload).expect("a whole stream") {
        match item.record {
            Record::Begin(begin) => guid = Some(begin.to_guid),
            Record::Write(write) => writes.push((write.object, write.offset)),
            _ => {}
        }
    }
    let (object, offset) = writes[writes.len() / 2];
    let token = ResumeToken {
        to_guid: guid.expect("a BEGIN"),
        to_name: b"tank/a@two".to_vec(),
        object,
        offset,
        bytes: 1,
        ..ResumeToken::default()
    };
    // Tools read what they go on with from here.
    let told = session.ok(&["zfs", "send", "-n", "-v", "-t", &token.encode()]);
    let head = format!(
        "resume token contents:\nnvlist version: 0\n\tobject = {:#x}\n",
        object.0
    );
    assert!(told.starts_with(&head), "{told}");
    assert!(told.contains("\n\ttoname = tank/a@two\n"), "{told}");
    let rest = sent(&session, &["zfs", "send", "-t", &token.encode()]);
    let mut reader = Reader::new(&rest[..]);
    let mut found = Vec::new();
    while let Some(item) = reader.next(&mut payload).expect("a whole stream") {
        match item.record {
            Record::Begin(_) => assert!(!payload.is_empty(), "BEGIN says where it goes on"),
            Record::Write(write) => found.push((write.object, write.offset)),
            _ => {}
        }
    }
    assert_eq!(found, writes[writes.len() / 2..]);
    let errors = session.refused(&["zfs", "send", "-t", "1-0-0-00"]);
    assert!(
        errors.contains("cannot resume send: resume token is corrupt"),
        "{errors}"
    );
    session.export("tank");
}

/// A send that has filled its pipe and waits.
fn stuck(session: &Session) -> Child {
    let mut command = session.command(&["zfs", "send", "tank/a@two"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 312];
    child
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut first)
        .expect("a BEGIN");
    child
}

/// Waits for a command; what it said.
fn ended(mut child: Child) -> String {
    until("it ends", || {
        child.try_wait().expect("it can be waited for").is_some()
    });
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_stream_under_way_is_in_nobodys_way() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    let child = stuck(&session);
    let errors = session.refused(&["zfs", "destroy", "tank/a@two"]);
    assert!(errors.contains("dataset is busy"), "{errors}");
    let errors = session.refused(&["zpool", "export", "tank"]);
    assert!(errors.contains("pool is busy"), "{errors}");
    // Others change the pool meanwhile.
    session.ok(&["zfs", "snapshot", "tank/a@three"]);
    session.ok(&["zfs", "destroy", "tank/a@one"]);

    // Who reads the stream goes: so does the command, and the daemon goes on.
    let mut child = child;
    drop(child.stdout.take());
    let errors = ended(child);
    assert!(errors.contains("cannot send 'tank/a@two'"), "{errors}");

    // The command goes.
    let mut child = stuck(&session);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    until("the daemon sends no more", || {
        let destroyed = session.run(&["zfs", "destroy", "tank/a@two"]);
        destroyed.status.success()
    });
    session.export_clean("tank");
}

#[test]
fn a_forced_export_ends_a_stream() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    let child = stuck(&session);
    session.ok(&["zpool", "export", "-f", "tank"]);
    ended(child);
    session.import("tank", &[]);
    let file = session.images().join("stream");
    let output = session
        .command(&["zfs", "send", "tank/a@two"])
        .stdout(File::create(&file).expect("a file"))
        .output()
        .expect("it runs");
    assert!(output.status.success());
    assert_eq!(
        count(&fs::read(Path::new(&file)).expect("a stream"), "END"),
        1
    );
    fs::remove_file(&file).expect("removed");
    session.export_clean("tank");
}

/// The list at the head of a package.
fn package_of(bytes: &[u8]) -> NvList {
    let mut payload = Vec::new();
    let first = Reader::new(bytes).next(&mut payload).expect("a package");
    assert_eq!(first.expect("a head").part, Part::Package);
    decode_list(&payload).expect("a list").expect("a list")
}

/// The streams of a package: snapshot, whether from an earlier one, whether a clone's.
fn streams_of(bytes: &[u8]) -> Vec<(String, bool, bool)> {
    let mut reader = Reader::new(bytes);
    let mut payload = Vec::new();
    let mut found = Vec::new();
    while let Some(item) = reader.next(&mut payload).expect("a whole package") {
        if let (Part::Substream, Record::Begin(begin)) = (item.part, item.record) {
            let name = String::from_utf8_lossy(begin_name(&begin)).into_owned();
            found.push((name, begin.from_guid.0 != 0, begin.flags & FLAG_CLONE != 0));
        }
    }
    found
}

/// A pool with a tree of file systems, one of them a clone.
fn pool_with_tree() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("tank", 128, &[]);
    for arguments in [
        &[
            "zfs",
            "create",
            "-o",
            "compression=zstd",
            "-o",
            "my:own=text",
            "tank/a",
        ][..],
        &["zfs", "create", "-o", "quota=50M", "tank/a/b"],
        &["zfs", "snapshot", "-r", "tank/a@one"],
        &["zfs", "clone", "tank/a/b@one", "tank/a/aclone"],
        &["zfs", "create", "tank/a/late"],
        &["zfs", "snapshot", "-r", "tank/a@two"],
        &["zfs", "snapshot", "tank/a@three"],
    ] {
        session.ok(arguments);
    }
    Some(session)
}

fn stream(name: &str, step: bool, clone: bool) -> (String, bool, bool) {
    (name.to_owned(), step, clone)
}

#[test]
fn a_package_has_all_below() {
    let Some(mut session) = pool_with_tree() else {
        return;
    };
    let whole = sent(&session, &["zfs", "send", "-R", "tank/a@two"]);
    let mut found = streams_of(&whole);
    let first = [
        stream("tank/a@one", false, false),
        stream("tank/a@two", true, false),
    ];
    assert_eq!(found[..2], first);
    let place = |name: &str| {
        found
            .iter()
            .position(|one| one.0 == name)
            .expect("it is sent")
    };
    let clone = place("tank/a/aclone@two");
    assert!(
        clone > place("tank/a/b@one"),
        "a clone comes after its origin"
    );
    assert_eq!(found[clone], stream("tank/a/aclone@two", true, true));
    found.sort();
    let names: Vec<&str> = found.iter().map(|one| one.0.as_str()).collect();
    let all = [
        "tank/a/aclone@two",
        "tank/a/b@one",
        "tank/a/b@two",
        "tank/a/late@two",
        "tank/a@one",
        "tank/a@two",
    ];
    assert_eq!(names, all);

    // From an earlier snapshot: what is new below comes whole, a clone from its origin.
    let step = sent(&session, &["zfs", "send", "-R", "-i", "@one", "tank/a@two"]);
    let mut found = streams_of(&step);
    found.sort();
    let expected = [
        stream("tank/a/aclone@two", true, true),
        stream("tank/a/b@two", true, false),
        stream("tank/a/late@two", false, false),
        stream("tank/a@two", true, false),
    ];
    assert_eq!(found, expected);
    assert_eq!(package_of(&step).str("fromsnap"), Some("one"));

    let errors = session.refused(&["zfs", "send", "-R", "tank/a@three"]);
    assert!(errors.contains("@three does not exist"), "{errors}");
    // What was made after the snapshot cannot have it, and is left out.
    let old = sent(&session, &["zfs", "send", "-R", "tank/a@one"]);
    let names: Vec<String> = streams_of(&old).into_iter().map(|one| one.0).collect();
    assert_eq!(names, ["tank/a@one", "tank/a/b@one"]);
    let some = sent(&session, &["zfs", "send", "-R", "-s", "tank/a@three"]);
    let is_top = |one: &(String, bool, bool)| one.0.starts_with("tank/a@");
    assert!(streams_of(&some).iter().all(is_top));
    let without = "tank/a/late,tank/a/aclone";
    let some = sent(
        &session,
        &["zfs", "send", "-R", "-X", without, "tank/a@two"],
    );
    assert_eq!(streams_of(&some).len(), 4);
    session.export("tank");
}

#[test]
fn a_package_tells_properties_and_relations() {
    let Some(mut session) = pool_with_tree() else {
        return;
    };
    let whole = sent(&session, &["zfs", "send", "-R", "tank/a@two"]);
    let list = package_of(&whole);
    assert_eq!(
        (list.str("tosnap"), list.str("fromsnap")),
        (Some("two"), None)
    );
    let systems = list.list("fss").expect("file systems");
    let of = |name: &str| {
        let mut all = systems.iter().filter_map(|(_, value)| match value {
            Value::List(system) => Some(system),
            _ => None,
        });
        all.find(|one| one.str("name") == Some(name))
            .expect("it is there")
    };
    let properties = |name: &str| of(name).list("props").expect("properties");
    assert_eq!(properties("tank/a").str("my:own"), Some("text"));
    assert!(properties("tank/a").u64("compression").is_some());
    assert_eq!(properties("tank/a/b").u64("quota"), Some(50 << 20));
    let top = of("tank/a").list("snaps").expect("snapshots");
    assert_eq!(
        (top.len(), of("tank/a").u64("parentfromsnap")),
        (2, Some(0))
    );
    assert_eq!(of("tank/a/b").u64("parentfromsnap"), top.u64("two"));
    let snapshots = of("tank/a/b").list("snaps").expect("snapshots");
    assert_eq!(of("tank/a/aclone").u64("origin"), snapshots.u64("one"));

    // One file system with its properties.
    let one = sent(&session, &["zfs", "send", "-p", "tank/a@two"]);
    assert_eq!(streams_of(&one), [stream("tank/a@two", false, false)]);
    assert!(package_of(&one).contains("not_recursive"));
    // OpenZFS's tells where it begins only if there may be several streams.
    for (step, from) in [("-i", None), ("-I", Some("one"))] {
        let of_one = sent(&session, &["zfs", "send", "-p", step, "@one", "tank/a@two"]);
        assert_eq!(package_of(&of_one).str("fromsnap"), from);
    }
    session.export("tank");
}

/// What OpenZFS's receiver asserts of a package: where a dataset has a list by snapshots, each snapshot has one in it.
#[test]
fn each_snapshot_of_a_package_has_its_properties_and_holds_if_only_none() {
    let Some(mut session) = pool_with_snapshots() else {
        return;
    };
    session.ok(&["zfs", "hold", "keep", "tank/a@two"]);
    let package = sent(
        &session,
        &["zfs", "send", "-h", "-R", "-I", "@one", "tank/a@two"],
    );
    let list = package_of(&package);
    let names = |of: &NvList, key: &str| -> Vec<Vec<u8>> {
        let found = of.list(key).expect("a list of snapshots");
        found.iter().map(|(name, _)| name.to_vec()).collect()
    };
    let mut held = 0;
    for (_, system) in list.list("fss").expect("datasets").iter() {
        let Value::List(system) = system else {
            panic!("a dataset is no list");
        };
        let snapshots = names(system, "snaps");
        assert!(!snapshots.is_empty());
        assert_eq!(names(system, "snapprops"), snapshots);
        assert_eq!(names(system, "snapholds"), snapshots);
        let holds = system.list("snapholds").expect("holds");
        let tags =
            |(_, tags): &(&[u8], &Value)| matches!(tags, Value::List(list) if !list.is_empty());
        held += holds.iter().filter(tags).count();
    }
    assert_eq!(held, 1);
    session.ok(&["zfs", "release", "keep", "tank/a@two"]);
    session.export("tank");
}
