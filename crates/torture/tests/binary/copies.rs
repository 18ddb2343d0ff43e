//! Copies of files on a mount share blocks with their sources, and are files of their own.

use crate::limits::noise;
use crate::session::Session;
use std::fs;
use std::os::unix::fs::FileExt;

/// A number that `zpool get` tells.
fn number(session: &Session, property: &str) -> u64 {
    let text = session.ok(&["zpool", "get", "-Hpo", "value", property, "tank"]);
    text.trim().parse().expect("a number")
}

#[test]
fn a_copy_shares_blocks_until_one_of_both_goes() {
    const BYTES: u64 = 6 << 20;
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    let features = session.ok(&[
        "zpool",
        "get",
        "-Ho",
        "value",
        "feature@block_cloning",
        "tank",
    ]);
    assert_eq!(features.trim(), "enabled");
    let at = session.mount("tank");
    let bytes = noise(6);
    fs::write(at.join("a"), &bytes).expect("written");
    session.ok(&["zpool", "sync"]);
    let allocated = number(&session, "allocated");
    // With copy_file_range(2).
    fs::copy(at.join("a"), at.join("b")).expect("copied");
    session.ok(&["zpool", "sync"]);
    assert_eq!(number(&session, "bclonesaved"), BYTES);
    assert_eq!(number(&session, "bcloneused"), BYTES);
    assert!(number(&session, "allocated") < allocated + (2 << 20));
    let used = session.ok(&["zfs", "get", "-Hpo", "value", "referenced", "tank"]);
    assert!(used.trim().parse::<u64>().expect("a number") > 2 * BYTES);

    let mut changed = bytes.clone();
    changed[1_000_000..1_000_007].copy_from_slice(b"changed");
    let file = fs::File::options().write(true).open(at.join("b"));
    let file = file.expect("opened");
    file.write_all_at(b"changed", 1_000_000).expect("written");
    drop(file);
    session.export_clean("tank");
    session.import("tank", &[]);
    assert!(fs::read(at.join("a")).expect("read") == bytes);
    assert!(fs::read(at.join("b")).expect("read") == changed);
    assert_eq!(number(&session, "bclonesaved"), BYTES - (128 << 10));

    fs::remove_file(at.join("a")).expect("removed");
    session.export_clean("tank");
    session.import("tank", &[]);
    assert!(fs::read(at.join("b")).expect("read") == changed);
    assert_eq!(number(&session, "bcloneused"), 0);
    session.export_clean("tank");
}

/// OpenZFS's zdb 2.3 does not know the feature: it ends with an assertion at a table that goes by it.
#[test]
fn references_are_counted_in_words_where_that_was_enabled() {
    const BYTES: u64 = 2 << 20;
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    let feature = "feature@block_cloning_endian";
    let state = |session: &Session| {
        let text = session.ok(&["zpool", "get", "-Ho", "value", feature, "tank"]);
        text.trim().to_owned()
    };
    // Newer than what new pools have, and those that are upgraded.
    session.ok(&["zpool", "upgrade", "tank"]);
    assert!(
        !session
            .ok(&["zpool", "get", "all", "tank"])
            .contains(feature)
    );
    session.ok(&["zpool", "set", &format!("{feature}=enabled"), "tank"]);
    assert_eq!(state(&session), "enabled");
    let at = session.mount("tank");
    let bytes = noise(2);
    fs::write(at.join("a"), &bytes).expect("written");
    session.ok(&["zpool", "sync"]);
    fs::copy(at.join("a"), at.join("b")).expect("copied");
    session.ok(&["zpool", "sync"]);
    assert_eq!(state(&session), "active");
    session.export("tank");
    session.import("tank", &[]);
    assert_eq!(number(&session, "bclonesaved"), BYTES);
    assert_eq!(state(&session), "active");
    fs::remove_file(at.join("a")).expect("removed");
    assert!(fs::read(at.join("b")).expect("read") == bytes);
    session.export("tank");
    session.import("tank", &[]);
    assert!(fs::read(at.join("b")).expect("read") == bytes);
    assert_eq!(number(&session, "bcloneused"), 0);
    assert_eq!(state(&session), "enabled");
    session.export_clean("tank");
}
