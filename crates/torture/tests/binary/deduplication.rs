//! Deduplicated file systems: blocks with the same content are stored once, whatever becomes of who refers to them, and
//! the tables say what OpenZFS's zdb says of them.

use crate::lifecycle::kill_server;
use crate::limits::noise;
use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::FileExt;

/// What a pool property says.
fn property(session: &Session, name: &str) -> String {
    let text = session.ok(&["zpool", "get", "-Hpo", "value", name, "tank"]);
    text.trim().to_owned()
}

fn number(session: &Session, name: &str) -> u64 {
    property(session, name).parse().expect("a number")
}

/// The rows of a histogram, word by word: those of `zpool status -D`, and of `zdb -DD` under its last heading.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.split_whitespace());
    let lines = lines.map(|words| words.map(str::to_owned).collect::<Vec<_>>());
    let is_row =
        |words: &Vec<String>| words.len() == 9 && words[0] != "refcnt" && words[0] != "------";
    lines.filter(is_row).collect()
}

/// What the pool's status says of its tables.
fn histogram(session: &Session) -> Vec<Vec<String>> {
    rows(&session.ok(&["zpool", "status", "-D", "tank"]))
}

/// Exports the pool, has zdb and our own check look at it, and imports it again. `shown` is what the status said.
fn judge(session: &mut Session, shown: &[Vec<String>]) {
    session.export_clean("tank");
    let images = session.images();
    // It compares each count with what it has seen.
    session.ok(&["inspect", "--verify", path(&images.join("tank.img"))]);
    if let Some(zdb) = golden::Zdb::from_environment() {
        let output = zdb.run(&images, &["-DD"], &["tank"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, all) = text.split_once("aggregated").unwrap_or_default();
        let known = rows(all);
        assert_eq!(shown, known, "zdb -DD:\n{text}");
    }
    session.import("tank", &[]);
}

/// Logs so short that they are brought into the ZAPs all the time, and change places.
const SHORT_LOGS: &str =
    "pool.dedup_log_entries=40,pool.dedup_log_cache_bytes=1099511627776,pool.dedup_flushed_min=7";

/// A pool of one device, whose tables are of the older kind or of the newer.
fn pool(fast: bool) -> Option<Session> {
    limited_pool(fast, None)
}

fn limited_pool(fast: bool, limits: Option<&str>) -> Option<Session> {
    let mut session = Session::new()?;
    if let Some(limits) = limits {
        session.limit(limits);
    }
    let feature = match fast {
        true => "feature@fast_dedup=enabled",
        false => "feature@fast_dedup=disabled",
    };
    session.create("tank", 256, &["-o", feature, "-O", "compression=off"]);
    Some(session)
}

fn life_of_tables(fast: bool, limits: Option<&str>) {
    const MIB: u64 = 1 << 20;
    let Some(mut session) = limited_pool(fast, limits) else {
        return;
    };
    let before = number(&session, "allocated");
    session.ok(&["zfs", "create", "-o", "dedup=on", "tank/d"]);
    let at = session.mount("tank/d");
    let bytes = noise(8);
    for name in ["a", "b", "c"] {
        fs::write(at.join(name), &bytes).expect("written");
    }
    session.ok(&["zpool", "sync"]);
    assert_eq!(property(&session, "dedupratio"), "3.00");
    let allocated = number(&session, "allocated") - before;
    assert!((8 * MIB..10 * MIB).contains(&allocated), "{allocated}");
    let used = session.ok(&["zfs", "get", "-Hpo", "value", "referenced", "tank/d"]);
    assert!(used.trim().parse::<u64>().expect("a number") >= 24 * MIB);
    if fast {
        assert_eq!(property(&session, "feature@fast_dedup"), "active");
    }
    let shown = histogram(&session);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!(shown[0][..2], ["2", "64"]);
    judge(&mut session, &shown);

    // One block of a copy changes; the same is written over another; a copy is in a snapshot only, and in a clone.
    let file = fs::File::options()
        .write(true)
        .open(at.join("b"))
        .expect("opened");
    file.write_all_at(b"changed", 1_000_000).expect("written");
    file.write_all_at(&bytes[..256 << 10], 0).expect("written");
    drop(file);
    session.ok(&["zfs", "snapshot", "tank/d@one"]);
    session.ok(&["zfs", "clone", "tank/d@one", "tank/clone"]);
    fs::remove_file(at.join("c")).expect("removed");
    fs::write(session.mount("tank/clone").join("e"), &bytes).expect("written");
    session.ok(&["zpool", "sync"]);
    let shown = histogram(&session);
    assert_eq!(shown.last().expect("a total")[1], "65");
    judge(&mut session, &shown);
    let mut changed = bytes.clone();
    changed[1_000_000..1_000_007].copy_from_slice(b"changed");
    assert!(fs::read(at.join("a")).expect("read") == bytes);
    assert!(fs::read(at.join("b")).expect("read") == changed);
    assert!(fs::read(session.mount("tank/clone").join("c")).expect("read") == bytes);

    session.ok(&["zfs", "destroy", "-r", "tank/clone"]);
    session.ok(&["zfs", "destroy", "tank/d@one"]);
    fs::remove_file(at.join("a")).expect("removed");
    session.ok(&["zpool", "sync"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    session.ok(&["zpool", "sync"]);
    assert_eq!(property(&session, "dedupratio"), "1.00");
    let shown = histogram(&session);
    judge(&mut session, &shown);
    assert!(fs::read(at.join("b")).expect("read") == changed);

    // With the last block the tables go, and all that they took.
    session.ok(&["zfs", "destroy", "-r", "tank/d"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    session.ok(&["zpool", "sync"]);
    let status = session.ok(&["zpool", "status", "-D", "tank"]);
    assert!(status.contains("no DDT entries"), "{status}");
    if fast {
        assert_eq!(property(&session, "feature@fast_dedup"), "enabled");
    }
    judge(&mut session, &[]);
    let left = number(&session, "allocated");
    assert!(left < before + MIB, "{left} bytes, {before} before");
    session.export_clean("tank");
}

#[test]
fn what_is_equal_is_stored_once_and_freed_with_its_last_reference() {
    life_of_tables(true, None);
}

#[test]
fn what_is_equal_is_stored_once_also_while_logs_are_brought_in() {
    life_of_tables(true, Some(SHORT_LOGS));
}

#[test]
fn pools_without_the_feature_get_tables_of_the_older_kind() {
    life_of_tables(false, None);
}

#[test]
fn every_kind_of_deduplication_keeps_a_table_of_its_own() {
    const KINDS: [&str; 8] = [
        "sha256,verify",
        "sha512",
        "sha512,verify",
        "skein",
        "edonr,verify",
        "blake3",
        "verify",
        "on",
    ];
    let Some(mut session) = pool(true) else {
        return;
    };
    let bytes = noise(1);
    for (number, kind) in KINDS.iter().enumerate() {
        let name = format!("tank/{number}");
        let copies = format!("copies={}", 1 + number % 3);
        session.ok(&[
            "zfs",
            "create",
            "-o",
            &format!("dedup={kind}"),
            "-o",
            &copies,
            "-o",
            "recordsize=16K",
            &name,
        ]);
        for file in ["a", "b"] {
            fs::write(session.mount(&name).join(file), &bytes).expect("written");
        }
    }
    session.ok(&["zpool", "sync"]);
    let shown = histogram(&session);
    judge(&mut session, &shown);
    for number in 0..KINDS.len() {
        let at = session.mount(&format!("tank/{number}"));
        for file in ["a", "b"] {
            assert!(fs::read(at.join(file)).expect("read") == bytes, "{number}");
        }
        fs::remove_file(at.join("a")).expect("removed");
    }
    session.ok(&["zpool", "sync"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    session.ok(&["zpool", "sync"]);
    let shown = histogram(&session);
    judge(&mut session, &shown);
    session.export_clean("tank");
}

/// Bytes of `count` blocks that are all different, and differ for each `seed`.
fn different(seed: u64, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let mut block = vec![0x5a; 4096];
        block[..8].copy_from_slice(&(seed << 32 | number).to_le_bytes());
        bytes.extend_from_slice(&block);
    }
    bytes
}

/// Entries with one reference, and with two, as the status shows them.
fn entries(session: &Session) -> (u64, u64) {
    let rows = histogram(session);
    let of = |references: &str| {
        let row = rows.iter().find(|row| row[0] == references);
        row.map_or(0, |row| row[1].parse().expect("a number"))
    };
    (of("1"), of("2"))
}

#[test]
fn old_entries_are_pruned_and_their_blocks_stay() {
    life_of_pruned(None);
}

#[test]
fn old_entries_are_pruned_also_while_logs_are_brought_in() {
    life_of_pruned(Some(SHORT_LOGS));
}

fn life_of_pruned(limits: Option<&str>) {
    let Some(mut session) = limited_pool(true, limits) else {
        return;
    };
    let options = ["-o", "dedup=on", "-o", "recordsize=4k"];
    session.ok(&[&["zfs", "create"], &options[..], &["tank/d"]].concat());
    let at = session.mount("tank/d");
    let (single, twice) = (different(1, 400), different(2, 100));
    fs::write(at.join("single"), &single).expect("written");
    for name in ["one", "two"] {
        fs::write(at.join(name), &twice).expect("written");
    }
    session.ok(&["zpool", "sync"]);
    assert_eq!(entries(&session), (400, 100));
    // None is a day old.
    session.ok(&["zpool", "ddtprune", "-d", "1", "tank"]);
    assert_eq!(entries(&session), (400, 100));
    session.ok(&["zpool", "ddtprune", "-p", "25", "tank"]);
    assert_eq!(entries(&session), (300, 100));
    let shown = histogram(&session);
    judge(&mut session, &shown);
    session.ok(&["zpool", "prefetch", "-t", "ddt", "tank"]);
    session.ok(&["zpool", "prefetch", "tank"]);
    // What was pruned is stored once more; each block is freed with the last of its own pointers.
    session.ok(&["zfs", "snapshot", "tank/d@s"]);
    fs::write(at.join("again"), &single).expect("written");
    session.ok(&["zpool", "sync"]);
    assert_eq!(entries(&session), (100, 400));
    let shown = histogram(&session);
    judge(&mut session, &shown);
    fs::remove_file(at.join("single")).expect("removed");
    session.ok(&["zfs", "destroy", "tank/d@s"]);
    session.ok(&["zpool", "sync"]);
    assert_eq!(fs::read(at.join("again")).expect("read"), single);
    session.ok(&["zpool", "ddtprune", "-p", "100", "tank"]);
    assert_eq!(entries(&session), (0, 100));
    let shown = histogram(&session);
    judge(&mut session, &shown);
    assert_eq!(fs::read(at.join("two")).expect("read"), twice);
    session.ok(&["zfs", "destroy", "-r", "tank/d"]);
    session.ok(&["zpool", "wait", "-t", "free", "tank"]);
    session.ok(&["zpool", "sync"]);
    assert_eq!(property(&session, "feature@fast_dedup"), "enabled");
    judge(&mut session, &[]);
    let refused = session.refused(&["zpool", "ddtprune", "-d", "3", "-p", "3", "tank"]);
    assert!(refused.contains("-d cannot be used with -p"), "{refused}");
}

#[test]
fn tables_grow_to_their_quota_and_count_on() {
    for fast in [true, false] {
        let Some(mut session) = pool(fast) else {
            return;
        };
        let options = ["-o", "dedup=on", "-o", "recordsize=4k"];
        session.ok(&[&["zfs", "create"], &options[..], &["tank/d"]].concat());
        session.ok(&["zpool", "set", "dedup_table_quota=128K", "tank"]);
        let at = session.mount("tank/d");
        for (number, name) in ["a", "b", "c", "d"].iter().enumerate() {
            let bytes = different(number as u64, 200);
            fs::write(at.join(name), bytes).expect("written");
            session.ok(&["zpool", "sync"]);
        }
        let (single, _) = entries(&session);
        assert!((200..790).contains(&single), "{single}");
        assert!(number(&session, "dedup_table_size") < 2 << 20);
        let full = entries(&session);
        // What is in the tables is found, and counted.
        fs::write(at.join("a2"), different(0, 200)).expect("written");
        session.ok(&["zpool", "sync"]);
        let (single, twice) = entries(&session);
        assert_eq!(single + twice, full.0 + full.1);
        assert!(twice == 200, "{twice}");
        let shown = histogram(&session);
        judge(&mut session, &shown);
        session.ok(&["zpool", "set", "dedup_table_quota=none", "tank"]);
        fs::write(at.join("e"), different(9, 200)).expect("written");
        session.ok(&["zpool", "sync"]);
        assert_eq!(entries(&session).0, single + 200);
        for (number, name) in ["a", "b", "c", "d"].iter().enumerate() {
            let read = fs::read(at.join(name)).expect("read");
            assert!(read == different(number as u64, 200), "{name}");
        }
        session.ok(&["zfs", "destroy", "tank/d"]);
        session.ok(&["zpool", "wait", "-t", "free", "tank"]);
        judge(&mut session, &[]);
    }
}

/// What zdb says of the logs of a pool that is exported: their records and bytes, the one that is being brought in
/// first.
fn logs_of(session: &Session) -> Option<String> {
    let zdb = golden::Zdb::from_environment()?;
    let output = zdb.run(&session.images(), &["-DDDD"], &["tank"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.contains("log"));
    Some(lines.map(|line| format!("{line}\n")).collect())
}

/// Changes come into a log first; logs that are full are brought into the ZAPs while others fill, and each moment of
/// that can be exported, imported and cut off.
#[test]
fn logs_of_tables_are_written_and_brought_in() {
    let Some(mut session) = limited_pool(true, Some(SHORT_LOGS)) else {
        return;
    };
    let options = ["-o", "dedup=on", "-o", "recordsize=4k"];
    session.ok(&[&["zfs", "create"], &options[..], &["tank/d"]].concat());
    let at = session.mount("tank/d");
    let mut expected = (0, 0);
    for turn in 0..6 {
        let name = |kind: &str, turn: u64| at.join(format!("{kind}{turn}"));
        // Many that are new, some that are there twice, and some go.
        fs::write(name("single", turn), different(turn, 50)).expect("written");
        fs::write(name("one", turn), different(100 + turn, 20)).expect("written");
        session.ok(&["zpool", "sync"]);
        fs::write(name("two", turn), different(100 + turn, 20)).expect("written");
        session.ok(&["zpool", "sync"]);
        expected = (expected.0 + 50, expected.1 + 20);
        if turn >= 2 {
            fs::remove_file(name("single", turn - 2)).expect("removed");
            fs::remove_file(name("two", turn - 2)).expect("removed");
            expected = (expected.0 - 50 + 20, expected.1 - 20);
            session.ok(&["zpool", "sync"]);
            session.ok(&["zpool", "wait", "-t", "free", "tank"]);
            session.ok(&["zpool", "sync"]);
        }
        assert_eq!(entries(&session), expected, "turn {turn}");
        let shown = histogram(&session);
        if turn % 2 == 1 {
            kill_server(&session, "tank");
            session.import("tank", &["-f"]);
            assert_eq!(histogram(&session), shown, "killed in turn {turn}");
        }
        judge(&mut session, &shown);
    }
    session.ok(&["zpool", "ddtprune", "-p", "50", "tank"]);
    let (single, twice) = entries(&session);
    assert_eq!((single, twice), (expected.0 - expected.0 / 2, expected.1));
    let shown = histogram(&session);
    judge(&mut session, &shown);
    for turn in 0..6 {
        let read = fs::read(at.join(format!("one{turn}"))).expect("read");
        assert!(read == different(100 + turn, 20), "{turn}");
    }
    session.export_clean("tank");
    if let Some(logs) = logs_of(&session) {
        println!("{logs}");
    }
}

/// A pool that is only read shows what logs have, too.
#[test]
fn what_is_in_logs_is_shown_of_a_pool_that_is_not_written() {
    let Some(mut session) = pool(true) else {
        return;
    };
    let options = ["-o", "dedup=on", "-o", "recordsize=4k"];
    session.ok(&[&["zfs", "create"], &options[..], &["tank/d"]].concat());
    let at = session.mount("tank/d");
    for name in ["one", "two"] {
        fs::write(at.join(name), different(1, 30)).expect("written");
    }
    session.ok(&["zpool", "sync"]);
    let shown = histogram(&session);
    assert_eq!(property(&session, "dedupratio"), "2.00");
    session.export_clean("tank");
    session.import("tank", &["-o", "readonly=on"]);
    assert_eq!(histogram(&session), shown);
    assert_eq!(property(&session, "dedupratio"), "2.00");
    session.export("tank");
}
