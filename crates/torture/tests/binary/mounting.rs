//! `mount -t zfs`, by its helper, and what a remount changes.

use crate::patience::until;
use crate::register::{USER, as_user};
use crate::session::{Session, path};
use serde_json::Value;
use std::fs;
use std::process::Output;

/// Runs the binary under the name by which mount(8) calls it.
fn mount_zfs(session: &Session, arguments: &[&str]) -> Output {
    let link = session.images().join("mount.zfs");
    let script = format!(
        "[ -L {0} ] || ln -s \"$(realpath \"$0\")\" {0}; exec {0} \"$@\"",
        path(&link)
    );
    session.shell(&script, arguments)
}

#[test]
fn legacy_file_systems_are_mounted_where_mount_says() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "-o", "mountpoint=legacy", "tank/old"]);
    let place = session.mounts().join("elsewhere");
    fs::create_dir(&place).expect("a folder");
    let output = mount_zfs(
        &session,
        &["tank/old", path(&place), "-o", "rw,noatime,nofail"],
    );
    assert!(output.status.success(), "{output:?}");
    fs::write(place.join("file"), "text").expect("written");
    assert!(session.ok(&["zfs", "mount"]).contains(path(&place)));
    let again = mount_zfs(&session, &["tank/old", path(&place)]);
    assert_eq!(again.status.code(), Some(32), "{again:?}");

    let output = mount_zfs(&session, &["tank/old", path(&place), "-o", "remount,ro"]);
    assert!(output.status.success(), "{output:?}");
    let refused = fs::write(place.join("file"), "other").expect_err("read-only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    // One with a mount point of its own is not for mount(8).
    session.ok(&["zfs", "create", "tank/new"]);
    let output = mount_zfs(&session, &["tank/new", path(&place)]);
    assert_eq!(output.status.code(), Some(32));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("zfs set mountpoint=legacy tank/new"),
        "{said}"
    );
    let output = mount_zfs(&session, &["tank/new"]);
    assert_eq!(output.status.code(), Some(1));
    session.export_clean("tank");
}

#[test]
fn a_remount_changes_options_until_the_next_mount() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let file = session.mount("tank/a").join("file");
    fs::write(&file, "text").expect("written");
    session.ok(&["zfs", "mount", "-o", "remount,ro", "tank/a"]);
    assert!(fs::write(&file, "other").is_err());
    assert_eq!(fs::read_to_string(&file).expect("read"), "text");
    session.ok(&["zfs", "mount", "-o", "remount,rw", "tank/a"]);
    fs::write(&file, "other").expect("written");

    session.ok(&["zfs", "set", "readonly=on", "tank/a"]);
    session.refused(&["zfs", "mount", "-o", "remount,rw", "tank/a"]);
    session.ok(&["zfs", "inherit", "readonly", "tank/a"]);
    session.refused(&["zfs", "mount", "-o", "remount,nonsense", "tank/a"]);
    session.ok(&["zfs", "unmount", "tank/a"]);
    session.refused(&["zfs", "mount", "-o", "remount,ro", "tank/a"]);
    session.export_clean("tank");
}

/// Mounts below `place`, with what is mounted.
fn mounted_below(place: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = sys::mounted_entries().expect("the mount table");
    let below = entries.iter().filter(|entry| entry.path.starts_with(place));
    let mut found: Vec<_> = below
        .map(|entry| (entry.path.display().to_string(), entry.source.clone()))
        .collect();
    found.sort();
    found
}

#[test]
fn what_is_mounted_inside_stays_over_a_rollback() {
    if let Some(session) = Session::new() {
        roll_back_below_mounts(session);
    }
}

/// As before Linux 6.16.
#[test]
fn what_is_mounted_inside_stays_where_the_kernel_forgets_names_one_by_one() {
    if let Some(mut session) = Session::new() {
        session.limit("fuse.name_epochs=0");
        roll_back_below_mounts(session);
    }
}

