//! Cache devices, as a user has them.

use crate::patience::until;
use crate::session::{Session, path};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Large enough that the device keeps a log of what it holds.
const CACHE_MEBIBYTES: u64 = 1200;
const FILES: usize = 40;

fn image(session: &Session, name: &str, mebibytes: u64) -> PathBuf {
    let image = session.images().join(name);
    let file = fs::File::create(&image).expect("an image");
    file.set_len(mebibytes << 20).expect("its size");
    image
}

/// A pool with a cache device that is fed without delay.
fn pool() -> Option<(Session, PathBuf)> {
    let mut session = Session::new()?;
    session.limit("l2arc.feed_ms=20");
    let data = image(&session, "data.img", 256);
    let cache = image(&session, "cache.img", CACHE_MEBIBYTES);
    let vdevs = [path(&data), "cache", path(&cache)];
    let options = ["-O", "compression=off", "-O", "recordsize=16k"];
    session.create_of("tank", &vdevs, &options);
    Some((session, cache))
}

/// Bytes in use of the cache device, and how many were read of it.
fn used(session: &Session) -> (u64, u64) {
    let listed = session.ok(&["zpool", "list", "-Hpv", "-o", "name,allocated", "tank"]);
    let line = listed.lines().find(|line| line.contains("cache.img"));
    let words = line.expect("the cache device").split_whitespace();
    let in_use = words.last().and_then(|word| word.parse().ok());
    let told = session.ok(&["zpool", "iostat", "-Hpv", "tank"]);
    let line = told.lines().find(|line| line.contains("cache.img"));
    let words = line.expect("the cache device").split_whitespace();
    let read = words.rev().nth(1).and_then(|word| word.parse().ok());
    (in_use.expect("a number"), read.expect("a number"))
}

fn fill(session: &Session, dataset: &str) {
    for number in 0..FILES {
        let bytes = super::receiving::noise(1 << 20);
        let name = session.mount(dataset).join(number.to_string());
        fs::write(name, bytes).expect("written");
    }
}

/// The contents of all files.
fn contents(session: &Session, dataset: &str) -> Vec<Vec<u8>> {
    let read = |number: usize| fs::read(session.mount(dataset).join(number.to_string()));
    (0..FILES)
        .map(|number| read(number).expect("read"))
        .collect()
}

fn again(session: &mut Session) {
    session.export("tank");
    session.import("tank", &[]);
}

/// What zdb says of the log blocks of a cache device, where it is there.
fn log_blocks(cache: &Path) -> Option<u64> {
    let told = golden::Zdb::from_environment()?.labels(cache);
    assert!(told.contains("L2ARC device header"), "{told}");
    let number = |what: &str| {
        let line = told.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("no {what}"));
        let mut words = line.split_whitespace();
        words
            .find_map(|word| word.parse::<u64>().ok())
            .expect("a number")
    };
    assert_eq!(number("with invalid cksum"), 0, "{told}");
    Some(number("with valid cksum"))
}

#[test]
fn what_was_read_is_read_from_a_cache_device_also_after_an_import() {
    let Some((mut session, cache)) = pool() else {
        return;
    };
    fill(&session, "tank");
    let written = contents(&session, "tank");
    again(&mut session);
    assert!(written == contents(&session, "tank"));
    until("the cache device has most of it", || {
        used(&session).0 > 30 << 20
    });
    again(&mut session);
    if let Some(blocks) = log_blocks(&cache) {
        assert!(blocks > 20, "{blocks}");
    }
    until("the cache device is known", || used(&session).0 > 20 << 20);
    assert!(written == contents(&session, "tank"));
    assert!(used(&session).1 > 0);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        status.contains("\tcache\n") && !status.contains("unused"),
        "{status}"
    );
    session.ok(&["zpool", "remove", "tank", "cache.img"]);
    assert!(!session.ok(&["zpool", "status", "tank"]).contains("cache"));
    assert!(written == contents(&session, "tank"));
    session.ok(&["zpool", "add", "tank", "cache", path(&cache)]);
    let listed = session.ok(&["zpool", "list", "-v", "tank"]);
    assert!(listed.contains("\ncache"), "{listed}");
    session.export_clean("tank");
}

