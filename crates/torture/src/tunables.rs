//! The engine under other limits: a random test draws all of them from its seed, tiny ones as often as usual ones, so
//! that what happens beyond a limit happens in a small test, too.
//!
//! `MILLPOND_TUNABLES` overrides what tests draw: `default`, another seed, or `name=value,…` as a failing test prints
//! it.
//!
//! Tunables are the process's, and tests of one program run beside each other. Whoever draws has a turn, in which no
//! other test is at work, so that a seed means one history under one set of limits; afterwards all are as by default.
//! Those that do not draw may be at work beside each other: each [`crate::test_pool::TestPool`] of a thread without
//! a turn keeps the usual limits while it lives ([`keep`]), so no test has to think of it. One that sets limits by
//! itself takes a turn with [`by_default`].

use base::tunable::{Tunable, draw_all, set_all};
use std::cell::Cell;
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// Who counts on the limits now: one turn, or any number of those that keep the usual ones.
struct Users {
    turn: bool,
    keepers: usize,
}

static USERS: Mutex<Users> = Mutex::new(Users {
    turn: false,
    keepers: 0,
});
static LEFT: Condvar = Condvar::new();

thread_local! {
    /// Whether the turn is this thread's.
    static MINE: Cell<bool> = const { Cell::new(false) };
}

/// Waits until there is no turn, nor anything else that `hinders`.
fn users_without_turn(hinders: impl Fn(&Users) -> bool) -> MutexGuard<'static, Users> {
    let waits = |users: &mut Users| users.turn || hinders(users);
    LEFT.wait_while(users(), waits)
        .unwrap_or_else(PoisonError::into_inner)
}

fn users() -> MutexGuard<'static, Users> {
    // A test that failed left nothing behind.
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The variable of the environment that overrides what tests draw.
pub const VARIABLE: &str = "MILLPOND_TUNABLES";

/// The tunables of all crates.
#[must_use]
pub fn all() -> Vec<&'static Tunable> {
    let mut all = pool::tunables::all();
    all.extend(posix::TUNABLES);
    all.extend(volume::TUNABLES);
    all.extend(replication::TUNABLES);
    all
}

/// Those that a daemon has: it mounts as well.
fn of_daemons() -> Vec<&'static Tunable> {
    let mut all = all();
    all.extend(fuse::TUNABLES);
    all
}

/// A turn: while it lasts, the limits are those that were drawn for it. Laboratories of other threads wait for its end;
/// threads of the same test open none of their own, therefore.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    /// It is the thread's.
    _thread: PhantomData<*const ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        for tunable in of_daemons() {
            tunable.reset();
        }
        MINE.set(false);
        users().turn = false;
        LEFT.notify_all();
    }
}

fn turn() -> Turn {
    assert!(!MINE.get(), "this thread has a turn already");
    users_without_turn(|users| users.keepers != 0).turn = true;
    MINE.set(true);
    Turn {
        _thread: PhantomData,
    }
}

/// While it lasts, nobody draws.
#[derive(Debug)]
#[must_use]
pub struct Kept {
    /// False: it is part of the turn of its thread.
    counted: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.counted {
            users().keepers -= 1;
            LEFT.notify_all();
        }
    }
}

/// Keeps the limits as they are by default, or as they were drawn for this thread's turn.
pub fn keep() -> Kept {
    let counted = !MINE.get();
    if counted {
        // Never for those who wait for a turn: who keeps the limits may want to keep them twice.
        users_without_turn(|_| false).keepers += 1;
    }
    Kept { counted }
}

/// A turn under limits drawn from the seed, and a line that says which; with `MILLPOND_TUNABLES=` it belongs before the
/// command that repeats the test, where it is not the seed's own draw.
///
/// # Panics
/// If `MILLPOND_TUNABLES` has something else than it may.
pub fn drawn(seed: u64) -> Turn {
    drawn_but(seed, &[])
}

/// Those whose names begin so decide when a txg closes. Tests that know the state of each txg take them as by default:
/// none closes then before it is asked to.
pub const TXGS_AS_ASKED: &[&str] = &["txg.", "dmu.free_blocks_", "dsl.room_", "pool.space_short_"];

/// Those whose names begin so say how much of a truncation a transaction does. Models to which each call is one step
/// take them as by default: then no crash and no snapshot comes between two of its transactions.
pub const CALLS_WHOLE: &[&str] = &["dmu.free_blocks_"];

/// The same, with what begins so as by default.
///
/// # Panics
/// If `MILLPOND_TUNABLES` has something else than it may.
pub fn drawn_but(seed: u64, kept: &[&str]) -> Turn {
    let turn = drawn_silently(seed, kept);
    println!("limits: {VARIABLE}={}", described());
    turn
}

/// The same, and nothing is printed: for the many crash points of one history.
///
/// # Panics
/// If `MILLPOND_TUNABLES` has something else than it may.
pub fn drawn_silently(seed: u64, kept: &[&str]) -> Turn {
    let turn = turn();
    match std::env::var(VARIABLE) {
        Ok(text) => set_all(&all(), &text).expect("MILLPOND_TUNABLES"),
        Err(_) => draw_all(&all(), seed),
    }
    for tunable in all() {
        if kept.iter().any(|part| tunable.name().starts_with(part)) {
            tunable.reset();
        }
    }
    turn
}

/// Limits drawn from the seed for daemons, but what begins as one of `kept`, as the text that they take in [`VARIABLE`]
/// when they start; printed, too.
///
/// # Panics
/// If the variable has something else than it may.
#[must_use]
pub fn for_daemons(seed: u64, kept: &[&str]) -> String {
    let _turn = turn();
    let all = of_daemons();
    match std::env::var(VARIABLE) {
        Ok(text) => set_all(&all, &text).expect("MILLPOND_TUNABLES"),
        Err(_) => draw_all(&all, seed),
    }
    for tunable in &all {
        if kept.iter().any(|part| tunable.name().starts_with(part)) {
            tunable.reset();
        }
    }
    let text = described_of(&all);
    println!("limits: {VARIABLE}={text}");
    text
}

/// A turn under the usual limits, or what `MILLPOND_TUNABLES` says: for programs that measure.
///
/// # Panics
/// If `MILLPOND_TUNABLES` has something else than it may.
pub fn given() -> Turn {
    let turn = by_default();
    if let Ok(text) = std::env::var(VARIABLE) {
        set_all(&all(), &text).expect("MILLPOND_TUNABLES");
    }
    turn
}

/// A turn under the usual limits.
pub fn by_default() -> Turn {
    let turn = turn();
    for tunable in all() {
        tunable.reset();
    }
    turn
}

/// What is not as by default, as [`VARIABLE`] takes it.
#[must_use]
pub fn described() -> String {
    described_of(&all())
}

fn described_of(tunables: &[&Tunable]) -> String {
    let mut text = String::new();
    for tunable in tunables {
        if tunable.get() != tunable.default() {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{}={}", tunable.name(), tunable.get());
        }
    }
    if text.is_empty() {
        "default".clone_into(&mut text);
    }
    text
}
