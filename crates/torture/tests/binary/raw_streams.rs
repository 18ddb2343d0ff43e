//! Raw streams: encrypted file systems go to and fro between two pools without their key, and are what they were to who
//! has it.

use crate::receiving::{assert_same, pipe, piped, refused};
use crate::session::{Session, path};
use millpond_torture::random::{Random, seed};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PASSPHRASE: &str = "correct horse battery\n";

/// Two pools, `one` with an encrypted file system.
fn two_pools() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("one", 192, &["-O", "atime=off"]);
    session.create("two", 192, &["-O", "atime=off"]);
    encrypted(&session, "one/a");
    Some(session)
}

fn encrypted(session: &Session, name: &str) {
    let options = ["-o", "encryption=on", "-o", "keyformat=passphrase"];
    let made = session.given(
        PASSPHRASE,
        &[&["zfs", "create"], &options[..], &[name]].concat(),
    );
    assert!(made.status.success(), "{made:?}");
}

fn load(session: &Session, name: &str) {
    let loaded = session.given(PASSPHRASE, &["zfs", "load-key", name]);
    assert!(loaded.status.success(), "{loaded:?}");
    session.ok(&["zfs", "mount", name]);
}

/// Files come, go, grow, are cut, get holes and attributes.
fn change(root: &Path, random: &mut Random) {
    let mut files: Vec<PathBuf> = fs::read_dir(root)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    for _ in 0..60 {
        let file = files.get(random.below(files.len())).cloned();
        let bytes = |random: &mut Random| -> Vec<u8> {
            let count = *random.pick(&[1_usize, 600, 5_000, 140_000, 400_000]);
            let noise = random.one_in(2);
            let byte = |index: usize| {
                if noise {
                    random.draw() as u8
                } else {
                    index as u8
                }
            };
            (0..count).map(byte).collect()
        };
        match (random.below(8), file) {
            (0..=2, _) | (_, None) => {
                let name = format!("{}-{}", random.draw(), "x".repeat(random.below(200)));
                fs::write(root.join(&name), bytes(random)).expect("a file");
                files.push(root.join(name));
            }
            (3, Some(file)) => {
                fs::remove_file(&file).expect("it is there");
                files.retain(|other| *other != file);
            }
            (4, Some(file)) => {
                let open = File::options()
                    .write(true)
                    .open(&file)
                    .expect("it is there");
                open.set_len(random.below(500_000) as u64)
                    .expect("another size");
            }
            (5, Some(file)) => {
                let value = vec![7_u8; *random.pick(&[5, 900, 9_000])];
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&file, "user.own", &value, flags).expect("an attribute");
            }
            (_, Some(file)) => {
                let open = File::options()
                    .write(true)
                    .open(&file)
                    .expect("it is there");
                let offset = random.below(3_000_000) as u64;
                open.write_all_at(&bytes(random), offset).expect("a write");
            }
        }
    }
}

#[test]
fn to_and_fro_twice() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let seed = seed(77);
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test binary -- raw_streams"
    );
    let mut random = Random::new(seed);
    let (here, there) = (session.mount("one/a"), session.mount("two/a"));
    change(&here, &mut random);
    session.ok(&["zfs", "snapshot", "one/a@0"]);
    change(&here, &mut random);
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    piped(&session, "-w one/a@0", "-v two/a");
    piped(&session, "-w -i @0 one/a@1", "two/a");
    let told = session.ok(&[
        "zfs",
        "get",
        "-Ho",
        "value",
        "keystatus,encryptionroot",
        "two/a",
    ]);
    assert_eq!(told, "unavailable\ntwo/a\n");
    for round in 1..=2 {
        load(&session, "two/a");
        assert_same(&here, &there);
        change(&there, &mut random);
        let (from, to) = (format!("@{}", 2 * round - 1), 2 * round);
        session.ok(&["zfs", "snapshot", &format!("two/a@{to}")]);
        piped(&session, &format!("-w -i {from} two/a@{to}"), "one/a");
        assert_same(&here, &there);
        change(&here, &mut random);
        session.ok(&["zfs", "snapshot", &format!("one/a@{}", to + 1)]);
        session.ok(&["zfs", "unmount", "two/a"]);
        session.ok(&["zfs", "unload-key", "two/a"]);
        // What its user did there to see it goes.
        piped(
            &session,
            &format!("-w -i @{to} one/a@{}", to + 1),
            "-F two/a",
        );
    }
    load(&session, "two/a");
    assert_same(&here, &there);
    session.export_clean("two");
    session.export_clean("one");
    session.import("two", &["-N"]);
    load(&session, "two/a");
    session.import("one", &["-N"]);
    load(&session, "one/a");
    assert_same(&here, &there);
}

