//! `zfs rewrite`: blocks are written anew as they are, as the properties say now.

use crate::receiving::{assert_same, noise, piped};
use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

const MIB: u64 = 1 << 20;

fn number(session: &Session, property: &str, dataset: &str) -> u64 {
    let text = session.ok(&["zfs", "get", "-Hpo", "value", property, dataset]);
    text.trim().parse().expect("a number")
}

fn used(session: &Session, property: &str) -> u64 {
    number(session, property, "tank/a")
}

#[test]
fn blocks_are_written_anew_and_files_stay_as_they_are() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off"]);
    session.ok(&["zfs", "create", "tank/a"]);
    let at = session.mount("tank/a");
    fs::create_dir_all(at.join("below/deeper")).expect("made");
    let text = b"the same again and again. ".repeat(200_000);
    let files = [at.join("file"), at.join("below/deeper/other")];
    for file in &files {
        fs::write(file, &text).expect("written");
    }
    let sparse = fs::File::create(at.join("sparse")).expect("made");
    sparse.write_all_at(b"end", 8 * MIB).expect("written");
    drop(sparse);
    session.ok(&["zpool", "sync"]);
    let (before, full) = (
        fs::metadata(&files[0]).expect("there"),
        used(&session, "used"),
    );
    assert!(full > 10 * MIB, "{full}");
    for setting in ["compression=zstd", "checksum=sha512"] {
        session.ok(&["zfs", "set", setting, "tank/a"]);
    }
    // Half of a file, by whole blocks; then all there is, by name.
    let half = [
        "zfs",
        "rewrite",
        "-o",
        "0",
        "-l",
        "2600000",
        path(&files[0]),
    ];
    assert_eq!(session.ok(&half), "");
    session.ok(&["zpool", "sync"]);
    let partly = used(&session, "used");
    assert!(partly < full - 2 * MIB && partly > 6 * MIB, "{partly}");
    session.ok(&["zfs", "snapshot", "tank/a@s"]);
    let said = session.ok(&["zfs", "rewrite", "-r", "-v", path(&at)]);
    let below = path(&files[1]).to_owned();
    let sparse = path(&at.join("sparse")).to_owned();
    assert_eq!(said, format!("{below}\n{}\n{sparse}\n", path(&files[0])));
    session.ok(&["zpool", "sync"]);
    assert!(used(&session, "referenced") < MIB);
    assert!(used(&session, "written") < MIB);
    let after = fs::metadata(&files[0]).expect("there");
    let times = |found: &fs::Metadata| (found.mtime(), found.mtime_nsec(), found.ctime_nsec());
    assert_eq!(times(&before), times(&after));
    assert!(fs::metadata(at.join("sparse")).expect("there").blocks() < 600);
    session.ok(&["zfs", "destroy", "tank/a@s"]);
    session.export_clean("tank");
    session.import("tank", &[]);
    for file in &files {
        assert!(fs::read(file).expect("read") == text);
    }
    let refused = session.refused(&["zfs", "rewrite", "-P", path(&files[0])]);
    assert!(refused.contains("'physical_rewrite'"), "{refused}");
    let feature = ["zpool", "get", "-Ho", "value", "feature@physical_rewrite"];
    assert_eq!(session.ok(&[&feature[..], &["tank"]].concat()), "-\n");
    let refused = session.refused(&["zfs", "rewrite", path(&at)]);
    assert!(refused.contains("failed to rewrite"), "{refused}");
    session.ok(&["zfs", "snapshot", "tank/a@s"]);
    let of_snapshot = at.join(".zfs/snapshot/s/file");
    session.refused(&["zfs", "rewrite", path(&of_snapshot)]);
    session.ok(&["zfs", "rewrite", path(&files[0])]);
    session.export_clean("tank");
}

/// Exports a pool and looks at every block of it, and imports it again. OpenZFS 2.3 does not know these blocks.
fn verified(session: &mut Session, pool: &str) {
    session.export(pool);
    let image = session.images().join(format!("{pool}.img"));
    session.ok(&["inspect", "--verify", path(&image)]);
    session.import(pool, &[]);
}

fn feature(session: &Session, pool: &str) -> String {
    let name = "feature@physical_rewrite";
    let text = session.ok(&["zpool", "get", "-Ho", "value", name, pool]);
    text.trim().to_owned()
}

