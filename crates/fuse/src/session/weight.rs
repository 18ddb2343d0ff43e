//! The weight of the daemon's session while it answers.
//!
//! Linux shares CPUs between sessions first. A daemon works for all programs that use its mounts, and has the weight of
//! one: where others compute, a request waits until the daemon's turn comes, although the program that asks has its
//! turn. So a session that is the daemon's own asks for more weight while requests are read and others compute. Not
//! while its other threads (txg, compression, scrub) compute much: they have the same session, and are to get no more
//! than a program would. Nor while CPUs are free: readers that poll leave the CPU to their caller only as long as their
//! session weighs no more than the caller's. It is taken back when nobody has asked for a while.

use super::counters::counters;
use crate::tunables::SESSION_WEIGHT;
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::CpuUse;
use sys::system::RunnableThreads;

static STATE_CLASS: LockClass = LockClass::new("fuse.session_weight", rank::FRONT_END + 44);

/// How often a reader looks at most,
const LOOK_NS: u64 = 100_000_000;
/// and so many times the time that the last look took, for it costs more where there are many threads.
const LOOK_PARTS: u64 = 200;
/// What was before a longer pause says nothing.
const PAUSE_NS: u64 = 1_000_000_000;
/// Parts of one CPU, in 256: with less work of its other threads than that the session gets its weight,
const LITTLE: u64 = 64;
/// and with more it has that of a program.
const MUCH: u64 = 128;
/// Others' threads that could run for each CPU, in 256 parts: they want it with more than that,
const WANTED: u64 = 320;
/// and do not with fewer than that. One program that asks, on two CPUs, and what the system does for it, are fewer.
const FREE: u64 = 256;

/// Whether the session is this process's own: a library does not change that of the program it is in.
static IS_OWN: AtomicBool = AtomicBool::new(false);
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
static LOOK_AFTER_NS: AtomicU64 = AtomicU64::new(LOOK_NS);
static RUNNABLE: LazyLock<Option<RunnableThreads>> = LazyLock::new(RunnableThreads::open);
static CPUS: LazyLock<u64> = LazyLock::new(|| sys::system::cpu_count().max(1) as u64);
static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(&STATE_CLASS, State::default()));

/// The process leads its session: its weight may be changed as requests come.
pub fn session_is_own() {
    IS_OWN.store(true, Ordering::Relaxed);
}

/// A request was read.
pub(super) fn request_came(now_ns: u64) {
    let looked_ns = LOOKED_NS.load(Ordering::Relaxed);
    let is_wanted = IS_OWN.load(Ordering::Relaxed) && SESSION_WEIGHT.get() != 0;
    let due_ns = LOOK_AFTER_NS.load(Ordering::Relaxed);
    if !is_wanted || now_ns.saturating_sub(looked_ns) < due_ns {
        return;
    }
    let claimed =
        LOOKED_NS.compare_exchange(looked_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    if claimed.is_ok() {
        let mut state = STATE.lock();
        let threads = RUNNABLE.as_ref().and_then(RunnableThreads::count);
        let target = state.look(&Seen {
            at_ns: now_ns,
            used: sys::cpu_use(),
            others: threads.map(|threads| threads.saturating_sub(sys::runnable_threads())),
            cpus: *CPUS,
        });
        state.follow(target);
        let took_ns = monotonic_ns().saturating_sub(now_ns);
        let after_ns = took_ns
            .saturating_mul(LOOK_PARTS)
            .clamp(LOOK_NS, PAUSE_NS / 2);
        LOOK_AFTER_NS.store(after_ns, Ordering::Relaxed);
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

/// What a look sees.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    used: CpuUse,
    /// Threads of others that run or wait for a CPU; none where the system does not tell.
    others: Option<u64>,
    cpus: u64,
}

#[derive(Debug, Default)]
struct State {
    looked_ns: u64,
    used: CpuUse,
    /// What threads that do not answer use of a CPU, in 256 parts, lately.
    other_work: u64,
    /// Threads of others that could run, lately, in 256 parts of one.
    others: u64,
    /// The value that was given to the session; none as long as it has its own.
    given: Option<i32>,
    /// Somebody else has chosen a weight, or it cannot be changed: it stays.
    is_settled: bool,
}

impl State {
    fn look(&mut self, seen: &Seen) -> Target {
        let passed_ns = seen.at_ns.saturating_sub(self.looked_ns).max(1);
        let before = std::mem::replace(&mut self.used, seen.used);
        self.looked_ns = seen.at_ns;
        let all_ns = seen.used.all_ns.saturating_sub(before.all_ns);
        let answering_ns = seen.used.answering_ns.saturating_sub(before.answering_ns);
        let work = all_ns.saturating_sub(answering_ns).saturating_mul(256) / passed_ns;
        let others = seen
            .others
            .map_or(u64::MAX, |threads| threads.saturating_mul(256));
        if passed_ns > PAUSE_NS {
            // Nor does this moment: whoever starts a program that asks could run in it as well.
            (self.other_work, self.others) = (0, 0);
            return Target::AsItIs;
        }
        let lately = |before: u64, now: u64| before / 4 * 3 + now / 4;
        self.other_work = lately(self.other_work, work);
        self.others = lately(self.others, others);
        match (self.other_work, self.others / seen.cpus.max(1)) {
            (MUCH.., _) | (_, ..FREE) => Target::Usual,
            (..LITTLE, WANTED..) => Target::More,
            (..MUCH, FREE..) => Target::AsItIs,
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
