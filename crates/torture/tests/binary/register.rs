//! Pools that were served here and are not exported: they are told of, and come back by their names alone.

use crate::lifecycle::kill_server;
use crate::patience::until;
use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Nobody, where there is one.
pub(crate) const USER: u32 = 65534;

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The line that tells of a pool, and nothing else.
fn assert_noted(output: &Output, pool: &str, parts: &[&str]) {
    let said = errors(output);
    let begin = format!("{pool}: not running");
    assert!(said.starts_with(&begin), "{output:?}");
    assert_eq!(said.lines().count(), 1, "{output:?}");
    for part in parts {
        assert!(said.contains(part), "{part}: {output:?}");
    }
}

#[test]
fn a_pool_whose_daemon_was_killed_comes_back_by_its_name_alone() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    fs::write(session.mount("tank").join("file"), "kept").expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    assert_eq!(errors(&session.run(&["zpool", "list"])), "");
    kill_server(&session, "tank");

    let image = session.images().join("tank.img");
    let how = format!("image {}: millpond zpool import tank", path(&image));
    let list = session.run(&["zpool", "list"]);
    assert_eq!(list.stdout, b"no pools available\n", "{list:?}");
    assert_eq!(list.status.code(), Some(0), "{list:?}");
    // When it was killed nobody knows.
    assert_noted(&list, "tank", &[": not running (last written ", &how]);
    let datasets = errors(&session.run(&["zfs", "list"]));
    assert!(datasets.contains(&how), "{datasets}");
    let import = session.run(&["zpool", "import"]);
    assert_eq!((import.status.code(), import.stdout.len()), (Some(0), 0));
    assert_noted(&import, "tank", &[&how]);
    for named in [["zpool", "status", "tank"], ["zfs", "list", "tank/a"]] {
        assert!(session.refused(&named).contains(&how), "{named:?}");
    }
    assert!(session.refused(&["zpool", "export", "tank"]).contains(&how));
    // Beside a pool that runs as well.
    session.create("other", 96, &[]);
    let problems = session.run(&["zpool", "status", "-x"]);
    let said = String::from_utf8_lossy(&problems.stdout);
    assert!(said.contains(&how) && said.lines().count() == 1, "{said}");
    assert_eq!(problems.status.code(), Some(1), "{problems:?}");
    let datasets = session.run(&["zfs", "list", "-Ho", "name"]);
    assert_eq!(datasets.stdout, b"other\n", "{datasets:?}");
    assert_noted(&datasets, "tank", &[&how]);
    session.export("other");

    // Neither where it is, nor below which root, nor -f.
    session.ok(&["zpool", "import", "tank"]);
    let file = session.mount("tank").join("file");
    assert_eq!(fs::read_to_string(file).expect("it is there"), "kept");
    assert_eq!(errors(&session.run(&["zpool", "status"])), "");
    session.export_clean("tank");
    assert_eq!(errors(&session.run(&["zpool", "list"])), "");
    assert!(
        !session
            .refused(&["zpool", "import", "tank"])
            .contains("not running")
    );
}

#[test]
fn a_daemon_that_a_signal_ends_is_expected_back() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let second = session.images().join("second.img");
    let file = fs::File::create(&second).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    let first = session.images().join("tank.img");
    session.ok(&["zpool", "attach", "tank", path(&first), path(&second)]);
    for pid in session.daemons() {
        let sent = Command::new("kill").arg(pid.to_string()).status();
        assert!(sent.expect("kill runs").success());
    }
    until("they end", || session.daemons().is_empty());
    let list = session.run(&["zpool", "list", "-H"]);
    let parts = [": not running since ", "tank.img, ", "second.img: millpond"];
    assert_noted(&list, "tank", &parts);
    let empty = session.mounts().join("empty");
    fs::create_dir(&empty).expect("made");
    let all = session
        .command(&["zpool", "import", "-a"])
        .env("ZPOOL_IMPORT_PATH", &empty)
        .output()
        .expect("runs");
    assert!(all.status.success(), "{all:?}");
    assert_eq!(session.ok(&["zpool", "list", "-Ho", "name"]), "tank\n");
    session.export_clean("tank");
}