/// Bytes of a stream.
fn sent(session: &Session, arguments: &str) -> usize {
    let output = session.shell(&format!("$0 zfs send {arguments} | wc -c"), &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("a number")
}

/// With `-P`: no increment has the blocks, snapshots keep the old ones, and both are freed when their time comes.
#[test]
fn blocks_written_anew_keep_their_births() {
    const BYTES: u64 = 4_000_000;
    let Some(mut session) = Session::new() else {
        return;
    };
    let options = ["-o", "feature@physical_rewrite=enabled"];
    session.create("tank", 192, &options);
    session.create("two", 192, &[]);
    assert_eq!(feature(&session, "tank"), "enabled");
    session.ok(&["zfs", "create", "-o", "compression=off", "tank/a"]);
    let at = session.mount("tank/a");
    let text = noise(BYTES);
    fs::write(at.join("file"), &text).expect("written");
    fs::write(at.join("small"), "of one block").expect("written");
    session.ok(&["zfs", "snapshot", "tank/a@1"]);
    session.ok(&["zfs", "set", "checksum=sha256", "tank/a"]);
    session.ok(&["zfs", "rewrite", "-r", "-P", path(&at)]);
    session.ok(&["zfs", "snapshot", "tank/a@2"]);
    assert_eq!(feature(&session, "tank"), "active");
    // They take room of their own, and the snapshot has the old ones to itself.
    assert!(number(&session, "used", "tank/a@1") > BYTES);
    assert!(number(&session, "written", "tank/a@2") > BYTES);
    let increment = sent(&session, "-i @1 tank/a@2");
    assert!(increment < 100_000, "{increment} bytes are sent");
    piped(&session, "tank/a@1", "two/b");
    piped(&session, "-i @1 tank/a@2", "two/b");
    assert_same(&at, &session.mount("two/b"));
    assert_eq!(feature(&session, "two"), "-");
    verified(&mut session, "tank");
    // Those of the second snapshot stay, those of the first go.
    let allocated = |session: &Session| {
        let text = session.ok(&["zpool", "get", "-Hpo", "value", "allocated", "tank"]);
        text.trim().parse::<u64>().expect("a number")
    };
    let before = allocated(&session);
    session.ok(&["zfs", "destroy", "tank/a@1"]);
    session.ok(&["zpool", "sync", "tank"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    let left = allocated(&session);
    assert!(before - left > BYTES - MIB, "{before} to {left}");
    verified(&mut session, "tank");
    session.ok(&["zfs", "rewrite", "-P", path(&at.join("file"))]);
    session.ok(&["zfs", "snapshot", "tank/a@3"]);
    session.ok(&["zfs", "rollback", "-r", "tank/a@2"]);
    verified(&mut session, "tank");
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    fs::remove_file(at.join("file")).expect("removed");
    session.ok(&["zfs", "destroy", "tank/a@2"]);
    verified(&mut session, "tank");
    assert!(number(&session, "referenced", "tank/a") < MIB);
    session.ok(&["zfs", "destroy", "tank/a"]);
    assert_eq!(feature(&session, "tank"), "enabled");
    verified(&mut session, "tank");
}

/// Raw increments have what was written anew all the same: the codes of new blocks are proven by those above.
#[test]
fn raw_increments_have_what_was_written_anew() {
    const PASSPHRASE: &str = "correct horse battery\n";
    let Some(mut session) = Session::new() else {
        return;
    };
    let options = ["-o", "feature@physical_rewrite=enabled"];
    session.create("tank", 192, &options);
    session.create("two", 192, &[]);
    let made = session.given(
        PASSPHRASE,
        &[
            "zfs",
            "create",
            "-o",
            "encryption=on",
            "-o",
            "keyformat=passphrase",
            "tank/a",
        ],
    );
    assert!(made.status.success(), "{made:?}");
    let at = session.mount("tank/a");
    fs::write(at.join("file"), noise(2_000_000)).expect("written");
    fs::write(at.join("small"), noise(3000)).expect("written");
    session.ok(&["zfs", "snapshot", "tank/a@1"]);
    session.ok(&["zfs", "rewrite", "-r", "-P", path(&at)]);
    session.ok(&["zfs", "snapshot", "tank/a@2"]);
    let (open, raw) = (
        sent(&session, "-i @1 tank/a@2"),
        sent(&session, "-w -i @1 tank/a@2"),
    );
    assert!(open < 100_000 && raw > 2_000_000, "{open} and {raw} bytes");
    piped(&session, "-w tank/a@1", "two/b");
    piped(&session, "-w -i @1 tank/a@2", "two/b");
    let loaded = session.given(PASSPHRASE, &["zfs", "load-key", "two/b"]);
    assert!(loaded.status.success(), "{loaded:?}");
    session.ok(&["zfs", "mount", "two/b"]);
    assert_same(&at, &session.mount("two/b"));
    verified(&mut session, "tank");
    session.export_clean("two");
}
