//! Devices that come and go, as a user has them.

use crate::session::{Session, path};
use std::fs;
use std::path::{Path, PathBuf};

fn image(session: &Session, name: &str, mebibytes: u64) -> PathBuf {
    let image = session.images().join(name);
    let file = fs::File::create(&image).expect("an image");
    file.set_len(mebibytes << 20).expect("its size");
    image
}

/// The rows of the configuration that `zpool status` shows: names with their depth, and states.
fn rows(session: &Session) -> Vec<String> {
    let status = session.ok(&["zpool", "status", "tank"]);
    let rows = status.lines().skip_while(|line| !line.contains("NAME"));
    let rows = rows.skip(1).take_while(|line| !line.is_empty());
    rows.map(|row| {
        let row = row.trim_start_matches('\t');
        let depth = (row.len() - row.trim_start().len()) / 2;
        let mut words = row.split_whitespace();
        let name = words.next().expect("a name");
        let name = name.rsplit('/').next().expect("its end");
        let name = name.strip_suffix(".img").unwrap_or(name);
        // A heading has none.
        let state = words.next().map(|state| format!(" {state}"));
        format!("{}{name}{}", "  ".repeat(depth), state.unwrap_or_default())
    })
    .collect()
}

const LINE: &str = "what is kept\n";

#[test]
fn a_pool_moves_to_other_devices_while_it_is_used() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let [a, b, c] = ["a.img", "b.img", "c.img"].map(|name| image(&session, name, 128));
    let first = session.images().join("tank.img");
    let file = |session: &Session| session.mount("tank").join("file");
    fs::write(file(&session), LINE.repeat(100_000)).expect("written");

    session.ok(&["zpool", "attach", "-w", "tank", path(&first), path(&a)]);
    assert_eq!(
        rows(&session),
        [
            "tank ONLINE",
            "  mirror-0 ONLINE",
            "    tank ONLINE",
            "    a ONLINE"
        ]
    );
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("scan: resilvered"), "{status}");

    session.ok(&["zpool", "replace", "-w", "tank", "tank.img", path(&b)]);
    assert_eq!(rows(&session)[2..], ["    b ONLINE", "    a ONLINE"]);
    fs::remove_file(&first).expect("it is nobody's");
    session.ok(&["zpool", "offline", "tank", "a.img"]);
    let status = session.ok(&["zpool", "status", "tank"]);
    let told = "status: One or more devices has been taken offline by the administrator.";
    assert!(status.contains(told), "{status}");
    assert!(status.contains("state: DEGRADED"), "{status}");
    assert_eq!(
        rows(&session)[1..],
        ["  mirror-0 DEGRADED", "    b ONLINE", "    a OFFLINE"]
    );
    let refused = session.refused(&["zpool", "offline", "tank", path(&b)]);
    assert_eq!(
        refused.trim(),
        format!("cannot offline {}: no valid replicas", path(&b))
    );
    let refused = session.refused(&["zpool", "detach", "tank", path(&b)]);
    assert!(refused.contains("no valid replicas"), "{refused}");
    fs::write(file(&session), LINE.repeat(120_000)).expect("written");

    // What is offline is so for the next import as well.
    session.export_clean("tank");
    session.import("tank", &[]);
    assert_eq!(rows(&session)[3], "    a OFFLINE");
    session.ok(&["zpool", "online", "tank", "a.img"]);
    session.ok(&["zpool", "wait", "-t", "resilver,replace", "tank"]);
    assert_eq!(rows(&session)[3], "    a ONLINE");
    session.ok(&["zpool", "detach", "tank", "b.img"]);
    assert_eq!(rows(&session)[1..], ["  a ONLINE"]);
    fs::remove_file(&b).expect("it is nobody's");
    session.ok(&["zpool", "replace", "-w", "tank", path(&a), path(&c)]);
    assert_eq!(rows(&session)[1..], ["  c ONLINE"]);
    fs::remove_file(&a).expect("it is nobody's");
    session.export_clean("tank");
    session.import("tank", &[]);
    let found = fs::read_to_string(file(&session)).expect("read");
    assert_eq!(found, LINE.repeat(120_000));
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    for line in ["zpool attach", "vdev attach", "zpool offline", "detach"] {
        assert!(history.contains(line), "{line}: {history}");
    }
    session.export_clean("tank");
}

