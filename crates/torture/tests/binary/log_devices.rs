//! Log devices as a user has them: made, shown, added, removed, lost.

use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::MetadataExt;

fn write_durably(session: &Session, name: &str) {
    let file = session.mount("tank").join(name);
    fs::write(&file, name).expect("written");
    fs::File::open(&file)
        .and_then(|file| file.sync_all())
        .expect("fsync");
}

#[test]
fn log_devices_come_and_go() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let image = |name: &str| session.images().join(name);
    let [log, more, data] = ["log.img", "more.img", "data.img"].map(image);
    for (file, size) in [(&log, 96_u64), (&more, 96), (&data, 128)] {
        let file = fs::File::create(file).expect("an image");
        file.set_len(size << 20).expect("its size");
    }
    session.create("tank", 128, &[]);
    session.ok(&["zpool", "add", "tank", "log", path(&log)]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        status.contains(&format!("\tlogs\t\n\t  {} ", path(&log))),
        "{status}"
    );
    let written = || fs::metadata(&log).expect("the log").blocks();
    let before = written();
    for name in ["a", "b", "c"] {
        write_durably(&session, name);
    }
    assert!(written() > before, "log blocks go to the log device");
    session.ok(&["zpool", "add", "tank", path(&data)]);
    let refused = session.refused(&["zpool", "add", "tank", "mirror", path(&more), "/nowhere"]);
    assert!(refused.contains("cannot open '/nowhere'"), "{refused}");
    session.export_clean("tank");

    // Without its log device the pool says what is missing, and what helps.
    let away = session.images().join("../away.img");
    fs::rename(&log, &away).expect("moved");
    let images = session.images();
    let refused = session.refused(&["zpool", "import", "-d", path(&images), "tank"]);
    assert!(
        refused.contains("one or more devices is currently unavailable")
            && refused.contains("use '-m' to import")
            && refused.contains("log.img"),
        "{refused}"
    );
    session.import("tank", &["-m"]);
    write_durably(&session, "d");
    session.ok(&["zpool", "add", "tank", "log", path(&more)]);
    let status = session.ok(&["zpool", "status", "-g", "tank"]);
    assert!(status.contains("state: DEGRADED"), "{status}");
    let lines: Vec<&str> = status.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("\tlogs"));
    let lost = lines[head.expect("logs") + 1];
    let guid = lost.split_whitespace().next().expect("a guid");
    session.ok(&["zpool", "remove", "tank", guid]);
    session.ok(&["zpool", "remove", "tank", path(&more)]);
    let refused = session.refused(&["zpool", "remove", "tank", path(&more)]);
    assert!(refused.contains("no such device in pool"), "{refused}");
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        !status.contains("logs") && status.contains("state: ONLINE"),
        "{status}"
    );
    write_durably(&session, "e");
    session.export_clean("tank");
    session.import("tank", &[]);
    for name in ["a", "b", "c", "d", "e"] {
        let found = fs::read_to_string(session.mount("tank").join(name));
        assert_eq!(found.expect("it is there"), name);
    }
    session.export_clean("tank");
}

/// The row of a device in `zpool status`, and the pool's state.
fn states(session: &Session, device: &std::path::Path) -> (String, String) {
    let status = session.ok(&["zpool", "status", "tank"]);
    let word = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let mut lines = status.lines();
    let pool = lines.find(|line| line.starts_with(" state: "));
    let row = lines.find(|line| line.trim_start().starts_with(path(device)));
    let found = |line: Option<&str>| line.and_then(word).unwrap_or_else(|| panic!("{status}"));
    (found(row), found(pool))
}

fn states_of(session: &Session, device: &std::path::Path, wanted: [&str; 2]) {
    let (device, pool) = states(session, device);
    assert_eq!([&*device, &*pool], wanted);
}

