//! The engine under other limits: a random test draws all of them from its seed, tiny ones as often as usual ones, so
//! that what happens beyond a limit happens in a small test, too.
//!
//! `MILLPOND_TUNABLES` overrides what tests draw: `default`, another seed, or `name=value,…` as a failing test prints
//! it.
//!
//! Tunables are the process's, and tests of one program run beside each other. Whoever draws has a turn, in which
//! nobody else draws, so that a seed means one history under one set of limits; afterwards all are as by default. A
//! test that does not draw runs under whatever holds meanwhile, which is safe, as any value within its bounds is at
//! any moment; one that counts on a limit takes a turn with [`by_default`].

use base::tunable::{Tunable, draw_all, set_all};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The variable of the environment that overrides what tests draw.
pub const VARIABLE: &str = "MILLPOND_TUNABLES";

/// The tunables of all crates.
#[must_use]
pub fn all() -> Vec<&'static Tunable> {
    let mut all = pool::tunables::all();
    all.extend(posix::TUNABLES);
    all
}

/// Those that a daemon has: it mounts as well.
fn of_daemons() -> Vec<&'static Tunable> {
    let mut all = all();
    all.extend(fuse::TUNABLES);
    all
}

/// A turn: while it lasts, the limits are those that were drawn for it.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        for tunable in of_daemons() {
            tunable.reset();
        }
    }
}

fn turn() -> Turn {
    // A test that failed in its turn left nothing behind.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Turn { _turn: turn }
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
    println!("limits: {VARIABLE}={}", described());
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