#[test]
fn a_device_that_failed_is_replaced_under_its_own_path() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let images = ["a.img", "b.img"].map(|name| image(&session, name, 96));
    let first = session.images().join("tank.img");
    for new in &images {
        session.ok(&["zpool", "attach", "-w", "tank", path(&first), path(new)]);
    }
    session.export_clean("tank");
    // Another disk is in its place.
    let [a, _] = &images;
    image(&session, "a.img", 96);
    session.import("tank", &[]);
    let row = rows(&session)
        .into_iter()
        .find(|row| row.contains("UNAVAIL"));
    assert!(row.is_some());
    let status = session.ok(&["zpool", "status", "tank"]);
    assert!(status.contains(&format!("was {}", path(a))), "{status}");
    let answer = session.ok(&["zpool", "online", "tank", path(a)]);
    let warned = format!("device '{}' onlined, but remains in faulted state", path(a));
    assert!(answer.contains(&warned), "{answer}");
    session.ok(&["zpool", "offline", "-t", "tank", "b.img"]);
    session.ok(&["zpool", "replace", "tank", path(a)]);
    session.ok(&["zpool", "wait", "tank"]);
    assert_eq!(
        rows(&session)[1..],
        [
            "  mirror-0 DEGRADED",
            "    tank ONLINE",
            "    a ONLINE",
            "    b OFFLINE"
        ]
    );
    session.ok(&["zpool", "online", "tank", "b.img"]);
    session.ok(&["zpool", "wait", "tank"]);
    session.ok(&["zpool", "offline", "-f", "tank", "b.img"]);
    assert_eq!(rows(&session)[4], "    b FAULTED");
    session.ok(&["zpool", "clear", "tank"]);
    session.ok(&["zpool", "wait", "tank"]);
    assert_eq!(rows(&session)[4], "    b ONLINE");
    session.export_clean("tank");
}

#[test]
fn what_makes_no_sense_with_devices_is_refused() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let first = session.images().join("tank.img");
    let first = path(&first);
    let small = image(&session, "small.img", 70);
    let fine = image(&session, "fine.img", 128);
    let (small, fine) = (path(&small), path(&fine));
    let of = |words: &[&str]| session.refused(&[&["zpool"], words].concat());
    for (words, said) in [
        (
            vec!["attach", "tank", first, small],
            format!("cannot attach {small} to {first}: device is too small"),
        ),
        (
            vec!["replace", "tank", first, small],
            format!("cannot replace {first} with {small}: device is too small"),
        ),
        (
            vec!["attach", "-o", "ashift=13", "tank", first, fine],
            format!(
                "cannot attach {fine} to {first}: The new device cannot have a higher alignment \
                 requirement than the top-level vdev."
            ),
        ),
        (
            vec!["attach", "tank", "nosuch", fine],
            format!("cannot attach {fine} to nosuch: no such device in pool"),
        ),
        (
            vec!["attach", "tank", first, first],
            format!("cannot attach {first} to {first}: {first} is busy"),
        ),
        (
            vec!["attach", "tank", first, "/nowhere"],
            "cannot open '/nowhere': no such file or device".to_owned(),
        ),
        (
            vec!["detach", "tank", first],
            format!("cannot detach {first}: only applicable to mirror and replacing vdevs"),
        ),
        (
            vec!["offline", "tank", first],
            format!("cannot offline {first}: no valid replicas"),
        ),
        (
            vec!["online", "tank", "nosuch"],
            "cannot online nosuch: no such device in pool".to_owned(),
        ),
    ] {
        assert_eq!(of(&words).trim(), said, "{words:?}");
    }
    session.create("other", 128, &[]);
    session.export_clean("other");
    let other = session.images().join("other.img");
    let other = path(&other);
    let refused = session.refused(&["zpool", "attach", "tank", first, other]);
    let said = [
        "invalid vdev specification",
        "use '-f' to override",
        "exported pool 'other'",
    ];
    for said in said {
        assert!(refused.contains(said), "{refused}");
    }
    session.ok(&["zpool", "attach", "-f", "-w", "tank", first, other]);
    session.export_clean("tank");
}

