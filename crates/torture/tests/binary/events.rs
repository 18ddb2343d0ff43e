//! `zpool events`: what happened is there, in OpenZFS's words, for as long as the pool is imported.

use crate::patience::until;
use crate::session::Session;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

const HEADER: &str = "TIME                           CLASS\n";
/// The classes of a list, oldest first.
fn classes(session: &Session, pool: &str) -> Vec<String> {
    let text = session.ok(&["zpool", "events", "-H", pool]);
    let class = |line: &str| line.split_once('\t').expect("two columns").1.to_owned();
    text.lines().map(class).collect()
}

fn assert_has(classes: &[String], class: &str) {
    assert!(classes.iter().any(|c| c == class), "{class}: {classes:?}");
}

#[test]
fn changes_are_events() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let found = classes(&session, "tank");
    for name in ["pool_create", "config_sync", "history_event"] {
        assert_has(&found, &format!("sysevent.fs.zfs.{name}"));
    }
    let text = session.ok(&["zpool", "events", "-v"]);
    assert!(text.starts_with(HEADER), "{text}");
    let created = text
        .split("\n\n")
        .find(|event| event.contains("history_dsname = \"tank/a\""))
        .expect("an event of the new dataset");
    let names: Vec<&str> = created
        .lines()
        .skip(1)
        .map(|line| line.trim_start().split_once(" = ").expect("a field").0)
        .collect();
    assert_eq!(
        names.join(" "),
        "version class pool pool_guid pool_state pool_context history_hostname history_dsname \
         history_internal_str history_internal_name history_dsid history_txg history_time time eid"
    );
    assert!(created.contains("        history_internal_name = \"create\"\n"));
    assert!(created.contains("        pool = \"tank\"\n        pool_guid = 0x"));

    // A second pool's events are told apart by its name, and shown together without one. More
    // may come at any time: configurations are written in the background.
    session.create("other", 96, &[]);
    let whole = session.ok(&["zpool", "events", "-v"]);
    for pool in ["tank", "other"] {
        assert!(whole.contains(&format!("        pool = \"{pool}\"\n")));
        let own = session.ok(&["zpool", "events", "-v", pool]);
        let shown = own.matches("        pool = ").count();
        assert_eq!(
            own.matches(&format!("        pool = \"{pool}\"\n")).count(),
            shown
        );
    }
    assert!(classes(&session, "tank").starts_with(&found));
    let cleared = session.ok(&["zpool", "events", "-c"]);
    let count = cleared.strip_prefix("cleared ");
    let count = count.and_then(|rest| rest.strip_suffix(" events\n"));
    let count: usize = count.expect(&cleared).parse().expect("a number");
    assert!(count > found.len(), "{cleared}");
    let left = session.ok(&["zpool", "events"]);
    assert!(
        left.starts_with(HEADER) && !left.contains("pool_create"),
        "{left}"
    );

    session.export("tank");
    let refused = session.refused(&["zpool", "events", "tank"]);
    assert_eq!(refused, "cannot open 'tank': no such pool\n");
    session.import("tank", &[]);
    let text = session.ok(&["zpool", "events", "-v", "tank"]);
    assert!(
        text.contains("        class = \"sysevent.fs.zfs.pool_import\"\n"),
        "{text}"
    );
    assert!(text.contains("        eid = 0x1\n"), "{text}");
    session.export_clean("tank");
}

/// The names of damaged files may say what nobody else is to know.
fn files_are_named_to_root_only(session: &Session) {
    use std::os::unix::fs::PermissionsExt;
    let all = session.ok(&["zpool", "status", "-v", "tank"]);
    assert!(all.contains("noise"), "{all}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let run = session.images().with_file_name("run");
    for folder in [run.parent().expect("a folder"), &run] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("for all");
    }
    let Some(seen) = session.as_user(65534, &["zpool", "status", "-v", "tank"]) else {
        return;
    };
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(!seen.contains("noise"), "{seen}");
    let told = "errors: 1 data errors, whose files only the administrator sees\n";
    assert!(seen.contains(told), "{seen}");
}

#[test]
fn damage_and_scrubs_are_events() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off"]);
    let noise: Vec<u8> = (0..128_u32 << 10)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(session.mount("tank").join("noise"), &noise).expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    let path = session.images().join("tank.img");
    let image = fs::read(&path).expect("the image");
    let at = image
        .windows(4096)
        .step_by(512)
        .position(|part| part == &noise[..4096])
        .expect("the file's first bytes");
    let device = File::options().write(true).open(&path).expect("the image");
    device
        .write_all_at(&[0; 512], at as u64 * 512)
        .expect("damaged");
    session.ok(&["zpool", "events", "-c"]);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    files_are_named_to_root_only(&session);
    let found = classes(&session, "tank");
    for class in [
        "sysevent.fs.zfs.scrub_start",
        "sysevent.fs.zfs.scrub_finish",
        "ereport.fs.zfs.checksum",
        "ereport.fs.zfs.data",
    ] {
        assert_has(&found, class);
    }
    let text = session.ok(&["zpool", "events", "-v", "tank"]);
    let report = text
        .split("\n\n")
        .find(|event| event.contains("class = \"ereport.fs.zfs.checksum\""))
        .expect("a report");
    assert!(
        report.contains("        detector = (embedded nvlist)\n                version = 0x0\n")
    );
    let counted = report.contains("        vdev_cksum_errors = 0x");
    assert!(
        counted && !report.contains("_errors = 0x0\n        vdev_delays"),
        "{report}"
    );
    assert!(report.contains("tank.img\"\n"), "{report}");
}

/// A command that is stopped when nobody looks at it any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn later_events_are_followed() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let out = session.images().join("followed");
    let follower = Command::new(std::env::var_os("MILLPOND_BIN").expect("the binary"))
        .args(["zpool", "events", "-f", "-v"])
        .env("MILLPOND_RUN", session.images().with_file_name("run"))
        .stdin(Stdio::null())
        .stdout(File::create(&out).expect("a file"))
        .spawn()
        .expect("the binary runs");
    let mut follower = Running(follower);
    let wait_for = |wanted: &str| {
        until(wanted, || {
            fs::read_to_string(&out).expect("text").contains(wanted)
        });
    };
    wait_for("sysevent.fs.zfs.pool_create");
    session.ok(&["zfs", "snapshot", "tank@now"]);
    wait_for("history_dsname = \"tank@now\"");
    // The end of a pool does not end it; what comes back is followed from its beginning.
    session.export("tank");
    session.import("tank", &[]);
    wait_for("sysevent.fs.zfs.pool_import");
    let text = fs::read_to_string(&out).expect("text");
    assert_eq!(text.matches(HEADER).count(), 1);
    assert_eq!(
        text.matches("class = \"sysevent.fs.zfs.pool_create\"")
            .count(),
        1
    );
    let ended = follower.0.try_wait().expect("a child");
    assert!(ended.is_none(), "it goes on until it is stopped");
}
