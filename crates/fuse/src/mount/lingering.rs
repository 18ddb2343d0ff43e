//! Connections of mounts that are gone here, and that somebody else keeps: a copy in another mount namespace, an open
//! file. They are aborted when they had a moment to end by themselves.

use crate::session::Session;
use base::clock::real_now;
use base::lock::{LockClass, Mutex, rank};
use base::thread;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long they may take.
const MOMENT: Duration = Duration::from_secs(2);
/// So many at most; what is beyond has no moment.
const LINGERING_MAX: usize = 4096;

static LINGERING_CLASS: LockClass = LockClass::new("fuse.lingering", rank::FRONT_END + 8);
static LINGERING: LazyLock<Mutex<Lingering>> =
    LazyLock::new(|| Mutex::new(&LINGERING_CLASS, Lingering::default()));

/// In the order in which they are to end.
#[derive(Default)]
struct Lingering {
    all: VecDeque<One>,
    /// Whether a thread sees to them.
    is_watched: bool,
}

struct One {
    session: Session,
    device: (u32, u32),
    deadline: Option<Instant>,
}

impl One {
    fn end(self) {
        let left = self.deadline.map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(real_now())
        });
        if !self.session.wait_ended(left) {
            // Where that cannot be, whoever has it gets errors, as of a file system that is gone.
            let _aborted = sys::abort_fuse(self.device);
        }
    }
}

/// Ends a connection in a moment, on a thread that all have in common; without one at once.
pub(super) fn end_soon(session: &Session, device: (u32, u32)) {
    if session.has_ended() {
        return;
    }
    let one = One {
        session: session.clone(),
        device,
        deadline: real_now().checked_add(MOMENT),
    };
    let mut lingering = LINGERING.lock();
    if lingering.all.len() >= LINGERING_MAX {
        drop(lingering);
        let _aborted = sys::abort_fuse(device);
        return;
    }
    lingering.all.push_back(one);
    let is_watched = std::mem::replace(&mut lingering.is_watched, true);
    drop(lingering);
    if is_watched {
        return;
    }
    let started = thread::named("fuse-lingering", sys::thread::BACKGROUND).spawn(end_all);
    if started.is_err() {
        end_all();
    }
}

/// Ends them until there is none.
fn end_all() {
    loop {
        let mut lingering = LINGERING.lock();
        let Some(one) = lingering.all.pop_front() else {
            lingering.is_watched = false;
            return;
        };
        drop(lingering);
        one.end();
    }
}