#[test]
fn where_a_raw_stream_may_go() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let mut random = Random::new(78);
    change(&session.mount("one/a"), &mut random);
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    // Below another root it is a root of its own, whose key may be elsewhere.
    encrypted(&session, "two/other");
    let key = session.images().join("key");
    fs::write(&key, PASSPHRASE).expect("a file");
    let location = format!("keylocation=file://{}", path(&key));
    piped(
        &session,
        "-w one/a@1",
        &format!("-o {location} two/other/a"),
    );
    session.ok(&["zfs", "load-key", "two/other/a"]);
    session.ok(&["zfs", "mount", "two/other/a"]);
    assert_same(&session.mount("one/a"), &session.mount("two/other/a"));
    refused(
        &session,
        "-w one/a@1",
        "-F two/other",
        "zfs receive -F cannot be used to destroy an encrypted filesystem",
    );
    // What goes on must go on from the same vectors, with the same keys.
    session.ok(&["zfs", "create", "two/plain"]);
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    piped(&session, "one/a@1", "two/decrypted");
    refused(
        &session,
        "-w -i @1 one/a@2",
        "two/decrypted",
        "the destination is not encrypted",
    );
    piped(&session, "one/a@1", "-x encryption two/other/again");
    refused(
        &session,
        "-w -i @1 one/a@2",
        "two/other/again",
        "other keys than the raw stream",
    );
    session.export_clean("two");
    session.export_clean("one");
}

#[test]
fn the_rest_of_a_raw_stream() {
    let Some(mut session) = two_pools() else {
        return;
    };
    let mut random = Random::new(79);
    change(&session.mount("one/a"), &mut random);
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    change(&session.mount("one/a"), &mut random);
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    for (sent, hidden) in [("-w one/a@1", "two/a"), ("-w -i @1 one/a@2", "two/a")] {
        let whole = session.shell(&format!("$0 zfs send {sent} | wc -c"), &[]);
        let whole: usize = String::from_utf8_lossy(&whole.stdout)
            .trim()
            .parse()
            .expect("a number");
        let mut again = sent.to_owned();
        for part in 1..=3 {
            let bytes = whole / 4 * part / if part > 1 { part } else { 1 };
            let cut = session.shell(
                &format!("$0 zfs send {again} | head -c {bytes} | $0 zfs receive -s two/a"),
                &[],
            );
            assert!(!cut.status.success(), "{sent}");
            let token = ["zfs", "get", "-Ho", "value", "receive_resume_token", hidden];
            let token = session.ok(&token).trim_end().to_owned();
            assert_ne!(
                token,
                "-",
                "{sent}: {}",
                String::from_utf8_lossy(&cut.stderr)
            );
            if part == 2 {
                session.export_clean("two");
                session.import("two", &["-N"]);
            }
            again = format!("-t {token}");
        }
        let output = pipe(&session, &again, "-s two/a");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    load(&session, "two/a");
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.export_clean("two");
}

/// In a package each dataset brings its keys; what had them from one above still has.
#[test]
fn a_raw_package_keeps_its_roots() {
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "create", "one/a/child"]);
    encrypted(&session, "one/a/own");
    let mut random = Random::new(80);
    for name in ["one/a", "one/a/child", "one/a/own"] {
        std::fs::write(session.mount(name).join("file"), name).expect("a file");
    }
    change(&session.mount("one/a/child"), &mut random);
    session.ok(&["zfs", "snapshot", "-r", "one/a@1"]);
    piped(&session, "-w -R one/a@1", "two/a");
    let roots = ["zfs", "get", "-Hr", "-t", "filesystem", "-o", "name,value"];
    let roots = session.ok(&[&roots[..], &["encryptionroot", "two/a"]].concat());
    assert_eq!(
        roots,
        "two/a\ttwo/a\ntwo/a/child\ttwo/a\ntwo/a/own\ttwo/a/own\n"
    );
    load(&session, "two/a");
    load(&session, "two/a/own");
    session.ok(&["zfs", "mount", "two/a/child"]);
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.export_clean("two");
    session.import("two", &["-N"]);
    load(&session, "two/a");
    session.ok(&["zfs", "mount", "two/a/child"]);
    let (sent, received) = (session.mount("one/a/child"), session.mount("two/a/child"));
    assert_same(&sent, &received);
}

