//! Pools that several hosts can reach: two daemons that do not know each other, and see no locks, over one image.

use crate::patience::{PATIENCE, until};
use crate::session::{Session, path};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::{Duration, Instant};

/// A host that writes every tenth of a second, and gives a pool up after one: imports wait for two.
const LIMITS: &str = "device.locked=0,pool.multihost_interval_ms=100";

fn host(number: u32) -> Option<Session> {
    let mut session = Session::new()?;
    session.limit(LIMITS);
    session.on_host(number);
    Some(session)
}

fn signal(session: &Session, signal: Signal) {
    for daemon in session.daemons() {
        let pid = Pid::from_raw(i32::try_from(daemon).expect("a process")).expect("no zero");
        let _ = kill_process(pid, signal);
    }
}

fn create(session: &mut Session) {
    session.create("tank", 96, &["-o", "multihost=on"]);
    fs::write(session.mount("tank").join("file"), "of the first\n").expect("written");
    session.ok(&["zpool", "sync"]);
}

/// The pool of the first host, imported by the second.
fn import(second: &Session, first: &Session, more: &[&str]) -> std::process::Output {
    let (images, mounts) = (first.images(), second.mounts());
    let mut words = vec!["zpool", "import", "-d", path(&images), "-R", path(&mounts)];
    words.extend(more);
    words.push("tank");
    second.run(&words)
}

fn said(output: &std::process::Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_pool_that_is_in_use_is_imported_nowhere_else() {
    let (Some(mut first), Some(mut second)) = (host(1), host(2)) else {
        return;
    };
    create(&mut first);
    for more in [&[][..], &["-f"], &["-o", "readonly=on"]] {
        let text = said(&import(&second, &first, more));
        assert!(
            text.contains("cannot import 'tank': pool is imported on "),
            "{text}"
        );
        assert!(text.contains("(hostid: 0x1)"), "{text}");
    }
    let images = first.images();
    let listed = second.ok(&["zpool", "import", "-d", path(&images)]);
    assert!(
        listed.contains("status: The pool is currently imported by another system."),
        "{listed}"
    );
    assert!(listed.contains("(hostid=1)"), "{listed}");

    // It goes on where it is, and another host takes it over when that one is gone.
    fs::write(first.mount("tank").join("more"), "more\n").expect("written");
    first.ok(&["zpool", "sync"]);
    signal(&first, Signal::KILL);
    let begun = Instant::now();
    let text = said(&import(&second, &first, &[]));
    assert!(
        text.contains("previously in use from another system"),
        "{text}"
    );
    let output = import(&second, &first, &["-f"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        begun.elapsed() > Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    let found = fs::read_to_string(second.mount("tank").join("more")).expect("read");
    assert_eq!(found, "more\n");
    let text = said(&import(&first, &first, &["-f"]));
    assert!(text.contains("(hostid: 0x2)"), "{text}");
    second.ok(&["zpool", "export", "tank"]);

    // A host without a number could not be told from others.
    second.on_host(0);
    let text = said(&import(&second, &first, &[]));
    assert!(
        text.contains("Cannot import 'tank': pool has the multihost property on"),
        "{text}"
    );
    let listed = second.ok(&["zpool", "import", "-d", path(&images)]);
    assert!(listed.contains("hostid is not set"), "{listed}");
    first.import("tank", &[]);
    first.ok(&["zpool", "set", "multihost=off", "tank"]);
    first.export_clean("tank");
    let begun = Instant::now();
    let output = import(&second, &first, &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let refused = second.refused(&["zpool", "set", "multihost=on", "tank"]);
    let wanted = "cannot set property for 'tank': requires a non-zero system hostid";
    assert_eq!(refused.trim(), wanted);
    second.ok(&["zpool", "export", "tank"]);
}

/// Before the first write that says so is due, the newest uberblock does.
#[test]
fn a_pool_is_held_from_the_moment_that_it_is_to_be() {
    let (Some(mut first), Some(mut second)) = (host(1), host(2)) else {
        return;
    };
    for host in [&mut first, &mut second] {
        host.limit("device.locked=0,pool.multihost_interval_ms=2000");
    }
    first.create("tank", 96, &["-o", "multihost=on"]);
    let text = said(&import(&second, &first, &["-f"]));
    assert!(text.contains("(hostid: 0x1)"), "{text}");
    first.ok(&["zpool", "set", "multihost=off", "tank"]);
    first.ok(&["zpool", "set", "multihost=on", "tank"]);
    let text = said(&import(&second, &first, &["-f"]));
    assert!(text.contains("(hostid: 0x1)"), "{text}");
    first.export_clean("tank");
}

#[test]
fn a_host_that_was_held_up_writes_nothing_more_and_does_not_take_the_pool_back() {
    let (Some(mut first), Some(second)) = (host(1), host(2)) else {
        return;
    };
    create(&mut first);
    signal(&first, Signal::STOP);
    let output = import(&second, &first, &["-f"]);
    assert!(output.status.success(), "{output:?}");
    fs::write(second.mount("tank").join("file"), "of the second\n").expect("written");
    second.ok(&["zpool", "sync"]);
    signal(&first, Signal::CONT);
    let begun = Instant::now();
    let status = loop {
        let status = first.ok(&["zpool", "status", "tank"]);
        if status.contains("SUSPENDED") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let told = "status: The pool is suspended because multihost writes failed or were delayed;";
    assert!(status.contains(told), "{status}");
    let refused = first.refused(&["zpool", "clear", "tank"]);
    assert!(refused.contains("pool is imported on "), "{refused}");
    assert!(refused.contains("(hostid: 0x2)"), "{refused}");
    let status = first.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("SUSPENDED"), "{status}");
    first.ok(&["zpool", "export", "-f", "tank"]);
    let found = fs::read_to_string(second.mount("tank").join("file")).expect("read");
    assert_eq!(found, "of the second\n");
    second.ok(&["zpool", "scrub", "-w", "tank"]);
    let status = second.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("with 0 errors"), "{status}");
    second.ok(&["zpool", "export", "tank"]);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(&first.images(), "tank");
    }
}

#[test]
fn a_host_that_was_held_up_goes_on_if_nobody_took_the_pool() {
    let Some(mut first) = host(1) else {
        return;
    };
    create(&mut first);
    signal(&first, Signal::STOP);
    std::thread::sleep(Duration::from_millis(1500));
    signal(&first, Signal::CONT);
    until("it is suspended", || {
        let status = first.ok(&["zpool", "status", "tank"]);
        status.contains("SUSPENDED")
    });
    first.ok(&["zpool", "clear", "tank"]);
    fs::write(first.mount("tank").join("file"), "goes on\n").expect("written");
    first.ok(&["zpool", "sync"]);
    let status = first.ok(&["zpool", "status", "tank"]);
    assert!(status.contains("state: ONLINE"), "{status}");
    first.export_clean("tank");
}
