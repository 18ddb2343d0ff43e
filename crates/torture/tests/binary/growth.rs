//! Devices that have become larger, as a user makes them so: files and disks of virtual machines.

use crate::session::{Session, path};
use std::fs;
use std::path::{Path, PathBuf};

const OLD: u64 = 128;
const NEW: u64 = 512;

fn image(session: &Session, name: &str, mebibytes: u64) -> PathBuf {
    let image = session.images().join(name);
    let file = fs::File::create(&image).expect("an image");
    file.set_len(mebibytes << 20).expect("its size");
    image
}

/// Makes a file larger, or smaller.
fn set_size(image: &Path, mebibytes: u64) {
    let file = fs::File::options().write(true).open(image);
    let file = file.expect("an image");
    file.set_len(mebibytes << 20).expect("its size");
}

/// Two columns of `zpool list`: the size and what it could be larger by, MiB.
fn sizes(session: &Session) -> (u64, u64) {
    let listed = session.ok(&["zpool", "list", "-Hpo", "size,expandsize", "tank"]);
    let mut words = listed.split_whitespace().map(|word| match word {
        "-" => 0,
        number => number.parse::<u64>().expect("a number") >> 20,
    });
    let mut next = || words.next().expect("a column");
    (next(), next())
}

/// Writes files of 16 MiB until there are so many; answers what they hold.
fn fill(session: &Session, count: u8) {
    let mount = session.mount("tank");
    for number in 0..count {
        let bytes: Vec<u8> = (0..4_u32 << 20)
            .flat_map(|word| (word.wrapping_mul(2_654_435_761) ^ u32::from(number)).to_le_bytes())
            .collect();
        fs::write(mount.join(format!("{number}")), bytes).expect("room for it");
    }
}

fn check(session: &Session, count: u8) {
    let mount = session.mount("tank");
    for number in 0..count {
        let bytes = fs::read(mount.join(format!("{number}"))).expect("read");
        assert_eq!(bytes.len(), 16 << 20, "{number}");
        for (word, found) in (0_u32..).zip(bytes.chunks_exact(4)) {
            let expected = word.wrapping_mul(2_654_435_761) ^ u32::from(number);
            assert_eq!(found, expected.to_le_bytes(), "{number} at {word}");
        }
    }
}

#[test]
fn a_file_that_has_become_larger_is_used_when_it_is_said_so() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let disk = image(&session, "disk.img", OLD);
    session.create_of("tank", &[path(&disk)], &["-O", "compression=off"]);
    let (before, none) = sizes(&session);
    assert_eq!(none, 0);
    fill(&session, 2);
    set_size(&disk, NEW);
    session.ok(&["zpool", "online", "tank", path(&disk)]);
    assert_eq!(sizes(&session).0, before, "nobody said so");
    session.ok(&["zpool", "online", "-e", "tank", path(&disk)]);
    let (after, none) = sizes(&session);
    assert!(after > before + NEW - OLD - 32, "{before} MiB, {after} MiB");
    assert_eq!(none, 0);
    fill(&session, 20);
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("zpool online -e tank"), "{history}");
    assert!(
        history.contains("vdev online pool 'tank' size:"),
        "{history}"
    );
    session.export_clean("tank");
    session.import("tank", &[]);
    assert_eq!(sizes(&session), (after, 0));
    check(&session, 20);
    session.export_clean("tank");

    // What was cut off at its end is lost, and said to be; the labels of the beginning are those that count.
    set_size(&disk, OLD);
    let refused = session.refused(&["zpool", "import", "-d", path(&session.images()), "tank"]);
    assert!(refused.contains("disk.img"), "{refused}");
}

#[test]
fn sides_of_a_mirror_become_larger_together() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let [a, b] = ["a.img", "b.img"].map(|name| image(&session, name, OLD));
    session.create_of("tank", &["mirror", path(&a), path(&b)], &[]);
    let (before, _) = sizes(&session);
    fill(&session, 3);
    set_size(&a, NEW);
    session.ok(&["zpool", "online", "-e", "tank", path(&a)]);
    assert_eq!(
        sizes(&session),
        (before, 0),
        "the other is as small as it was"
    );
    // An import finds what has become larger meanwhile, and leaves it alone.
    session.export_clean("tank");
    set_size(&b, NEW);
    session.import("tank", &[]);
    let (same, more) = sizes(&session);
    assert_eq!(same, before);
    assert!(more > NEW - OLD - 32, "{more} MiB");
    let listed = session.ok(&["zpool", "list", "-v", "tank"]);
    assert!(listed.contains(&format!("{more}M")), "{listed}");
    session.ok(&["zpool", "set", "autoexpand=on", "tank"]);
    let (after, none) = sizes(&session);
    assert_eq!((after, none), (before + more, 0));
    fill(&session, 20);
    check(&session, 20);
    session.export_clean("tank");
}

#[test]
fn larger_devices_in_the_place_of_others_are_used_by_themselves() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let old = ["a.img", "b.img", "c.img"].map(|name| image(&session, name, OLD));
    let new = ["d.img", "e.img", "f.img"].map(|name| image(&session, name, NEW));
    let vdevs = ["raidz1", path(&old[0]), path(&old[1]), path(&old[2])];
    session.create_of("tank", &vdevs, &["-o", "autoexpand=on"]);
    let (before, _) = sizes(&session);
    fill(&session, 4);
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(sizes(&session), (before, 0));
        session.ok(&["zpool", "replace", "-w", "tank", path(old), path(new)]);
    }
    // The last replacement ends within a txg, and its space may be used when that is on disk.
    session.ok(&["zpool", "sync", "tank"]);
    let (after, none) = sizes(&session);
    assert!(
        after > before + 3 * (NEW - OLD) - 64,
        "{before} MiB, {after} MiB"
    );
    assert_eq!(none, 0);
    fill(&session, 40);
    // The space is there for good, also when the daemon dies.
    session.ok(&["zpool", "sync", "tank"]);
    session.export_clean("tank");
    session.import("tank", &[]);
    check(&session, 40);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    session.export_clean("tank");

    // An import uses what devices have become larger by.
    for disk in &new {
        set_size(disk, 2 * NEW);
    }
    session.import("tank", &[]);
    let (last, none) = sizes(&session);
    assert!(last > after + 3 * NEW - 64, "{after} MiB, {last} MiB");
    assert_eq!(none, 0);
    check(&session, 40);
    session.export_clean("tank");
}