#[test]
fn a_pool_whose_image_is_gone_is_told_of_until_it_is_forgotten() {
    let Some(mut session) = Session::new() else {
        return;
    };
    // Nothing is mounted: nobody would replace the dead mount.
    session.create("tank", 96, &["-m", "none"]);
    kill_server(&session, "tank");
    let (image, elsewhere) = (
        session.images().join("tank.img"),
        session.mounts().join("t"),
    );
    fs::rename(&image, &elsewhere).expect("renamed");
    let list = session.run(&["zpool", "list"]);
    let gone = format!("image {} is gone: ", path(&image));
    assert_noted(
        &list,
        "tank",
        &[&gone, "millpond zpool export tank to forget it"],
    );
    let empty = session.mounts().join("empty");
    fs::create_dir(&empty).expect("made");
    for words in [&["zpool", "import", "-a"][..], &["zpool", "import", "tank"]] {
        let mut command = session.command(words);
        let output = command.env("ZPOOL_IMPORT_PATH", &empty).output();
        let output = output.expect("runs");
        // A unit that imports at boot is not green.
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(errors(&output).contains(&gone), "{output:?}");
    }
    session.ok(&["zpool", "export", "tank"]);
    assert_eq!(errors(&session.run(&["zpool", "list"])), "");

    fs::rename(&elsewhere, &image).expect("renamed");
    session.import("tank", &["-N"]);
    kill_server(&session, "tank");
    session.ok(&["zpool", "export", "-f", "tank"]);
    assert_eq!(errors(&session.run(&["zpool", "list"])), "");
    session.import("tank", &["-N", "-o", "readonly=on"]);
    kill_server(&session, "tank");
    let import = session.run(&["zpool", "import", "-N", "tank"]);
    assert!(
        errors(&import).contains("read-only, as before"),
        "{import:?}"
    );
    assert_eq!(
        session.ok(&["zpool", "get", "-Ho", "value", "readonly", "tank"]),
        "on\n"
    );
}

/// Runs the binary as a user with a home, as after a login.
pub(crate) fn as_user(session: &Session, home: &Path, words: &[&str]) -> Output {
    session
        .command(words)
        .env_remove("MILLPOND_RUN")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home.join("session"))
        .current_dir(home)
        .uid(USER)
        .gid(USER)
        .output()
        .expect("the binary runs")
}

#[test]
fn a_logout_loses_neither_daemons_nor_pools() {
    let Some(session) = Session::new() else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    let session_of_user = home.path().join("session");
    fs::create_dir(&session_of_user).expect("made");
    for owned in [home.path(), &session_of_user] {
        if std::os::unix::fs::chown(owned, Some(USER), Some(USER)).is_err() {
            println!("skipped: only root becomes somebody else");
            return;
        }
    }
    let name = format!("logout{}", std::process::id());
    let image = home.path().join("a.img");
    let run = |words: &[&str]| as_user(&session, home.path(), words);
    let made = run(&[
        "zpool",
        "create",
        "--size",
        "96M",
        "-m",
        "none",
        &name,
        path(&image),
    ]);
    if errors(&made).contains("Permission denied") {
        println!("skipped: {}", errors(&made));
        return;
    }
    assert!(made.status.success(), "{made:?}");
    fs::remove_dir_all(&session_of_user).expect("removed");
    let listed = run(&["zpool", "list", "-Ho", "name", &name]);
    assert_eq!(
        String::from_utf8_lossy(&listed.stdout),
        format!("{name}\n"),
        "{listed:?}"
    );

    let lock = fs::read_dir(home.path().join(".local/state/millpond")).expect("a directory");
    let lock = lock.flatten().map(|entry| entry.path());
    let lock = lock.filter(|path| path.extension().is_some_and(|end| end == "lock"));
    let text = fs::read_to_string(lock.last().expect("a lock")).expect("read");
    let pid = text.lines().next().expect("a process");
    assert!(
        Command::new("kill")
            .args(["-KILL", pid])
            .status()
            .expect("runs")
            .success()
    );
    let noted = format!("{name}: not running (last ");
    until("it is noted", || {
        errors(&run(&["zpool", "list"])).contains(&noted)
    });
    let back = run(&["zpool", "import", &name]);
    assert!(back.status.success(), "{back:?}");
    // Nobody else reads a pool past the modes of its files.
    let mode = fs::metadata(&image).expect("an image").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Who may not mount where the pool says is told how it goes.
    let place = format!("mountpoint=/{name}");
    assert!(run(&["zfs", "set", "-u", &place, &name]).status.success());
    assert!(run(&["zpool", "export", &name]).status.success());
    let back = run(&["zpool", "import", "-d", path(&image), &name]);
    let advice = format!("'-R {}'", path(&home.path().join("mnt")));
    assert!(errors(&back).contains(&advice), "{back:?}");
    let gone = run(&["zpool", "export", &name]);
    assert!(gone.status.success(), "{gone:?}");
    assert!(!errors(&run(&["zpool", "list"])).contains(&name));
}