fn roll_back_below_mounts(mut session: Session) {
    session.create("tank", 96, &[]);
    for dataset in ["tank/home", "tank/home/joe"] {
        session.ok(&["zfs", "create", dataset]);
    }
    let (top, home) = (session.mount("tank"), session.mount("tank/home"));
    let file = home.join("joe/file");
    fs::write(&file, "joe's").expect("written");
    fs::write(top.join("old"), "").expect("written");
    session.ok(&["zfs", "snapshot", "tank@one"]);
    session.ok(&["zfs", "snapshot", "tank/home@one"]);
    session.ok(&["zfs", "create", "tank/late"]);
    fs::write(top.join("new"), "").expect("written");
    fs::write(home.join("new"), "").expect("written");
    let open = fs::File::open(&file).expect("opened");
    let before = mounted_below(&top);

    for dataset in ["tank", "tank/home"] {
        session.ok(&["zfs", "rollback", &format!("{dataset}@one")]);
        // Names are looked up again when somebody walks there.
        assert_eq!(fs::read(&file).expect("read"), b"joe's", "{dataset}");
        fs::write(session.mount("tank/late").join("file"), dataset).expect("written");
        assert_eq!(mounted_below(&top), before, "{dataset}");
    }
    assert!(top.join("old").exists() && !top.join("new").exists());
    assert!(!home.join("new").exists());
    assert_eq!(std::io::read_to_string(open).expect("read"), "joe's");
    // What was written went to the datasets, not to the folders below their mounts.
    for dataset in ["tank/home/joe", "tank/home", "tank/late"] {
        session.ok(&["zfs", "unmount", dataset]);
    }
    assert!(!file.exists());
    assert!(!session.mount("tank/late").join("file").exists());
    for dataset in ["tank/late", "tank/home", "tank/home/joe"] {
        session.ok(&["zfs", "mount", dataset]);
    }
    assert_eq!(fs::read(&file).expect("read"), b"joe's");
    session.export_clean("tank");
}

/// A name that is a symbolic link again after the rollback leads nowhere else.
#[test]
fn a_rollback_mounts_nothing_over_what_links_lead_to() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let top = session.mount("tank");
    let outside = session.images().join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("mine"), "").expect("written");
    std::os::unix::fs::symlink(&outside, top.join("trap")).expect("a link");
    session.ok(&["zfs", "snapshot", "tank@one"]);
    fs::remove_file(top.join("trap")).expect("removed");
    session.ok(&["zfs", "create", "tank/trap"]);
    session.ok(&["zfs", "rollback", "tank@one"]);
    assert!(outside.join("mine").exists());
    assert_eq!(mounted_below(&outside), []);
    session.export_clean("tank");
}

/// What mount(8) does past the commands, the file system does as well: it keeps the access times.
#[test]
fn what_mount_changes_by_itself_holds_for_the_file_system() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let place = session.mount("tank/a");
    let file = place.join("file");
    fs::write(&file, "text").expect("written");
    let remount = |options: &str| {
        // Without helpers: another one may be there for mounts of this type.
        let script = format!("mount -i -o remount,{options} {}", path(&place));
        let done = session.shell(&script, &[]);
        assert!(done.status.success(), "{done:?}");
    };
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    // Whether reading moves the access time that lies before the last change.
    let is_kept = || {
        let opened = fs::File::options().write(true).open(&file);
        let times = fs::FileTimes::new().set_accessed(old);
        opened.and_then(|file| file.set_times(times)).expect("set");
        fs::read(&file).expect("read");
        fs::metadata(&file)
            .and_then(|m| m.accessed())
            .expect("shown")
            != old
    };
    let becomes = |wanted: bool| {
        until("access times are kept, or not", || is_kept() == wanted);
    };
    becomes(true);
    remount("noatime");
    becomes(false);
    // The flags that are asked for later are beside it.
    session.ok(&["zfs", "mount", "-o", "remount,noexec", "tank/a"]);
    becomes(false);
    remount("relatime");
    becomes(true);
    remount("ro");
    assert!(fs::write(&file, "other").is_err());
    remount("rw");
    fs::write(&file, "other").expect("written");

    // What the property forbids, no remount allows.
    session.ok(&["zfs", "set", "readonly=on", "tank/a"]);
    remount("rw");
    let shown_read_only = || {
        let entries = sys::mounted_entries().expect("the mount table");
        let own = entries.iter().find(|entry| entry.path == place);
        own.expect("mounted").flags.read_only
    };
    until("it says so", shown_read_only);
    assert!(fs::write(&file, "third").is_err());
    session.export_clean("tank");
}

