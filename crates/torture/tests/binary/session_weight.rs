//! Where it is asked for, the daemon's session has more weight than a program while programs ask, and that of a program
//! otherwise.

use crate::patience::until;
use crate::session::Session;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The nice value of the session of the pool's server; none where the system does not share CPUs by sessions, or the
/// test may not change it.
fn nice_of_server(session: &Session) -> Option<i32> {
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    let [server] = session.daemons()[..] else {
        return None;
    };
    let text = fs::read_to_string(format!("/proc/{server}/autogroup")).ok()?;
    let (_, nice) = text.trim_end().rsplit_once(' ')?;
    (enabled.starts_with('1') && rustix::process::geteuid().is_root()).then(|| nice.parse().ok())?
}

/// Asks until the session has this weight; whether it got it.
fn asks_until(session: &Session, place: &Path, wanted: i32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(300);
    while Instant::now() < deadline {
        for number in 0..50 {
            let path = place.join(format!("f{number}"));
            fs::write(&path, b"").expect("a file");
            fs::remove_file(&path).expect("removed");
        }
        if nice_of_server(session) == Some(wanted) {
            return true;
        }
    }
    false
}

/// Does something while twice as many threads compute as there are CPUs.
fn beside_programs<T>(work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn who_asks_raises_it_and_who_is_silent_lets_it_go() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.session_weight=5,fuse.busy_idle_ms=200");
    session.create("tank", 128, &[]);
    if nice_of_server(&session) != Some(0) {
        session.export_clean("tank");
        return;
    }
    let place = session.mount("tank");
    let is_raised = beside_programs(|| asks_until(&session, &place, -5));
    assert!(is_raised, "it is not raised");
    until("it is not raised any more", || {
        nice_of_server(&session) == Some(0)
    });
    session.export_clean("tank");
}

#[test]
fn a_weight_that_somebody_else_gave_stays() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.session_weight=5");
    session.create("tank", 128, &[]);
    let is_known = nice_of_server(&session) == Some(0);
    let [server] = session.daemons()[..] else {
        panic!("one server");
    };
    if is_known && fs::write(format!("/proc/{server}/autogroup"), "3").is_ok() {
        let place = session.mount("tank");
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            fs::write(place.join("f"), b"").expect("a file");
            fs::remove_file(place.join("f")).expect("removed");
        }
        assert_eq!(nice_of_server(&session), Some(3));
    }
    session.export_clean("tank");
}
