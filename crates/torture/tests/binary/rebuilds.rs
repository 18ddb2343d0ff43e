//! Sequential resilvers (`zpool attach -s`, `replace -s`), as a user has them.

use crate::session::{Session, path};
use std::fs;
use std::path::{Path, PathBuf};

fn image(session: &Session, name: &str) -> PathBuf {
    let image = session.images().join(name);
    let file = fs::File::create(&image).expect("an image");
    file.set_len(192 << 20).expect("its size");
    image
}

fn fill(session: &Session, name: &str) {
    let bytes = super::receiving::noise(20 << 20);
    fs::write(session.mount("tank").join(name), bytes).expect("written");
}

fn is_there(session: &Session, name: &str) {
    let found = fs::read(session.mount("tank").join(name)).expect("read");
    assert!(found == super::receiving::noise(20 << 20), "{name}");
}

/// The lines of `zpool status` about scrubs and resilvers.
fn scans(session: &Session) -> Vec<String> {
    let status = session.ok(&["zpool", "status", "tank"]);
    let lines = status.lines().filter(|line| line.contains("scan: "));
    lines.map(|line| line.trim_start().to_owned()).collect()
}

/// Waits for the scrub that begins by itself; the pool has everything without the files that are taken away.
fn close_without(session: &mut Session, gone: &[&Path]) {
    session.ok(&["zpool", "wait", "-t", "resilver,replace,scrub", "tank"]);
    let shown = scans(session);
    let scrubbed = "scan: scrub repaired 0B in ";
    assert!(shown[0].starts_with(scrubbed), "{shown:?}");
    assert!(shown[0].contains("with 0 errors"), "{shown:?}");
    session.export_clean("tank");
    for device in gone {
        fs::remove_file(device).expect("removed");
    }
    session.import("tank", &[]);
    is_there(session, "before");
    is_there(session, "after");
    session.export("tank");
}

#[test]
fn a_device_is_attached_and_replaced_in_sequence() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 192, &[]);
    let first = session.images().join("tank.img");
    let [a, b] = ["a.img", "b.img"].map(|name| image(&session, name));
    fill(&session, "before");
    session.ok(&[
        "zpool",
        "attach",
        "-s",
        "-w",
        "tank",
        path(&first),
        path(&a),
    ]);
    let shown = scans(&session);
    let done = |line: &String| {
        line.starts_with("scan: resilvered (mirror-0) ") && line.contains("with 0 errors on")
    };
    assert!(shown.iter().any(done), "{shown:?}");
    session.ok(&["zpool", "wait", "-t", "scrub", "tank"]);
    session.ok(&["zpool", "replace", "-s", "tank", path(&first), path(&b)]);
    fill(&session, "after");
    session.ok(&["zpool", "wait", "-t", "resilver,replace", "tank"]);
    let events = session.ok(&["zpool", "events", "-v", "tank"]);
    for word in [
        "resilver_start",
        "resilver_finish",
        "\"sequential\"",
        "scrub_start",
    ] {
        assert!(events.contains(word), "{word}: {events}");
    }
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("rebuild"), "{history}");
    let feature = [
        "zpool",
        "get",
        "-Ho",
        "value",
        "feature@device_rebuild",
        "tank",
    ];
    assert_eq!(session.ok(&feature), "enabled\n");
    fs::remove_file(&first).expect("it is nobody's");
    close_without(&mut session, &[&a]);
}

#[test]
fn a_distributed_spare_is_filled_in_sequence() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices: Vec<_> = (0..5)
        .map(|number| image(&session, &format!("{number}.img")))
        .collect();
    let mut vdevs = vec!["draid1:2d:1s"];
    vdevs.extend(devices.iter().map(|device| path(device)));
    session.create_of("tank", &vdevs, &[]);
    fill(&session, "before");
    session.ok(&["zpool", "offline", "tank", path(&devices[1])]);
    fill(&session, "after");
    let line = [
        "zpool",
        "replace",
        "-s",
        "-w",
        "tank",
        path(&devices[1]),
        "draid1-0-0",
    ];
    session.ok(&line);
    let shown = scans(&session);
    let done = |line: &String| line.starts_with("scan: resilvered (draid1:2d:5c:1s-0) ");
    assert!(shown.iter().any(done), "{shown:?}");
    close_without(&mut session, &[&devices[1], &devices[3]]);
}

#[test]
fn what_cannot_be_filled_in_sequence_is_refused() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let devices: Vec<_> = (0..4)
        .map(|number| image(&session, &format!("{number}.img")))
        .collect();
    let mut vdevs = vec!["raidz"];
    vdevs.extend(devices[..3].iter().map(|device| path(device)));
    session.create_of("tank", &vdevs, &[]);
    let (old, new) = (path(&devices[0]), path(&devices[3]));
    let only = "only mirror and dRAID vdevs support sequential reconstruction";
    let refused = session.refused(&["zpool", "replace", "-s", "tank", old, new]);
    assert_eq!(
        refused.trim(),
        format!("cannot replace {old} with {new}: {only}")
    );
    let refused = session.refused(&["zpool", "attach", "-s", "tank", "raidz1-0", new]);
    assert_eq!(
        refused.trim(),
        format!("cannot attach {new} to raidz1-0: {only}")
    );
    session.export_clean("tank");
}