#[test]
fn systemd_is_told_when_a_pool_is_up_and_when_it_ends() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.export("tank");
    let place = session.images().with_file_name("notify");
    let socket = UnixDatagram::bind(&place).expect("bound");
    let patience = socket.set_read_timeout(Some(Duration::from_secs(60)));
    patience.expect("set");
    let heard = || {
        let mut text = [0; 99];
        let length = socket.recv(&mut text).expect("told");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let (images, mounts) = (session.images(), session.mounts());
    let words = ["serve", "-d", path(&images), "-R", path(&mounts), "tank"];
    let mut server = session.command(&words);
    let mut server = server.env("NOTIFY_SOCKET", &place).spawn().expect("runs");
    assert_eq!(heard(), "READY=1\nSTATUS=pool 'tank' is served");
    assert!(session.mount("tank").join(".zfs").is_dir(), "it is mounted");
    let told = Command::new("kill").arg(server.id().to_string()).status();
    assert!(told.expect("kill runs").success());
    assert_eq!(heard(), "STOPPING=1");
    assert!(server.wait().expect("it ends").success());
    let list = session.run(&["zpool", "list"]);
    assert_noted(&list, "tank", &["tank.img: millpond zpool import tank"]);
}

/// What the daemon left mounted goes with the note of the pool.
#[test]
fn a_pool_that_is_forgotten_leaves_no_dead_mounts() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let mounted = |session: &Session| {
        let mounts = session.mounts();
        let entries = sys::mounted_entries().expect("the mount table");
        entries
            .iter()
            .filter(|entry| entry.path.starts_with(&mounts))
            .count()
    };
    // The dead mounts of a pool are known by its name: no other test has one of this.
    let image = session.images().join("lost.img");
    for (forced, gone) in [(false, true), (true, true), (true, false)] {
        session.create("lost", 96, &[]);
        session.ok(&["zfs", "create", "-p", "lost/a/b"]);
        // A pool whose name begins alike is another one.
        session.create("lost2", 96, &[]);
        kill_server(&session, "lost");
        while !session
            .refused(&["zpool", "list", "lost"])
            .contains("not running")
        {
            std::thread::yield_now();
        }
        if gone {
            fs::remove_file(&image).expect("removed");
        }
        assert_eq!(mounted(&session), 4);
        let export: &[&str] = if forced {
            &["zpool", "export", "-f", "lost"]
        } else {
            &["zpool", "export", "lost"]
        };
        session.ok(export);
        assert_eq!(mounted(&session), 1, "{export:?}");
        assert!(!session.mount("lost").exists(), "made for the mount");
        assert_eq!(errors(&session.run(&["zpool", "list"])), "");
        session.export("lost2");
        fs::remove_file(session.images().join("lost2.img")).expect("removed");
        if !gone {
            fs::remove_file(&image).expect("removed");
        }
    }
}

/// Who has no `$HOME` has a home all the same: a pool of a service is the one that its user sees.
#[test]
fn a_home_is_known_without_its_variable() {
    let Some(session) = Session::new() else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    if std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).is_err() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    let users = session.images().join("passwd");
    let user = format!("someone:x:{USER}:{USER}::{}:/bin/sh\n", path(home.path()));
    fs::write(&users, user).expect("written");
    let name = format!("homeless{}", std::process::id());
    let image = home.path().join("a.img");
    let at = format!("HOME={}", path(home.path()));
    // The binary runs three times as the user, in a mount namespace where the table of users has that line alone.
    let inside = format!(
        "{}; mount --bind \"$1\" /etc/passwd || exit 77; cd \"$4\"; \
         as() {{ setpriv --reuid {USER} --regid {USER} --clear-groups env -i PATH=\"$PATH\" \"$@\"; }}; \
         as \"$0\" zpool create --size 96M -m none \"$2\" \"$3\" || exit 78; \
         as \"$5\" \"$0\" zpool list -Ho name; as \"$5\" \"$0\" zpool export \"$2\"",
        session.let_go_of_others()
    );
    let script = "inside=$1; shift; exec unshare -m sh -c \"$inside\" \"$0\" \"$@\"";
    let words = [
        &inside,
        path(&users),
        &name,
        path(&image),
        path(home.path()),
        &at,
    ];
    let _making = Session::making_a_namespace();
    let mut command = session.shell_command(script);
    let output = command.env_remove("MILLPOND_RUN").args(words).output();
    let output = output.expect("sh runs");
    let said = errors(&output);
    if said.contains("Permission denied") || output.status.code() == Some(77) {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.lines().any(|line| line == name), "{output:?}");
}