/// An ordinary user may not remount: what acts without it is no error, and for the rest there is a way.
#[test]
fn an_ordinary_user_is_told_which_properties_take_a_new_mount() {
    let Some(session) = Session::new() else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    let (place, login) = (home.path().join("mnt"), home.path().join("session"));
    fs::create_dir(&login).expect("made");
    for owned in [home.path(), &login] {
        if std::os::unix::fs::chown(owned, Some(USER), Some(USER)).is_err() {
            println!("skipped: only root becomes somebody else");
            return;
        }
    }
    let (name, image) = (
        format!("own{}", std::process::id()),
        home.path().join("a.img"),
    );
    let run = |words: &[&str]| {
        let output = as_user(&session, home.path(), words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), errors)
    };
    let place = path(&place);
    let (size, image) = ("96M", path(&image));
    let (is_made, why) = run(&["zpool", "create", "--size", size, "-R", place, &name, image]);
    if !is_made {
        // One that could not be mounted is there all the same.
        let _not_there = run(&["zpool", "export", &name]);
        println!("skipped: {why}");
        return;
    }
    let words = "atime=off atime=on relatime=off snapdir=visible snapdir=hidden xattr=sa acltype=posix setuid=off \
                 setuid=on devices=off devices=on readonly=on readonly=off exec=off atime=off";
    let set = |word: &str| run(&["zfs", "set", word, &name]);
    let mut refused: Vec<_> = words.split(' ').map(|word| (word, set(word))).collect();
    refused.retain(|(_, outcome)| *outcome != (true, String::new()));
    let mounted_again = ["unmount", "mount"].map(|verb| run(&["zfs", verb, &name]).0);
    let present = set("exec=off");
    let exported = run(&["zpool", "export", &name]).0;
    let told = format!(
        "property may be set but unable to remount filesystem\n\
         {place}/{name}: only root can change how it is mounted\n\
         for the value to act, run 'zfs unmount {name}', then 'zfs mount {name}'\n"
    );
    assert_eq!(refused, [("exec=off", (false, told))]);
    assert_eq!((mounted_again, exported), ([true; 2], true));
    assert_eq!(present, (true, String::new()));
}

/// Blocks that the pool's daemon has asked for before a program did.
fn read_ahead(session: &Session) -> u64 {
    let told = session.ok(&["stat", "-j", "-m", "prefetch.issued", "tank"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let count = &told["pools"]["tank"]["metrics"]["prefetch.issued"];
    // Before the first there is no count.
    count.as_u64().unwrap_or(0)
}

#[test]
fn what_is_read_ahead_follows_the_property_at_once() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &["-O", "compression=off"]);
    for name in ["before", "after", "again"] {
        fs::write(session.mount("tank").join(name), vec![1; 8 << 20]).expect("written");
    }
    // Nothing of them is in memory then.
    session.export("tank");
    session.import("tank", &[]);
    let while_reading = |name: &str| {
        let before = read_ahead(&session);
        let read = fs::read(session.mount("tank").join(name));
        assert_eq!(read.expect("read").len(), 8 << 20);
        read_ahead(&session) - before
    };
    assert!(while_reading("before") > 16);
    session.ok(&["zfs", "set", "prefetch=none", "tank"]);
    assert_eq!(while_reading("after"), 0);
    session.ok(&["zfs", "inherit", "prefetch", "tank"]);
    assert!(while_reading("again") > 16);
}
