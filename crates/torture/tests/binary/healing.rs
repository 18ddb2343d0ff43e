//! `zfs receive -c`: blocks that are spoilt in all copies are what they were once the snapshot's stream came by, and
//! what cannot be healed is told.

use crate::receiving::noise;
use crate::session::{Session, path};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Output;

/// Turns bits over wherever an image has these bytes; how often.
fn spoil(session: &Session, wanted: &[u8]) -> usize {
    let image = session.images().join("tank.img");
    let bytes = fs::read(&image).expect("the image");
    let file = File::options().write(true).open(&image).expect("the image");
    // Blocks begin at sectors.
    let found = (0..bytes.len()).step_by(512);
    let found = found.filter(|at| bytes[*at..].starts_with(wanted));
    found
        .inspect(|at| {
            let wrong: Vec<u8> = wanted.iter().map(|byte| byte ^ 0x5a).collect();
            file.write_all_at(&wrong, *at as u64).expect("written");
        })
        .count()
}

fn heal(session: &Session, stream: &str, arguments: &str) -> Output {
    let file = session.images().with_file_name(stream);
    session.shell(
        &format!("$0 zfs receive -c {arguments} < {}", path(&file)),
        &[],
    )
}

fn send(session: &Session, what: &str, stream: &str) {
    let file = session.images().with_file_name(stream);
    let sent = session.shell(&format!("$0 zfs send {what} > {}", path(&file)), &[]);
    assert!(sent.status.success(), "{sent:?}");
}

fn said(output: &Output) -> String {
    let (out, errors) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(errors)
    )
}

#[test]
fn spoilt_files_are_healed_and_told_if_not() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off", "-O", "copies=2"]);
    session.ok(&["zfs", "create", "tank/a"]);
    let root = session.mount("tank/a");
    let (first, second) = (noise(500_000), noise(300_001));
    fs::write(root.join("first"), &first).expect("written");
    session.ok(&["zfs", "snapshot", "tank/a@1"]);
    fs::write(root.join("second"), &second).expect("written");
    session.ok(&["zfs", "snapshot", "tank/a@2"]);
    send(&session, "tank/a@1", "full");
    send(&session, "-i @1 tank/a@2", "next");
    session.export("tank");
    // The third record of the one, the first of the other, both in both copies.
    assert_eq!(spoil(&session, &first[262_144..262_656]), 2);
    assert_eq!(spoil(&session, &second[..512]), 2);
    session.import("tank", &[]);
    assert!(fs::read(root.join("first")).is_err());
    assert!(fs::read(root.join("second")).is_err());

    let refused = heal(&session, "full", "tank/a@2");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("another snapshot than the stream's"),
        "{}",
        said(&refused)
    );
    let refused = heal(&session, "full", "tank/a@3");
    assert!(
        said(&refused).contains("destination 'tank/a@3' does not exist"),
        "{}",
        said(&refused)
    );
    let refused = heal(&session, "full", "-F tank/a@1");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let would = said(&heal(&session, "full", "-nv tank/a@1"));
    assert_eq!(
        would,
        "would receive corrective stream of tank/a@1 into tank/a@1\n"
    );
    assert!(fs::read(root.join("first")).is_err());

    let healed = heal(&session, "full", "-v tank/a@1");
    let text = said(&healed);
    assert!(healed.status.success(), "{text}");
    assert!(
        text.starts_with("receiving corrective stream of tank/a@1 into tank/a@1\nhealed 1 blocks (128K)\nreceived "),
        "{text}"
    );
    assert!(fs::read(root.join("first")).expect("it is healed") == first);
    assert!(fs::read(root.join("second")).is_err());
    // The name of the snapshot is the stream's.
    let healed = heal(&session, "next", "tank/a");
    assert!(healed.status.success(), "{}", said(&healed));
    assert!(fs::read(root.join("second")).expect("it is healed") == second);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = session.ok(&["zpool", "status", "-v", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    assert!(status.contains("errors: No known data errors"), "{status}");
    session.export_clean("tank");
}
