//! Daemons that are stopped, that are in another PID namespace, and that nobody waits for any more.

use crate::patience::until;
use crate::session::{Session, path};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// The process that serves a pool.
pub(crate) fn daemon_of(session: &Session, pool: &str) -> String {
    let run = session.images().with_file_name("run");
    let notes = std::fs::read_dir(run).expect("read").flatten();
    let notes = notes.filter(|entry| entry.path().extension().is_some_and(|e| e == "lock"));
    let texts = notes.map(|entry| std::fs::read_to_string(entry.path()).expect("read"));
    let mut found = texts.filter_map(|text| {
        Some(text.split_once('\n')?.0.to_owned()).filter(|_| text.lines().nth(1) == Some(pool))
    });
    found.next().expect("a daemon")
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([name, pid]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_stopped_daemon_is_named_and_keeps_nobody_from_the_others() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("stuck", 96, &[]);
    session.create("tank", 96, &[]);
    let pid = daemon_of(&session, "stuck");
    signal("-STOP", &pid);
    let begin = Instant::now();
    let listed = session.run(&["zpool", "list", "-Ho", "name"]);
    let took = begin.elapsed();
    let alone = session.run(&["zfs", "create", "tank/a"]);
    let named = session.run(&["zpool", "status", "stuck"]);
    // What is mounted there answers nobody either.
    let mounts = session.mounts();
    let image = session.images().join("more.img");
    let create = ["zpool", "create", "--size", "96M", "-R", path(&mounts)];
    let taken = session.run(&[&create[..], &["stuck", path(&image)]].concat());
    let images = session.images();
    let import = ["zpool", "import", "-d", path(&images), "stuck"];
    let twice = session.run(&import);
    // Other pools come and go at once.
    let begin = Instant::now();
    session.export("tank");
    let at_once = begin.elapsed();
    let begin = Instant::now();
    session.import("tank", &[]);
    let back_at_once = begin.elapsed();
    let figures = session.run(&["zpool", "iostat"]);
    signal("-CONT", &pid);
    assert_eq!(listed.stdout, b"tank\n", "{listed:?}");
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    let who = format!("the daemon of pool 'stuck' (pid {pid}) does not answer");
    assert!(
        String::from_utf8_lossy(&listed.stderr).contains(&who),
        "{listed:?}"
    );
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(
        alone.status.success() && alone.stderr.is_empty(),
        "{alone:?}"
    );
    assert!(
        String::from_utf8_lossy(&named.stderr).contains(&who),
        "{named:?}"
    );
    for refused in [taken, twice] {
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert_eq!(said.matches(&who).count(), 1, "{said}");
    }
    assert!(!image.exists());
    for took in [at_once, back_at_once] {
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    assert_eq!(figures.status.code(), Some(1), "{figures:?}");
    assert!(
        String::from_utf8_lossy(&figures.stdout).contains("tank"),
        "{figures:?}"
    );
    assert_eq!(
        session.ok(&["zpool", "list", "-Ho", "name"]),
        "stuck\ntank\n"
    );
}

/// Who names datasets, pools or paths depends on the daemons of their own pools alone.
#[test]
fn what_is_named_of_one_pool_asks_no_daemon_of_another() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("stuck", 96, &[]);
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zfs", "snapshot", "tank/a@s"]);
    let folder = session.mount("tank/a").join("folder");
    std::fs::create_dir(&folder).expect("made");
    let (folder, place) = (path(&folder).to_owned(), session.mount("tank/a"));
    let outside = session.images();
    let pid = daemon_of(&session, "stuck");
    signal("-STOP", &pid);
    let begin = Instant::now();
    let lines: [(&[&str], &str); 12] = [
        (&["zfs", "list", "-Ho", "name", "tank/a"], "tank/a\n"),
        (
            &["zfs", "list", "-Hro", "name", "-t", "snapshot", "tank"],
            "tank/a@s\n",
        ),
        (&["zfs", "list", "-Ho", "name", &folder], "tank/a\n"),
        (
            &["zfs", "get", "-Ho", "value", "type", "tank"],
            "filesystem\n",
        ),
        (&["zfs", "get", "-Ho", "name", "type", &folder], "tank/a\n"),
        (&["zfs", "holds", "-H", "tank/a@s"], ""),
        (&["zfs", "unmount", path(&place)], ""),
        (&["zfs", "mount", "tank/a"], ""),
        (&["zpool", "list", "-Ho", "name", "tank"], "tank\n"),
        (
            &["zpool", "get", "-Ho", "value", "health", "tank"],
            "ONLINE\n",
        ),
        (
            &["zpool", "status", "-x", "tank"],
            "pool 'tank' is healthy\n",
        ),
        (&["zpool", "sync", "tank"], ""),
    ];
    let done: Vec<_> = lines.map(|(words, _)| session.run(words)).into();
    let elsewhere = session.run(&["zfs", "list", path(&outside)]);
    let took = begin.elapsed();
    signal("-CONT", &pid);
    for ((words, answer), output) in lines.iter().zip(&done) {
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            *answer,
            "{words:?}"
        );
        assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    }
    let said = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(
        said.ends_with("not a ZFS filesystem\n") && said.lines().count() == 1,
        "{said}"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// Root's daemon, asked by somebody who can read no lock of it.
#[test]
fn a_stopped_daemon_of_another_user_is_named_and_keeps_nobody_from_the_others() {
    const NOBODY: u32 = 65534;
    let Some(mut session) = Session::new() else {
        return;
    };
    if !session.open_to(NOBODY) {
        return;
    }
    session.create("stuck", 96, &[]);
    session.create("tank", 96, &[]);
    let ask = |words: &[&str]| session.as_user(NOBODY, words).expect("it ran before");
    let pid = daemon_of(&session, "stuck");
    signal("-STOP", &pid);
    let begin = Instant::now();
    let there = ask(&["zpool", "list", "-Ho", "name", "tank"]);
    let missing = ask(&["zpool", "status", "lake"]);
    let all = ask(&["zpool", "list", "-Ho", "name"]);
    let stuck = ask(&["zfs", "list", "stuck"]);
    let waited = begin.elapsed();
    signal("-CONT", &pid);
    assert_eq!(
        (&there.stdout[..], &there.stderr[..]),
        (&b"tank\n"[..], &[][..])
    );
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(said, "cannot open 'lake': no such pool\n");
    // Less than two of them would take that wait as long as one has for its answer that is not stopped.
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    assert_eq!(all.stdout, b"tank\n", "{all:?}");
    let who = format!("the daemon of pool 'stuck' (pid {pid}) does not answer");
    for output in [all, stuck] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&who), "{said}");
    }
}