#[test]
fn secondarycache_says_whose_blocks_are_copied() {
    let Some((mut session, _)) = pool() else {
        return;
    };
    session.ok(&["zfs", "set", "secondarycache=none", "tank"]);
    session.ok(&["zfs", "create", "-o", "secondarycache=all", "tank/all"]);
    fill(&session, "tank");
    again(&mut session);
    contents(&session, "tank");
    std::thread::sleep(Duration::from_secs(1));
    // The pool's own blocks are.
    assert!(used(&session).0 < 4 << 20, "{:?}", used(&session));
    fill(&session, "tank/all");
    again(&mut session);
    contents(&session, "tank/all");
    until("the cache device has most of it", || {
        used(&session).0 > 30 << 20
    });
    session.export_clean("tank");
}

#[test]
fn what_is_not_kept_in_memory_is_not_copied() {
    let Some((mut session, _)) = pool() else {
        return;
    };
    session.ok(&["zfs", "set", "primarycache=none", "tank"]);
    session.ok(&["zfs", "create", "-o", "primarycache=metadata", "tank/a"]);
    for dataset in ["tank", "tank/a"] {
        fill(&session, dataset);
        again(&mut session);
        contents(&session, dataset);
        std::thread::sleep(Duration::from_secs(1));
        // The pool's own blocks are, and what leads to the files of the second.
        assert!(used(&session).0 < 4 << 20, "{:?}", used(&session));
    }
    session.export_clean("tank");
}

#[test]
fn a_cache_device_that_is_gone_or_not_what_it_was_is_no_loss() {
    let Some((mut session, cache)) = pool() else {
        return;
    };
    fill(&session, "tank");
    let written = contents(&session, "tank");
    session.export("tank");
    let whole = fs::read(&cache).expect("read");
    fs::remove_file(&cache).expect("removed");
    session.import("tank", &[]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("UNAVAIL"), "{status}");
    assert!(written == contents(&session, "tank"));
    fs::write(&cache, &whole).expect("written");
    session.ok(&["zpool", "reopen", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(!status.contains("UNAVAIL"), "{status}");
    session.export("tank");
    // It comes back, and lies.
    let mut wrong = whole;
    wrong[(5 << 20)..(200 << 20)].fill(0x33);
    fs::write(&cache, wrong).expect("written");
    session.import("tank", &[]);
    assert!(written == contents(&session, "tank"));
    session.ok(&["zpool", "destroy", "tank"]);
    let refused = session.refused(&["zpool", "labelclear", path(&cache)]);
    assert!(refused.contains("no label"), "{refused}");
}

#[test]
fn what_is_no_cache_device_is_refused() {
    let Some((mut session, cache)) = pool() else {
        return;
    };
    let other = image(&session, "other.img", 64);
    let small = image(&session, "small.img", 8);
    for (words, told) in [
        (
            vec!["cache", "mirror", path(&other), path(&small)],
            "must be a file or disk",
        ),
        (vec!["cache"], "requires at least 1 device"),
        (vec!["cache", path(&small)], "minimum size"),
        (vec!["cache", path(&cache)], "in use"),
        (vec!["cache", "/nowhere/at/all"], "no such file"),
    ] {
        let mut line = vec!["zpool", "add", "tank"];
        line.extend(words);
        let found = session.refused(&line);
        assert!(found.contains(told), "{line:?}: {found}");
    }
    session.ok(&["zpool", "add", "-n", "tank", "cache", path(&other)]);
    session.export_clean("tank");
    // A device of a pool that is exported.
    session.refused(&["zpool", "create", "two", path(&cache)]);
    session.ok(&["zpool", "labelclear", path(&cache)]);
    session.refused(&["zpool", "labelclear", path(&cache)]);
}
