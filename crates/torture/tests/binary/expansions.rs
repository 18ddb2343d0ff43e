//! RAID-Z vdevs that get another child, as a user has them.

use crate::session::{Session, path};
use std::fs;
use std::path::{Path, PathBuf};

fn device(session: &Session, name: &str, mebibytes: u64) -> PathBuf {
    let image = session.images().join(name);
    let file = fs::File::create(&image).expect("an image");
    file.set_len(mebibytes << 20).expect("its size");
    image
}

fn devices(session: &Session, count: usize) -> Vec<PathBuf> {
    let names = (0..count).map(|number| format!("d{number}.img"));
    names.map(|name| device(session, &name, 96)).collect()
}

fn create(session: &mut Session, kind: &str, devices: &[PathBuf], options: &[&str]) {
    let mut vdev = vec![kind];
    vdev.extend(devices.iter().map(|device| path(device)));
    session.create_of("tank", &vdev, options);
}

fn size(session: &Session) -> u64 {
    let size = session.ok(&["zpool", "list", "-Hpo", "size", "tank"]);
    size.trim().parse().expect("a number")
}

/// Some files, whose contents follow from their names.
fn write(folder: &Path, count: usize) {
    for number in 0..count {
        let line = format!("file {number} has this line many times\n");
        fs::write(folder.join(number.to_string()), line.repeat(20_000)).expect("written");
    }
}

fn same(folder: &Path, count: usize) {
    for number in 0..count {
        let line = format!("file {number} has this line many times\n");
        let found = fs::read(folder.join(number.to_string())).expect("it is there");
        assert!(found == line.repeat(20_000).as_bytes(), "{number}");
    }
}

#[test]
fn a_raidz_is_expanded_twice_while_it_is_used() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = devices(&session, 6);
    create(&mut session, "raidz1", &devices[..3], &[]);
    let root = session.mount("tank");
    write(&root, 20);
    session.ok(&["zpool", "sync", "tank"]);
    let before = size(&session);

    session.ok(&["zpool", "attach", "tank", "raidz1-0", path(&devices[3])]);
    let again = session.refused(&["zpool", "attach", "tank", "raidz1-0", path(&devices[4])]);
    let is_done = !again.contains("raidz expansion in progress");
    write(&root, 40);
    session.ok(&["zpool", "wait", "-t", "raidz_expand", "tank"]);
    assert!(!is_done, "{again}");
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        status.contains("\nexpand: expanded raidz1-0 copied "),
        "{status}"
    );
    let wider = size(&session);
    assert!(wider > before + (64 << 20), "{before} {wider}");
    same(&root, 40);

    session.ok(&[
        "zpool",
        "attach",
        "-w",
        "tank",
        "raidz1-0",
        path(&devices[4]),
    ]);
    assert!(size(&session) > wider + (64 << 20));
    write(&root, 60);
    session.ok(&["zpool", "wait", "-t", "scrub", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    for text in [
        "raidz vdev expansion started tank vdev 0 new width 4",
        "raidz vdev expansion completed tank vdev 0 new width 5",
        "vdev attach attach vdev=",
        "zpool attach -w tank raidz1-0",
    ] {
        assert!(history.contains(text), "{text}: {history}");
    }
    let feature = [
        "zpool",
        "get",
        "-Ho",
        "value",
        "feature@raidz_expansion",
        "tank",
    ];
    assert_eq!(session.ok(&feature).trim(), "active");
    session.export_clean("tank");

    // Any of them may be away.
    fs::remove_file(&devices[1]).expect("it was there");
    session.import("tank", &[]);
    same(&session.mount("tank"), 60);
    session.export_clean("tank");
}

#[test]
fn an_expansion_waits_for_a_device_and_goes_on_after_an_import() {
    let Some(mut session) = Session::new() else {
        return;
    };
    // Little is moved at a time, so that it is not over at once.
    session.limit("pool.reflow_slice_bytes=1048576");
    let devices = devices(&session, 6);
    create(
        &mut session,
        "raidz2",
        &devices[..4],
        &["-O", "compression=off"],
    );
    let root = session.mount("tank");
    write(&root, 60);
    session.ok(&["zpool", "sync", "tank"]);
    session.ok(&["zpool", "attach", "tank", "raidz2-0", path(&devices[4])]);
    session.ok(&["zpool", "offline", "tank", "d1.img"]);
    let refused = session.refused(&["zpool", "checkpoint", "tank"]);
    assert!(refused.contains("raidz expansion in progress"), "{refused}");
    fs::write(root.join("late"), "written while it waits").expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    let told = "expand: expansion of raidz2-0 in progress since";
    assert!(status.contains(told), "{status}");
    session.export_clean("tank");
    session.import("tank", &[]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains(told), "{status}");
    assert!(status.contains("paused for resilver or clear"), "{status}");
    let expanding = [
        "zpool",
        "get",
        "-Ho",
        "value",
        "raidz_expanding",
        "tank",
        "raidz2-0",
    ];
    assert_eq!(session.ok(&expanding).trim(), "on");
    same(&session.mount("tank"), 60);
    session.ok(&["zpool", "online", "tank", "d1.img"]);
    session.ok(&["zpool", "wait", "-t", "raidz_expand", "tank"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("expand: expanded raidz2-0"), "{status}");
    assert_eq!(session.ok(&expanding).trim(), "off");
    same(&session.mount("tank"), 60);
    session.export_clean("tank");
}

#[test]
fn what_cannot_be_expanded_is_refused_in_words() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices = devices(&session, 4);
    let small = device(&session, "small.img", 70);
    let options = ["-o", "feature@raidz_expansion=disabled"];
    create(&mut session, "raidz1", &devices[..3], &options);
    let attach = |session: &Session, device: &Path| {
        session.refused(&["zpool", "attach", "tank", "raidz1-0", path(device)])
    };
    assert_eq!(
        attach(&session, &devices[3]).trim(),
        format!(
            "cannot attach {} to raidz1-0: raidz_expansion feature must be enabled in order to \
             attach a device to raidz",
            path(&devices[3])
        )
    );
    session.ok(&["zpool", "set", "feature@raidz_expansion=enabled", "tank"]);
    assert_eq!(
        attach(&session, &small).trim(),
        format!(
            "cannot attach {} to raidz1-0: device is too small",
            path(&small)
        )
    );
    let refused = session.refused(&["zpool", "attach", "tank", "d0.img", path(&devices[3])]);
    let told = "can only attach to mirrors and top-level disks";
    assert!(refused.contains(told), "{refused}");
    session.ok(&["zpool", "offline", "tank", "d0.img"]);
    let refused = attach(&session, &devices[3]);
    let told = "one or more devices is currently unavailable";
    assert!(refused.contains(told), "{refused}");
    session.ok(&["zpool", "online", "tank", "d0.img"]);
    session.ok(&["zpool", "checkpoint", "tank"]);
    let refused = attach(&session, &devices[3]);
    assert!(refused.contains("checkpoint exists"), "{refused}");
    session.export("tank");
}
