//! `zpool remove` of devices that hold data, with the real binary.

use crate::session::{Session, path};
use std::fs;
use std::path::PathBuf;

fn remove_line(session: &Session) -> String {
    let status = session.ok(&["zpool", "status", "tank"]);
    let mut lines = status.lines().filter(|line| line.starts_with("remove:"));
    lines.next().unwrap_or_default().to_owned()
}

fn noise(mebibytes: u64) -> Vec<u8> {
    let words = (0..mebibytes << 17).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    words.flat_map(u64::to_le_bytes).collect()
}

fn image(session: &Session, name: &str, mebibytes: u64) -> PathBuf {
    let image = session.images().join(name);
    let made = fs::File::create(&image).expect("made");
    made.set_len(mebibytes << 20).expect("as long");
    image
}

/// The bytes that a device has in use.
fn allocated(session: &Session, device: &str) -> u64 {
    let rows = session.ok(&["zpool", "list", "-vHp", "tank"]);
    let mut rows = rows.lines().map(str::split_whitespace);
    let row = rows.find(|row| row.clone().any(|word| word.ends_with(device)));
    let allocated = row.and_then(|mut row| row.nth(2)).expect("a device");
    allocated.parse().expect("a number")
}

fn classes(session: &Session) -> String {
    let name = "feature@allocation_classes";
    let state = session.ok(&["zpool", "get", "-Ho", "value", name, "tank"]);
    state.trim().to_owned()
}

#[test]
fn a_device_is_removed_and_its_files_stay() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let more = ["b", "c"].map(|name| image(&session, name, 400));
    session.create("tank", 400, &[]);
    session.ok(&["zpool", "add", "tank", path(&more[0]), path(&more[1])]);
    session.ok(&["zfs", "create", "tank/a"]);
    let noise = noise(24);
    let file = session.mount("tank/a").join("file");
    fs::write(&file, &noise).expect("written");
    session.ok(&["zpool", "sync"]);
    let refused = session.refused(&["zpool", "remove", "-s", "tank"]);
    assert_eq!(
        refused.trim(),
        "cannot cancel removal: there is no removal in progress"
    );
    let refused = session.refused(&["zpool", "remove", "tank", "nothing"]);
    assert_eq!(
        refused.trim(),
        "cannot remove nothing: no such device in pool"
    );
    let estimate = session.ok(&["zpool", "remove", "-n", "tank", path(&more[0])]);
    let said = format!(
        "Memory that will be used after removing {}: ",
        path(&more[0])
    );
    assert!(estimate.starts_with(&said), "{estimate}");
    assert_eq!(remove_line(&session), "");
    session.ok(&["zpool", "remove", "-w", "tank", path(&more[0])]);
    let line = remove_line(&session);
    assert!(
        line.starts_with("remove: Removal of vdev 1 copied "),
        "{line}"
    );
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(!status.contains(path(&more[0])), "{status}");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    for event in [
        "vdev remove started tank vdev 1 ",
        "vdev remove completed tank vdev 1",
    ] {
        assert!(history.contains(event), "{history}");
    }
    session.ok(&["zpool", "remove", "tank", path(&more[1])]);
    session.ok(&["zpool", "wait", "-t", "remove", "tank"]);
    assert!(fs::read(&file).expect("read") == noise);
    session.export_clean("tank");
    more.iter()
        .for_each(|image| fs::remove_file(image).expect("gone"));
    session.import("tank", &[]);
    let file = session.mount("tank/a").join("file");
    assert!(fs::read(&file).expect("read") == noise);
    let labelled = session.ok(&["zpool", "list", "-H", "-o", "health", "tank"]);
    assert_eq!(labelled.trim(), "ONLINE");
    session.export_clean("tank");
}

/// As with OpenZFS: of three one goes, of two none.
#[test]
fn a_device_goes_if_datasets_have_as_much_available_as_it_has_room() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let more = ["b.img", "c.img"].map(|name| image(&session, name, 128));
    let [second, third] = [path(&more[0]), path(&more[1])];
    session.ok(&["zpool", "add", "tank", second, third]);
    let bytes = noise(20);
    let file = session.mount("tank").join("file");
    fs::write(&file, &bytes).expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    session.ok(&["zpool", "remove", "-w", "tank", third]);
    let refused = session.refused(&["zpool", "remove", "tank", second]);
    let wanted = format!("cannot remove {second}: out of space");
    assert_eq!(refused.trim(), wanted);
    assert!(fs::read(&file).expect("read") == bytes);
    session.export_clean("tank");
}

/// They are as large as the only other device: what they hold has to fit there, and not what they could.
#[test]
fn devices_of_classes_are_removed_when_normal_ones_have_room_for_what_they_hold() {
    let Some(mut session) = Session::new() else {
        return;
    };
    // Tables of the newer kind are in their logs first.
    session.create("tank", 128, &["-o", "feature@fast_dedup=disabled"]);
    let (special, dedup) = (
        image(&session, "special.img", 128),
        image(&session, "dedup.img", 128),
    );
    let (special, dedup) = (path(&special), path(&dedup));
    session.ok(&["zpool", "add", "tank", "special", special]);
    session.ok(&["zpool", "add", "tank", "dedup", dedup]);
    session.ok(&[
        "zfs",
        "create",
        "-o",
        "special_small_blocks=128K",
        "tank/small",
    ]);
    session.ok(&["zfs", "create", "-o", "dedup=on", "tank/dedup"]);
    let (large, several) = (noise(20), noise(2));
    let file = session.mount("tank/small").join("file");
    fs::write(&file, &large).expect("written");
    for name in ["one", "two"] {
        fs::write(session.mount("tank/dedup").join(name), &several).expect("written");
    }
    session.ok(&["zpool", "sync", "tank"]);
    assert!(allocated(&session, "special.img") > 20 << 20);
    assert!(allocated(&session, "dedup.img") > 0);
    for (device, state) in [(special, "active"), (dedup, "enabled")] {
        session.ok(&["zpool", "remove", "-w", "tank", device]);
        assert_eq!(classes(&session), state, "{device}");
        fs::remove_file(device).expect("gone");
    }
    session.export_clean("tank");
    session.import("tank", &[]);
    assert!(fs::read(&file).expect("read") == large);
    for name in ["one", "two"] {
        let found = fs::read(session.mount("tank/dedup").join(name));
        assert!(found.expect("read") == several);
    }
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    session.export_clean("tank");
}

#[test]
fn a_special_device_that_holds_more_than_fits_elsewhere_stays() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "special_small_blocks=128K"]);
    let (special, second) = (
        image(&session, "special.img", 256),
        image(&session, "second.img", 256),
    );
    let (special, second) = (path(&special), path(&second));
    session.ok(&["zpool", "add", "tank", "special", special]);
    let large = noise(90);
    let file = session.mount("tank").join("file");
    fs::write(&file, &large).expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    assert!(allocated(&session, "special.img") > 90 << 20);
    let refused = session.refused(&["zpool", "remove", "tank", special]);
    let wanted = format!("cannot remove {special}: out of space");
    assert_eq!(refused.trim(), wanted);
    // Not so beside another one.
    session.ok(&["zpool", "add", "tank", "special", second]);
    session.ok(&["zpool", "remove", "-w", "tank", special]);
    assert!(allocated(&session, "second.img") > 90 << 20);
    assert!(fs::read(&file).expect("read") == large);
    session.export_clean("tank");
}
