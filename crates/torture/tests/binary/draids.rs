//! dRAID vdevs, as a user makes them.

use crate::session::{Session, path};
use std::fs;
use std::path::PathBuf;

fn images(session: &Session, count: usize, mebibytes: u64) -> Vec<PathBuf> {
    let image = |number: usize| {
        let image = session.images().join(format!("{number}.img"));
        let file = fs::File::create(&image).expect("an image");
        file.set_len(mebibytes << 20).expect("its size");
        image
    };
    (0..count).map(image).collect()
}

fn create(session: &mut Session, word: &str, devices: &[PathBuf]) {
    let mut vdevs = vec![word];
    vdevs.extend(devices.iter().map(|device| path(device)));
    session.create_of("tank", &vdevs, &["-O", "recordsize=32k"]);
}

const FILES: usize = 12;

fn fill(session: &Session, from: usize) {
    for number in from..from + FILES {
        let bytes = super::receiving::noise(700_000 + number as u64 * 1111);
        let name = session.mount("tank").join(number.to_string());
        fs::write(name, bytes).expect("written");
    }
}

fn contents(session: &Session, count: usize) -> Vec<Vec<u8>> {
    let read = |number: usize| fs::read(session.mount("tank").join(number.to_string()));
    (0..count)
        .map(|number| read(number).expect("read"))
        .collect()
}

/// Fails as many devices as there is parity, in turns; the data are there, and come back to the devices.
fn without_some(session: &mut Session, devices: &[PathBuf], parity: usize, written: &[Vec<u8>]) {
    let away = session.images().with_file_name("away");
    fs::create_dir(&away).expect("made");
    let hidden = |device: &PathBuf| away.join(device.file_name().expect("a name"));
    for first in 0..devices.len() {
        let gone: Vec<&PathBuf> = devices.iter().cycle().skip(first).take(parity).collect();
        session.export("tank");
        for device in &gone {
            fs::rename(device, hidden(device)).expect("renamed");
        }
        session.import("tank", &[]);
        let status = session.ok(&["zpool", "status", "tank"]);
        assert!(status.contains("state: DEGRADED"), "{status}");
        assert!(
            contents(session, written.len()) == written,
            "without {gone:?}"
        );
        session.export("tank");
        for device in &gone {
            fs::rename(hidden(device), device).expect("renamed");
        }
        session.import("tank", &[]);
        session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    }
}

fn history_of(word: &str, kind: &str, count: usize, parity: usize) {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = images(&session, count, 192);
    create(&mut session, word, &devices);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains(kind), "{status}");
    fill(&session, 0);
    let mut written = contents(&session, FILES);
    without_some(&mut session, &devices, parity, &written);
    // One is replaced for good.
    let new = session.images().join("new.img");
    let file = fs::File::create(&new).expect("an image");
    file.set_len(192 << 20).expect("its size");
    session.ok(&["zpool", "replace", "tank", path(&devices[1]), path(&new)]);
    fill(&session, FILES);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    written = contents(&session, 2 * FILES);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    session.export_clean("tank");
    session.import("tank", &[]);
    assert!(contents(&session, 2 * FILES) == written);
    let feature = ["zpool", "get", "-Ho", "value", "feature@draid", "tank"];
    assert_eq!(session.ok(&feature), "active\n");
    session.export_clean("tank");
}

#[test]
fn a_draid_of_single_parity_is_made_used_and_repaired() {
    history_of("draid", "draid1:4d:5c:0s-0", 5, 1);
}

#[test]
fn a_draid_of_double_parity_is_made_used_and_repaired() {
    history_of("draid2:3d:7c", "draid2:3d:7c:0s-0", 7, 2);
}

#[test]
fn a_draid_is_added_to_a_pool() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = images(&session, 8, 160);
    create(&mut session, "draid1:2d", &devices[..4]);
    fill(&session, 0);
    let mut line = vec!["zpool", "add", "tank", "draid1:2d"];
    line.extend(devices[4..].iter().map(|device| path(device)));
    session.ok(&line);
    fill(&session, FILES);
    let written = contents(&session, 2 * FILES);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("draid1:2d:4c:0s-1"), "{status}");
    session.export_clean("tank");
    session.import("tank", &[]);
    assert!(contents(&session, 2 * FILES) == written);
    session.export_clean("tank");
}

