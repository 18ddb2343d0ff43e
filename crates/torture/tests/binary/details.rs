//! What `zpool status` shows when it is asked for more, and what was written since a bookmark.

use crate::session::{Session, path};
use std::fs;

/// As OpenZFS 2.3 prints a pool that was never trimmed nor initialized.
#[test]
fn status_shows_details() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let text = session.ok(&[
        "zpool", "status", "-s", "-t", "-i", "-P", "-L", "-D", "tank",
    ]);
    let image = session.images().join("tank.img");
    let (name, image) = ("NAME", path(&image));
    let width = image.len() + 2;
    let expected = format!(
        "config:\n\n\
         \t{name:width$}  STATE     READ WRITE CKSUM  SLOW\n\
         \t{:width$}  ONLINE       0     0     0     -\n\
         \t  {image}  ONLINE       0     0     0     0  (uninitialized)  (untrimmed)\n\
         \nerrors: No known data errors\n\
         \n dedup: no DDT entries\n",
        "tank"
    );
    assert!(text.ends_with(&expected), "{text}{expected}");
    let text = session.ok(&[
        "zpool", "status", "-e", "-d", "--power", "-v", "-x", "-p", "-g",
    ]);
    assert_eq!(text, "all pools are healthy\n");
    let json = session.ok(&["zpool", "status", "-j", "-s", "-t", "-i", "-D", "tank"]);
    for member in [
        "\"slow_ios\": \"0\"",
        "\"init_state\": \"UNINITIALIZED\"",
        "\"trim_state\": \"UNTRIMMED\"",
        "\"trim_notsup\": \"0\"",
        "\"obj_count\": \"0\"",
    ] {
        assert!(json.contains(member), "{member}: {json}");
    }
    let json = session.ok(&["zpool", "status", "-j", "tank"]);
    assert!(
        !json.contains("trim_state") && !json.contains("dedup_stats"),
        "{json}"
    );
}

/// The histogram is the one that zdb prints.
#[test]
fn dedup_tables_are_shown_as_zdb_shows_them() {
    let (Some(mut session), Some(zdb)) = (Session::new(), golden::Zdb::from_environment()) else {
        return;
    };
    let Some(pool) = golden::pool("codecs") else {
        return;
    };
    let (name, images) = (pool.pool_name(), pool.images());
    session.bring(&images);
    let output = zdb.run(&session.images(), &["-DD"], &[&name]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = shown.split_once("\nbucket ").expect("a histogram");
    let table = rest.split("\n\n").next().expect("a table").trim_end();
    session.import(&name, &["-o", "readonly=on", "-N"]);
    let text = session.ok(&["zpool", "status", "-D", &name]);
    assert!(text.contains("\n dedup: DDT entries 4, size "), "{text}");
    assert!(text.trim_end().ends_with(table), "{text}\n{table}");
    session.export(&name);
}

/// Waits until what was removed from these datasets of `tank`, which is freed in the background, is free.
fn settle(session: &Session, datasets: &[&str]) {
    for dataset in datasets {
        session.ok(&["zfs", "wait", dataset]);
    }
    for _ in 0..3 {
        session.ok(&["zpool", "sync", "tank"]);
    }
}

/// What came after the older snapshot and went again after a later one was written, but is not there any more.
#[test]
fn written_since_a_snapshot_is_what_is_there_still() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off", "-O", "atime=off"]);
    let root = session.mount("tank");
    let noise = vec![0xA5_u8; 1 << 20];
    for (name, snapshot) in [("a", "tank@one"), ("b", "tank@two")] {
        fs::write(root.join(name), &noise).expect("written");
        session.ok(&["zfs", "snapshot", snapshot]);
    }
    let number = |property: &str, dataset: &str| {
        let text = session.ok(&["zfs", "get", "-Hp", "-o", "value", property, dataset]);
        text.trim_end().parse::<u64>().expect("a number")
    };
    let written = number("written@one", "tank");
    assert_eq!(written, number("written@one", "tank@two"));
    assert!(written > 1 << 20, "{written}");
    let source = session.ok(&["zfs", "get", "-H", "-o", "source", "written@one", "tank"]);
    assert_eq!(source, "local\n");
    fs::remove_file(root.join("b")).expect("removed");
    settle(&session, &["tank"]);
    let written = number("written@one", "tank");
    assert!(written < 512 << 10, "{written}");
    // What the older one has was not written since, wherever it went.
    fs::remove_file(root.join("a")).expect("removed");
    settle(&session, &["tank"]);
    let written = number("written@one", "tank");
    assert!(written < 512 << 10, "{written}");
    session.export_clean("tank");
}

/// The figure of a bookmark goes on when its snapshot is gone: equal to a twin's that keeps it.
#[test]
fn written_since_a_bookmark() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 160, &["-O", "compression=off", "-O", "atime=off"]);
    let noise = vec![0xA5_u8; 1 << 20];
    let twins = ["tank/keeps", "tank/drops"];
    let each = |act: &dyn Fn(&str)| twins.iter().for_each(|twin| act(twin));
    let write = |twin: &str, name: &str| {
        fs::write(session.mount(twin).join(name), &noise).expect("written");
    };
    let remove = |twin: &str, name: &str| {
        fs::remove_file(session.mount(twin).join(name)).expect("removed");
    };
    let number = |twin: &str, property: &str| {
        let text = session.ok(&["zfs", "get", "-Hp", "-o", "value", property, twin]);
        let text = text.trim_end().to_owned();
        text.parse::<u64>()
            .unwrap_or_else(|_| panic!("{property} of {twin}: {text}"))
    };
    each(&|twin| {
        session.ok(&["zfs", "create", twin]);
        for name in ["a", "b", "c"] {
            write(twin, name);
        }
        session.ok(&["zfs", "snapshot", &format!("{twin}@one")]);
        session.ok(&[
            "zfs",
            "bookmark",
            &format!("{twin}@one"),
            &format!("{twin}#one"),
        ]);
        write(twin, "d");
        remove(twin, "a");
    });
    settle(&session, &twins);
    for twin in twins {
        let written = number(twin, "written#one");
        assert_eq!(written, number(twin, "written@one"));
        assert!(written > 1 << 20, "{written}");
    }
    session.ok(&["zfs", "destroy", "tank/drops@one"]);
    each(&|twin| {
        write(twin, "e");
        remove(twin, "b");
        session.ok(&["zfs", "snapshot", &format!("{twin}@two")]);
        remove(twin, "c");
        remove(twin, "d");
        write(twin, "f");
    });
    settle(&session, &twins);
    let (kept, dropped) = (
        number("tank/keeps", "written@one"),
        number("tank/drops", "written#one"),
    );
    assert!(kept.abs_diff(dropped) <= 64 << 10, "{kept} and {dropped}");
    assert_eq!(kept, number("tank/keeps", "written#one"));
    let absent = |name: &str| {
        let text = session.ok(&["zfs", "get", "-Hp", "-o", "value", name, "tank/drops"]);
        assert_eq!(text, "-\n");
    };
    absent("written#none");
    absent("written#tank/keeps#one");
    assert_eq!(number("tank/drops", "written#tank/drops#one"), dropped);
    session.export_clean("tank");
}
