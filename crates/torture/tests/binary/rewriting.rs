//! `zfs rewrite`: blocks are written anew as they are, as the properties say now.

use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

fn used(session: &Session, property: &str) -> u64 {
    let text = session.ok(&["zfs", "get", "-Hpo", "value", property, "tank/a"]);
    text.trim().parse().expect("a number")
}

#[test]
fn blocks_are_written_anew_and_files_stay_as_they_are() {
    const MIB: u64 = 1 << 20;
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
    assert!(
        refused.contains("physical rewrite is not supported"),
        "{refused}"
    );
    let refused = session.refused(&["zfs", "rewrite", path(&at)]);
    assert!(refused.contains("failed to rewrite"), "{refused}");
    session.ok(&["zfs", "snapshot", "tank/a@s"]);
    let of_snapshot = at.join(".zfs/snapshot/s/file");
    session.refused(&["zfs", "rewrite", path(&of_snapshot)]);
    session.ok(&["zfs", "rewrite", path(&files[0])]);
    session.export_clean("tank");
}
