//! `zpool remove` of devices that hold data, with the real binary.

use crate::session::{Session, path};
use std::fs;

fn remove_line(session: &Session) -> String {
    let status = session.ok(&["zpool", "status", "tank"]);
    let mut lines = status.lines().filter(|line| line.starts_with("remove:"));
    lines.next().unwrap_or_default().to_owned()
}

#[test]
fn a_device_is_removed_and_its_files_stay() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let more: Vec<_> = ["b", "c"]
        .iter()
        .map(|name| session.images().join(name))
        .collect();
    for image in &more {
        let made = fs::File::create(image).expect("made");
        made.set_len(400 << 20).expect("as long");
    }
    session.create("tank", 400, &[]);
    session.ok(&["zpool", "add", "tank", path(&more[0]), path(&more[1])]);
    session.ok(&["zfs", "create", "tank/a"]);
    let noise: Vec<u8> = (0..24_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
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