/// As devices that failed; both sides of a mirror.
fn out_of_use_by_hand(session: &mut Session, log: &std::path::Path, side: &std::path::Path) {
    session.ok(&["zpool", "attach", "tank", path(log), path(side)]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    session.ok(&["zpool", "offline", "-f", "tank", path(log)]);
    session.ok(&["zpool", "offline", "tank", path(side)]);
    states_of(session, log, ["FAULTED", "DEGRADED"]);
    states_of(session, side, ["OFFLINE", "DEGRADED"]);
    write_durably(session, "k");
    session.export_clean("tank");
    session.import("tank", &[]);
    states_of(session, log, ["FAULTED", "DEGRADED"]);
    session.ok(&["zpool", "online", "tank", path(side)]);
    write_durably(session, "l");
    session.ok(&["zpool", "clear", "tank"]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    states_of(session, log, ["ONLINE", "ONLINE"]);
    states_of(session, side, ["ONLINE", "ONLINE"]);
}

#[test]
fn the_last_log_device_goes_out_of_use_and_comes_back() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let image = |name: &str| session.images().join(name);
    let [log, side] = ["log.img", "side.img"].map(image);
    for file in [&log, &side] {
        let file = fs::File::create(file).expect("an image");
        file.set_len(96 << 20).expect("its size");
    }
    session.create("tank", 128, &[]);
    session.ok(&["zpool", "add", "tank", "log", path(&log)]);
    let written = || fs::metadata(&log).expect("the log").blocks();
    write_durably(&session, "a");
    session.ok(&["zpool", "offline", "tank", path(&log)]);
    states_of(&session, &log, ["OFFLINE", "DEGRADED"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(
        status.contains("taken offline by the administrator"),
        "{status}"
    );
    let before = written();
    write_durably(&session, "b");
    assert_eq!(written(), before, "nothing goes there");
    let data = session.images().join("tank.img");
    let refused = session.refused(&["zpool", "offline", "tank", path(&data)]);
    assert!(refused.contains("no valid replicas"), "{refused}");
    session.export_clean("tank");

    // Nobody misses it.
    let away = session.images().join("../away.img");
    fs::rename(&log, &away).expect("moved");
    session.import("tank", &[]);
    states_of(&session, &log, ["OFFLINE", "DEGRADED"]);
    write_durably(&session, "c");
    session.export("tank");
    fs::rename(&away, &log).expect("moved");
    session.import("tank", &[]);
    states_of(&session, &log, ["OFFLINE", "DEGRADED"]);
    session.ok(&["zpool", "online", "tank", path(&log)]);
    states_of(&session, &log, ["ONLINE", "ONLINE"]);
    let before = written();
    for name in ["d", "e", "f", "g", "h", "i"] {
        write_durably(&session, name);
        session.ok(&["zpool", "sync", "tank"]);
    }
    assert!(written() > before, "log blocks go there again");

    // Until the next import.
    session.ok(&["zpool", "offline", "-t", "tank", path(&log)]);
    states_of(&session, &log, ["OFFLINE", "DEGRADED"]);
    write_durably(&session, "j");
    session.export_clean("tank");
    session.import("tank", &[]);
    states_of(&session, &log, ["ONLINE", "ONLINE"]);

    out_of_use_by_hand(&mut session, &log, &side);
    for name in ["a", "b", "c", "d", "j", "k", "l"] {
        let found = fs::read_to_string(session.mount("tank").join(name));
        assert_eq!(found.expect("it is there"), name);
    }
    session.export_clean("tank");
}

#[test]
fn small_blocks_go_to_special_devices_while_these_have_room() {
    const MIB: u64 = 1 << 20;
    let Some(mut session) = Session::new() else {
        return;
    };
    let special = session.images().join("special.img");
    let file = fs::File::create(&special).expect("an image");
    file.set_len(96 << 20).expect("its size");
    session.create("tank", 256, &[]);
    session.ok(&["zpool", "add", "tank", "special", path(&special)]);
    for (name, record) in [("small", "recordsize=4K"), ("large", "recordsize=16K")] {
        let name = format!("tank/{name}");
        let limit = "special_small_blocks=8K";
        session.ok(&["zfs", "create", "-o", limit, "-o", record, &name]);
    }
    // Size and allocated bytes of the special device.
    let space = || {
        let rows = session.ok(&["zpool", "list", "-vHp", "tank"]);
        let row = rows.lines().find(|row| row.contains("special.img"));
        let row = row.expect("the device is listed");
        let mut words = row.split_whitespace().skip(1);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        (number().expect("size"), number().expect("allocated"))
    };
    let write = |name: &str, mebibytes: u64| {
        let bytes = (0..mebibytes * MIB / 8).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let bytes: Vec<u8> = bytes.flat_map(u64::to_le_bytes).collect();
        fs::write(session.mount(&format!("tank/{name}")), bytes).expect("written");
        session.ok(&["zpool", "sync", "tank"]);
        space().1
    };
    let empty = space().1;
    let large = write("large/file", 16);
    assert!(large < empty + 2 * MIB, "{empty}, then {large} bytes");
    let small = write("small/file", 16);
    assert!(small > large + 16 * MIB, "{large}, then {small} bytes");
    // The last quarter is for metadata; what has no room goes to the other devices. Indirect blocks are there as well,
    // 6 MiB at the end and as much again that rests for each txg in which they were rewritten: how many txgs there are
    // follows from the time that writing takes.
    let full = write("small/more", 96);
    let size = space().0;
    let (min, max) = (size / 100 * 60, size / 100 * 92);
    assert!((min..max).contains(&full), "{full} of {size} bytes");
    session.export_clean("tank");
}