/// Its socket has the guid that the pool had, the register the one that it has.
#[test]
fn a_daemon_of_a_pool_with_a_new_guid_is_not_taken_for_dead() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zpool", "reguid", "tank"]);
    let pid = daemon_of(&session, "tank");
    signal("-STOP", &pid);
    let listed = session.run(&["zpool", "list"]);
    let import = session.run(&["zpool", "import", "tank"]);
    signal("-CONT", &pid);
    let who = format!("the daemon of pool 'tank' (pid {pid}) does not answer");
    for output in [listed, import] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&who), "{said}");
        assert!(
            !said.contains("not running") && !said.contains("no such pool"),
            "{said}"
        );
    }
    // Nothing but the record would go if it were.
    session.ok(&["zpool", "export", "-f", "tank"]);
    until("it is exported", || session.daemons().is_empty());
    session.import("tank", &[]);
    session.export_clean("tank");
}

/// Waits for the end of a process.
fn ended(mut child: Child) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        if child.try_wait().expect("asked").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    false
}

#[test]
fn a_daemon_that_is_not_up_ends_with_its_command_and_by_a_signal() {
    let Some(session) = Session::new() else {
        return;
    };
    let waiting = || {
        let mut command = session.command(&["daemon-child"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let mut child = waiting();
    let input = child.stdin.take();
    drop(child.stdout.take());
    assert!(ended(child), "nobody waits for it, and it waits");
    drop(input);

    let mut child = waiting();
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    // Once it takes signals as data, they are blocked.
    let blocks = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        text.lines()
            .any(|line| line.starts_with("SigBlk:") && line.ends_with("4003"))
    };
    let begin = Instant::now();
    while !blocks() && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal("-TERM", &child.id().to_string());
    assert!(ended(child), "SIGTERM does not end it");
    drop((input, output));
}

#[test]
fn an_import_whose_daemon_is_told_to_end_while_it_mounts_has_failed() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    for number in 0..80 {
        session.ok(&["zfs", "create", &format!("tank/{number}")]);
    }
    session.export("tank");
    let (images, mounts) = (session.images(), session.mounts());
    let line = [
        "zpool",
        "import",
        "-d",
        path(&images),
        "-R",
        path(&mounts),
        "tank",
    ];
    let root = session.mount("tank").display().to_string();
    let is_mounted = || {
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        table.lines().any(|line| line.contains(&root))
    };
    let attempt = || {
        let mut command = session.command(&line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let begin = Instant::now();
        while !is_mounted() && begin.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        signal("-TERM", &daemon_of(&session, "tank"));
        let output = child.wait_with_output().expect("it ends");
        until("no mount is left", || !is_mounted());
        output
    };
    // Where this process gets no CPU for long, all may be mounted before the signal comes.
    let mut attempts = (0..8).map(|_| attempt());
    let failed = attempts.find(|output| !output.status.success());
    let failed = failed.expect("the signal comes while it mounts");
    let told = String::from_utf8_lossy(&failed.stderr);
    assert!(told.contains("told to end"), "{told}");
    session.import("tank", &[]);
    session.export_clean("tank");
}

#[test]
fn what_fails_after_mounting_is_told_and_leaves_no_dead_mounts() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let guid = session.ok(&["zpool", "get", "-Hpo", "value", "guid", "tank"]);
    let guid: u64 = guid.trim().parse().expect("a number");
    session.export("tank");
    // Nothing can be logged where a directory is.
    let log = session
        .images()
        .with_file_name("run")
        .join(format!("{guid:016x}.log"));
    std::fs::create_dir(&log).expect("made");
    let (images, mounts) = (session.images(), session.mounts());
    let import = [
        "zpool",
        "import",
        "-d",
        path(&images),
        "-R",
        path(&mounts),
        "tank",
    ];
    let said = session.refused(&import);
    assert!(
        said.contains("leaving the terminal: Is a directory"),
        "{said}"
    );
    let mounted = std::fs::read_to_string("/proc/self/mounts").expect("read");
    assert!(!mounted.contains(path(&mounts)), "{mounted}");
    std::fs::remove_dir(&log).expect("removed");
    session.import("tank", &[]);
    session.export_clean("tank");
}

#[test]
fn a_pool_that_is_served_in_another_pid_namespace_is_there() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.export("tank");
    let (images, mounts) = (session.images(), session.mounts());
    let script = format!(
        "exec unshare -p --fork --kill-child \"$0\" serve -d {} -R {} tank",
        path(&images),
        path(&mounts)
    );
    let mut serving = session.shell_command(&script).spawn().expect("sh runs");
    let begin = Instant::now();
    while session.ok(&["zpool", "list", "-Ho", "name"]) != "tank\n" {
        if serving.try_wait().expect("asked").is_some() {
            println!("skipped: no PID namespace can be made");
            return;
        }
        assert!(begin.elapsed() < LONG, "the pool is not there");
        std::thread::sleep(Duration::from_millis(20));
    }
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zpool", "export", "tank"]);
    assert!(ended(serving));
}
