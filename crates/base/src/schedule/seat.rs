//! The place of a thread in its schedule, and what it does there.

use super::turns::{Turns, Wait};
use crate::random::{Rng, SeededRng};
use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether there is a schedule in the process: where there is none, that is all that is asked.
pub(super) static ANY: AtomicBool = AtomicBool::new(false);
/// Nobody has the turn: all is over, or nobody can go on.
const NOBODY: usize = usize::MAX;
/// The time of day when a schedule begins, in nanoseconds since 1970.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

/// What the threads of a schedule share.
#[derive(Debug)]
pub(super) struct Core {
    turns: Mutex<Turns>,
    /// Who has the turn.
    running: AtomicUsize,
    chance: SeededRng,
    epoch: Instant,
    /// Why it does not go on.
    failure: Mutex<Option<String>>,
    pub(super) changed: Condvar,
}

impl Core {
    pub(super) fn new(seed: u64, name: &str) -> Arc<Self> {
        Arc::new(Self {
            turns: Mutex::new(Turns::new(seed, name)),
            running: AtomicUsize::new(0),
            chance: SeededRng::new(seed ^ 0xC4A2CE),
            epoch: crate::clock::real_now(),
            failure: Mutex::new(None),
            changed: Condvar::new(),
        })
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failure(&self) -> Option<String> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the turn to whom the seed says; the caller goes on when it has it again. One that has ended has no
    /// further turn.
    fn pass(&self, mut turns: MutexGuard<'_, Turns>, own: usize, ended: bool) {
        match turns.choose() {
            Ok(next) if next == own => return,
            Ok(next) => {
                let thread = turns.thread(next).cloned();
                // Before the lock is released: a thread that has yet to say who it is looks here afterwards.
                self.running.store(next, Ordering::Release);
                drop(turns);
                if let Some(thread) = thread {
                    thread.unpark();
                }
            }
            Err(report) => {
                let failure = (!turns.is_over()).then_some(report);
                drop(turns);
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
                self.running.store(NOBODY, Ordering::Release);
                self.changed.notify_all();
            }
        }
        if !ended {
            self.await_turn(own);
        }
    }

    fn await_turn(&self, own: usize) {
        while self.running.load(Ordering::Acquire) != own {
            std::thread::park();
        }
    }

    /// Waits; answers whether the time was over.
    fn wait(&self, own: usize, wait: Wait, timeout: Option<Duration>) -> bool {
        let mut turns = self.turns();
        let deadline_ns = timeout.map(|timeout| turns.now_ns.saturating_add(nanoseconds(timeout)));
        turns.wait(own, wait, deadline_ns);
        self.pass(turns, own, false);
        self.turns().timed_out(own)
    }

    fn end(&self, own: usize) {
        let mut turns = self.turns();
        turns.end(own);
        self.pass(turns, own, true);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The calling thread's place. Thread-local values are dropped in the reverse order of their first use, and a thread
/// takes its place first: when it gives the turn away for good, nothing of it is left that could do anything.
struct Seat(OnceCell<(Arc<Core>, usize)>);

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((core, own)) = self.0.get() {
            core.end(*own);
        }
    }
}

thread_local! {
    static SEAT: Seat = const { Seat(OnceCell::new()) };
}

fn with<T>(body: impl FnOnce(&Arc<Core>, usize) -> T) -> Option<T> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let with = |seat: &Seat| seat.0.get().map(|(core, own)| body(core, *own));
    SEAT.try_with(with).ok().flatten()
}

/// Whether the calling thread belongs to a schedule.
pub(crate) fn is_scheduled() -> bool {
    with(|_, _| ()).is_some()
}

/// Another thread may go on here.
pub(crate) fn point() {
    with(|core, own| core.pass(core.turns(), own, false));
}

/// This moment of the schedule, as a moment of the system's clock.
pub(crate) fn now() -> Option<Instant> {
    with(|core, _| core.epoch + Duration::from_nanos(core.turns().now_ns))
}

/// Nanoseconds since 1970, in the schedule's time.
pub(crate) fn elapsed_ns() -> Option<u64> {
    with(|core, _| BEGIN_NS + core.turns().now_ns)
}

/// The next number of the schedule's own chance.
pub(crate) fn random() -> Option<u64> {
    with(|core, _| core.chance.next_u64())
}

/// Sleeps in virtual time; false outside a schedule.
pub(crate) fn sleep(duration: Duration) -> bool {
    with(|core, own| core.wait(own, Wait::Sleep, Some(duration))).is_some()
}

/// Waits until a lock was released since the call; false outside a schedule.
pub(crate) fn wait_for_lock(place: usize, class: &'static str) -> bool {
    with(|core, own| core.wait(own, Wait::Lock(place, class), None)).is_some()
}

/// A lock was released.
pub(crate) fn released(place: usize) {
    with(|core, own| {
        let mut turns = core.turns();
        turns.wake_all(|wait| matches!(wait, Wait::Lock(at, _) if at == place));
        if std::thread::panicking() {
            return;
        }
        core.pass(turns, own, false);
    });
}

/// Waits to be told, the lock at `lock` being released; answers whether the time was over.
pub(crate) fn wait_for_condition(
    place: usize,
    (lock, class): (usize, &'static str),
    timeout: Option<Duration>,
) -> Option<bool> {
    with(|core, own| {
        let is_freed = |wait| matches!(wait, Wait::Lock(at, _) if at == lock);
        core.turns().wake_all(is_freed);
        core.wait(own, Wait::Condition(place, class), timeout)
    })
}

/// Tells one or all of those who wait at a condition.
pub(crate) fn notify(place: usize, all: bool) {
    with(|core, _| core.turns().notify(place, all));
}

/// A thread's claim to a place in the schedule of the one that starts it; none outside.
#[derive(Clone, Debug)]
pub(crate) struct Claim(Option<(Arc<Core>, usize)>);

impl Claim {
    pub(crate) fn new(name: &str, scope: usize) -> Self {
        Self(with(|core, _| {
            let id = core.turns().add(name, scope);
            (Arc::clone(core), id)
        }))
    }

    /// No place.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(super) const fn first(core: Arc<Core>) -> Self {
        Self(Some((core, 0)))
    }

    /// The thread was started: it may go on first.
    pub(crate) fn started(&self) {
        if self.0.is_some() {
            point();
        }
    }

    /// The system gave no thread.
    pub(crate) fn failed(&self) {
        if let Some((core, id)) = &self.0 {
            core.turns().end(*id);
        }
    }

    /// What the thread does first: it waits for its turn.
    pub(crate) fn enter(&self) {
        if let Some((core, id)) = &self.0 {
            SEAT.with(|seat| {
                let _ = seat.0.set((Arc::clone(core), *id));
            });
            core.turns().set_thread(*id, crate::thread::of_system());
            core.await_turn(*id);
        }
    }

    /// Waits until the thread has ended.
    pub(crate) fn wait_for_end(&self) {
        let Some((_, id)) = &self.0 else { return };
        with(|core, own| {
            if !core.turns().has_ended(*id) {
                core.wait(own, Wait::End(*id), None);
            }
        });
    }
}

/// Waits for all threads of a scope when it goes: the system's own wait would keep the turn.
pub(crate) struct Scoped(usize);

impl Scoped {
    pub(crate) const fn new(scope: usize) -> Self {
        Self(scope)
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        with(|core, own| {
            if core.turns().is_used(self.0) {
                core.wait(own, Wait::Scope(self.0), None);
            }
        });
    }
}