/// What an increment brings is wrapped with a key that nobody has given here; the keys inside are those that are
/// loaded.
#[test]
fn what_is_loaded_stays_so_when_the_passphrase_changed_elsewhere() {
    const OTHER: &str = "wrong donkey capacitor\n";
    let Some(mut session) = two_pools() else {
        return;
    };
    session.ok(&["zfs", "create", "one/a/child"]);
    let mut random = Random::new(81);
    let all = |session: &Session| {
        let told = ["zfs", "get", "-Hr", "-t", "filesystem", "-o", "name,value"];
        session.ok(&[&told[..], &["keystatus", "two/a"]].concat())
    };
    let (files, child) = (
        session.mount("one/a").join("files"),
        session.mount("one/a/child"),
    );
    fs::create_dir(&files).expect("a directory");
    change(&files, &mut random);
    change(&child, &mut random);
    session.ok(&["zfs", "snapshot", "-r", "one/a@1"]);
    piped(&session, "-w -R one/a@1", "two/a");
    load(&session, "two/a");
    session.ok(&["zfs", "mount", "two/a/child"]);

    let changed = session.given(OTHER, &["zfs", "change-key", "one/a"]);
    assert!(changed.status.success(), "{changed:?}");
    change(&files, &mut random);
    change(&child, &mut random);
    session.ok(&["zfs", "snapshot", "-r", "one/a@2"]);
    piped(&session, "-w -R -I @1 one/a@2", "-F two/a");
    assert_eq!(all(&session), "two/a\tavailable\ntwo/a/child\tavailable\n");
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.ok(&["zfs", "unmount", "two/a"]);
    session.ok(&["zfs", "mount", "two/a"]);
    session.ok(&["zfs", "mount", "two/a/child"]);
    assert_same(&session.mount("one/a"), &session.mount("two/a"));

    // Nothing is wrapped with what is loaded: the key that is to be given from now on would not open it.
    let refused = session.refused(&["zfs", "create", "two/a/late"]);
    let text = "encryption root's key is not loaded or provided";
    assert!(refused.contains(text), "{refused}");
    let refused = session.given(PASSPHRASE, &["zfs", "change-key", "two/a"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("it must be loaded."), "{errors}");

    session.ok(&["zfs", "unmount", "two/a"]);
    session.ok(&["zfs", "unload-key", "two/a"]);
    assert_eq!(
        all(&session),
        "two/a\tunavailable\ntwo/a/child\tunavailable\n"
    );
    let refused = session.given(PASSPHRASE, &["zfs", "load-key", "two/a"]);
    assert!(!refused.status.success(), "{refused:?}");
    let loaded = session.given(OTHER, &["zfs", "load-key", "two/a"]);
    assert!(loaded.status.success(), "{loaded:?}");
    session.ok(&["zfs", "mount", "two/a"]);
    session.ok(&["zfs", "mount", "two/a/child"]);
    assert_same(&session.mount("one/a"), &session.mount("two/a"));
    session.ok(&["zfs", "create", "two/a/late"]);
    session.export_clean("two");
    session.export_clean("one");
}