#[test]
fn devices_are_looked_at_again_and_a_pool_gets_another_guid() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let first = session.images().join("tank.img");
    let second = image(&session, "b.img", 128);
    session.ok(&["zpool", "attach", "-w", "tank", path(&first), path(&second)]);
    session.export_clean("tank");
    let away = session.images().join("away");
    fs::create_dir(&away).expect("a folder");
    let away = away.join("b.img");
    fs::rename(&second, &away).expect("away");
    session.import("tank", &[]);
    assert!(rows(&session)[3].ends_with(" UNAVAIL"));
    fs::write(session.mount("tank").join("file"), LINE.repeat(10_000)).expect("written");
    fs::rename(&away, &second).expect("back");
    session.ok(&["zpool", "reopen", "-n", "tank"]);
    session.ok(&["zpool", "wait", "tank"]);
    assert_eq!(rows(&session)[3], "    b ONLINE");
    session.ok(&["zpool", "resilver", "tank"]);
    let guid = |session: &Session| {
        let guid = session.ok(&["zpool", "get", "-H", "-o", "value", "guid", "tank"]);
        guid.trim().to_owned()
    };
    let before = guid(&session);
    session.ok(&["zpool", "reguid", "tank"]);
    assert_ne!(guid(&session), before);
    session.ok(&["zpool", "reguid", "-g", "4711", "tank"]);
    assert_eq!(guid(&session), "4711");
    let history = session.ok(&["zpool", "history", "-i", "tank"]);
    assert!(history.contains("guid change"), "{history}");
    session.ok(&["zpool", "offline", "tank", "b.img"]);
    let refused = session.refused(&["zpool", "reguid", "tank"]);
    let said = "cannot reguid 'tank': one or more devices is currently unavailable";
    assert_eq!(refused.trim(), said);
    session.ok(&["zpool", "online", "tank", "b.img"]);
    session.ok(&["zpool", "wait", "tank"]);
    session.export_clean("tank");
}

/// The rows of the spares that `zpool status` shows.
fn spare_rows(session: &Session) -> Vec<String> {
    let rows = rows(session).into_iter();
    rows.skip_while(|row| !row.starts_with("spares"))
        .skip(1)
        .collect()
}

#[test]
fn a_spare_is_added_stands_in_and_is_removed() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let first = session.images().join("tank.img");
    let first = path(&first);
    let (b, s) = (image(&session, "b.img", 128), image(&session, "s.img", 128));
    let (b, s) = (path(&b), path(&s));
    session.ok(&["zpool", "attach", "-w", "tank", first, b]);
    session.ok(&["zpool", "add", "tank", "spare", s]);
    assert_eq!(spare_rows(&session), ["  s AVAIL"]);
    fs::write(session.mount("tank").join("file"), LINE.repeat(10_000)).expect("written");
    session.ok(&["zpool", "offline", "tank", "b.img"]);
    session.ok(&["zpool", "replace", "-w", "tank", "b.img", s]);
    session.ok(&["zpool", "wait", "-t", "resilver", "tank"]);
    assert_eq!(
        rows(&session)[3..6],
        ["    spare-1 DEGRADED", "      b OFFLINE", "      s ONLINE"]
    );
    assert_eq!(spare_rows(&session), ["  s INUSE"]);
    let refused = session.refused(&["zpool", "remove", "tank", s]);
    assert_eq!(
        refused.trim(),
        format!("cannot remove {s}: device is in use")
    );
    session.ok(&["zpool", "detach", "tank", "s.img"]);
    assert_eq!(spare_rows(&session), ["  s AVAIL"]);
    session.ok(&["zpool", "online", "tank", "b.img"]);
    session.ok(&["zpool", "wait", "tank"]);
    session.ok(&["zpool", "remove", "tank", "s.img"]);
    assert!(spare_rows(&session).is_empty());
    let twice = ["zpool", "add", "-n", "tank", "spare", s, "spare", s];
    let refused = session.refused(&twice);
    assert!(
        refused.contains("'spare' can be specified only once"),
        "{refused}"
    );
    session.export_clean("tank");
}

