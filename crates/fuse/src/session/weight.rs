//! The weight of the daemon's session while it answers.
//!
//! Linux shares CPUs between sessions first. A daemon works for all programs that use its mounts, and has the weight of
//! one: where others compute, a request waits until the daemon's turn comes, although the program that asks has its
//! turn. So a session that is the daemon's own asks for more weight while requests are read. Not while its other
//! threads (txg, compression, scrub) compute much: they have the same session, and are to get no more than a program
//! would. It is given back when nobody has asked for a while.

use super::counters::counters;
use crate::tunables::SESSION_WEIGHT;
use base::lock::{LockClass, Mutex, rank};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::CpuUse;

static STATE_CLASS: LockClass = LockClass::new("fuse.session_weight", rank::FRONT_END + 44);

/// How often a reader looks.
const LOOK_NS: u64 = 100_000_000;
/// What was before a longer pause says nothing.
const PAUSE_NS: u64 = 1_000_000_000;
/// Parts of one CPU, in 256: with less work of its other threads than that the session gets its weight,
const LITTLE: u64 = 64;
/// and with more it has that of a program.
const MUCH: u64 = 128;

/// Whether the session is this process's own: a library does not change that of the program it is in.
static IS_OWN: AtomicBool = AtomicBool::new(false);
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(&STATE_CLASS, State::default()));

/// The process leads its session: its weight may be changed as requests come.
pub fn session_is_own() {
    IS_OWN.store(true, Ordering::Relaxed);
}

/// A request was read.
pub(super) fn request_came(now_ns: u64) {
    let looked_ns = LOOKED_NS.load(Ordering::Relaxed);
    let is_wanted = IS_OWN.load(Ordering::Relaxed) && SESSION_WEIGHT.get() != 0;
    if !is_wanted || now_ns.saturating_sub(looked_ns) < LOOK_NS {
        return;
    }
    let claimed =
        LOOKED_NS.compare_exchange(looked_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    if claimed.is_ok() {
        let mut state = STATE.lock();
        let target = state.look(now_ns, sys::cpu_use());
        state.follow(target);
    }
}

/// Nobody has asked for a while.
pub(super) fn nobody_asks(now_ns: u64) {
    if now_ns.saturating_sub(LOOKED_NS.load(Ordering::Relaxed)) > PAUSE_NS
        && IS_OWN.load(Ordering::Relaxed)
    {
        STATE.lock().follow(Target::Usual);
    }
}

/// Nobody looks whether somebody asks. A reader of another mount raises the weight again.
pub(super) fn nobody_asks_any_more() {
    nobody_asks(u64::MAX);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// That of a program.
    Usual,
    /// More.
    More,
    /// What it has.
    AsItIs,
}

#[derive(Debug, Default)]
struct State {
    looked_ns: u64,
    used: CpuUse,
    /// What threads that do not answer use of a CPU, in 256 parts, lately.
    other_work: u64,
    /// The value that was given to the session; none as long as it has its own.
    given: Option<i32>,
    /// Somebody else has chosen a weight, or it cannot be changed: it stays.
    is_settled: bool,
}

impl State {
    fn look(&mut self, now_ns: u64, used: CpuUse) -> Target {
        let passed_ns = now_ns.saturating_sub(self.looked_ns).max(1);
        let all_ns = used.all_ns.saturating_sub(self.used.all_ns);
        let answering_ns = used.answering_ns.saturating_sub(self.used.answering_ns);
        self.looked_ns = now_ns;
        self.used = used;
        if passed_ns > PAUSE_NS {
            self.other_work = 0;
            return Target::AsItIs;
        }
        let other_ns = all_ns.saturating_sub(answering_ns);
        let work = other_ns.saturating_mul(256) / passed_ns;
        self.other_work = (self.other_work * 3 + work) / 4;
        match self.other_work {
            ..LITTLE => Target::More,
            LITTLE..=MUCH => Target::AsItIs,
            _ => Target::Usual,
        }
    }

    fn follow(&mut self, target: Target) {
        let more = i32::try_from(SESSION_WEIGHT.get()).map_or(0, |steps| -steps);
        let wanted = match (target, self.given) {
            (Target::More, None) if more != 0 => more,
            (Target::Usual, Some(_)) => 0,
            (Target::More | Target::Usual | Target::AsItIs, _) => return,
        };
        if self.is_settled {
            return;
        }
        let is_ours = sys::session_nice() == Some(self.given.unwrap_or(0));
        if !is_ours || sys::set_session_nice(wanted).is_err() {
            self.is_settled = true;
            return;
        }
        self.given = (wanted != 0).then_some(wanted);
        if wanted != 0 {
            counters().session_raised.increment();
        }
    }
}

#[cfg(test)]
mod tests;