/// How a spare is shown: `AVAIL`, `INUSE`.
fn state_of_spare(session: &Session, name: &str) -> String {
    let status = session.ok(&["zpool", "status", "tank"]);
    let (_, spares) = status.split_once("\tspares\n").expect("spares are shown");
    let mut lines = spares.lines().map(str::split_whitespace);
    let mut line = lines
        .find(|line| line.clone().next() == Some(name))
        .unwrap_or_else(|| panic!("{name} in {status}"));
    line.nth(1).expect("a state").to_owned()
}

#[test]
fn distributed_spares_stand_in_for_devices() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = images(&session, 7, 192);
    create(&mut session, "draid1:3d:7c:2s", &devices);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("draid1:3d:7c:2s-0"), "{status}");
    assert_eq!(state_of_spare(&session, "draid1-0-0"), "AVAIL");
    assert_eq!(state_of_spare(&session, "draid1-0-1"), "AVAIL");
    fill(&session, 0);
    // By hand, beside a device that is still there.
    session.ok(&["zpool", "offline", "tank", path(&devices[2])]);
    session.ok(&["zpool", "replace", "tank", path(&devices[2]), "draid1-0-0"]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    assert_eq!(state_of_spare(&session, "draid1-0-0"), "INUSE");
    let told = session.refused(&["zpool", "offline", "tank", "draid1-0-0"]);
    assert!(told.contains("not supported"), "{told}");
    let told = session.refused(&["zpool", "remove", "tank", "draid1-0-1"]);
    assert!(told.contains("dRAID spares cannot be removed"), "{told}");
    fill(&session, FILES);
    let written = contents(&session, 2 * FILES);
    session.export_clean("tank");
    // The other one steps in by itself.
    let away = session.images().with_file_name("away");
    fs::create_dir(&away).expect("made");
    fs::rename(&devices[5], away.join("5.img")).expect("renamed");
    session.import("tank", &[]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    assert_eq!(state_of_spare(&session, "draid1-0-1"), "INUSE");
    session.export("tank");
    // Two are gone, and a third one may fail.
    fs::rename(&devices[0], away.join("0.img")).expect("renamed");
    session.import("tank", &[]);
    assert!(contents(&session, 2 * FILES) == written);
    session.export("tank");
    fs::rename(away.join("0.img"), &devices[0]).expect("renamed");
    fs::rename(away.join("5.img"), &devices[5]).expect("renamed");
    session.import("tank", &[]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    // The one that was away is whole again, and its spare waits; the other one goes as it came.
    session.ok(&["zpool", "online", "tank", path(&devices[2])]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    for spare in ["draid1-0-0", "draid1-0-1"] {
        if state_of_spare(&session, spare) == "INUSE" {
            session.ok(&["zpool", "detach", "tank", spare]);
        }
        assert_eq!(state_of_spare(&session, spare), "AVAIL");
    }
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    assert!(contents(&session, 2 * FILES) == written);
    session.export_clean("tank");
}

/// Three sectors to a stripe: metaslabs begin within stripes, and their maps count from the next ones.
#[test]
fn metaslabs_that_begin_within_stripes_are_verified() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = images(&session, 5, 192);
    let mut vdevs = vec!["draid1:2d:5c:1s"];
    vdevs.extend(devices.iter().map(|device| path(device)));
    let options = ["-o", "ashift=9", "-o", "feature@log_spacemap=disabled"];
    session.create_of("tank", &vdevs, &options);
    fill(&session, 0);
    session.export_clean("tank");
    let mut line = vec!["inspect", "--verify"];
    line.extend(devices.iter().map(|device| path(device)));
    let told = session.ok(&line);
    assert!(!told.contains("leaked space"), "{told}");
}