/// Noise over all of an image but its labels.
fn spoil(image: &Path) {
    use std::os::unix::fs::FileExt;
    const PIECE: u64 = 1 << 20;
    let file = fs::File::options().write(true).open(image).expect("opened");
    let length = file.metadata().expect("its size").len();
    let noise: Vec<u8> = (0..PIECE)
        .map(|at| ((at * 2_654_435_761) >> 13) as u8)
        .collect();
    for at in (5 * PIECE..length - 2 * PIECE).step_by(PIECE as usize) {
        file.write_all_at(&noise, at).expect("written");
    }
}

#[test]
fn a_device_with_too_many_errors_is_degraded_as_its_properties_say() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let first = session.images().join("tank.img");
    let spoiled = image(&session, "b.img", 128);
    let s = image(&session, "s.img", 128);
    let (b, s) = (path(&spoiled), path(&s));
    session.ok(&["zpool", "attach", "-w", "tank", path(&first), b]);
    session.ok(&["zpool", "add", "tank", "spare", s]);
    fs::write(session.mount("tank").join("file"), LINE.repeat(10_000)).expect("written");
    session.ok(&["zpool", "set", "checksum_n=1000000", "tank", b]);
    spoil(&spoiled);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    session.ok(&["zpool", "sync", "tank"]);
    assert_eq!(rows(&session)[3], "    b ONLINE");
    session.ok(&["zpool", "clear", "tank"]);
    // Ten in ten minutes where nothing is set.
    session.ok(&["zpool", "set", "checksum_n=none", "tank", b]);
    spoil(&spoiled);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    session.ok(&["zpool", "sync", "tank"]);
    let begun = std::time::Instant::now();
    while spare_rows(&session) != ["  s INUSE"] {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", rows(&session));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let status = session.ok(&["zpool", "status", "tank"]);
    let row = status.lines().find(|line| line.contains("b.img "));
    let row = row.expect("its row");
    assert!(
        row.contains("DEGRADED") && row.ends_with("too many errors"),
        "{status}"
    );
    session.ok(&["zpool", "wait", "tank"]);
    session.ok(&["zpool", "clear", "tank"]);
    let begun = std::time::Instant::now();
    while spare_rows(&session) != ["  s AVAIL"] {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", rows(&session));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(rows(&session)[3], "    b ONLINE");
    session.export_clean("tank");
}

/// Labels say nothing of spares; the list of pools that could be imported has them all the same.
#[test]
fn spares_are_listed_before_an_import() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let images = session.images();
    let [data, spare] = ["a.img", "s.img"].map(|name| images.join(name));
    for image in [&data, &spare] {
        let file = std::fs::File::create(image).and_then(|file| file.set_len(96 << 20));
        file.expect("a file");
    }
    session.create_of("tank", &[path(&data), "spare", path(&spare)], &[]);
    session.export("tank");
    let listed = session.ok(&["zpool", "import", "-d", path(&images)]);
    let group = format!("\tspares\n\t  {}\n", path(&spare));
    assert!(listed.ends_with(&group), "{listed}");
}

/// The first part of the line is done when the second one fails: its file is the pool's by then.
#[test]
fn a_file_that_came_into_the_pool_stays_when_the_rest_of_an_addition_fails() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.create("other", 96, &[]);
    let (new, spare) = (
        session.images().join("new.img"),
        session.images().join("s.img"),
    );
    let used = session.images().join("other.img");
    assert!(used.exists(), "the other pool's image");
    let line = ["zpool", "add", "--size", "96M", "tank", path(&new), "spare"];
    let told = session.refused(&[&line[..], &[path(&spare), path(&used)]].concat());
    assert!(told.contains("other"), "{told}");
    assert!(new.exists() && !spare.exists(), "{told}");
    fs::write(session.mount("tank").join("kept"), LINE).expect("written");
    session.export("other");
    session.export_clean("tank");
    session.import("tank", &[]);
    assert_eq!(
        fs::read_to_string(session.mount("tank").join("kept")).expect("read"),
        LINE
    );
    session.export_clean("tank");
}
