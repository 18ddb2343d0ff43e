//! Running something under a schedule.

use super::seat::{ANY, Claim, Core};
use crate::thread::{self, Role};
use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A schedule whose clock and steps stand still for so long waits for something that it does not know.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at that.
const LOOK: Duration = Duration::from_millis(500);

/// Clocks and chance of a process are one schedule's at a time.
static ONE: Mutex<()> = Mutex::new(());

/// What came of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran<T> {
    /// What its first thread returned.
    pub value: T,
    /// How often it was asked who goes on.
    pub steps: u64,
    /// How often that was another thread.
    pub switches: u64,
    /// How long it took, by its own clock.
    pub virtual_ns: u64,
    /// A hash of all choices.
    pub trace: u64,
}

/// Why a schedule came to no end. Its threads are left where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody can go on: what each waits for.
    Deadlock(String),
    /// A thread waits for something outside of the schedule, or computes without end: which, and what the others do.
    Outside(String),
    /// The first thread panicked with this message.
    Panicked(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(report) => write!(f, "nobody can go on:\n{report}"),
            Self::Outside(report) => write!(f, "a thread waits outside of the schedule: {report}"),
            Self::Panicked(message) => write!(f, "the first thread panicked: {message}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs `body` and all threads that it starts, and they, under the schedule that the seed names; it ends when all of
/// them have ended.
///
/// # Errors
/// It came to no good end.
///
/// # Panics
/// The system gives no thread.
pub fn run<T: Send + 'static>(
    seed: u64,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Ran<T>, Failure> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let core = Core::new(seed, "first");
    ANY.store(true, Ordering::SeqCst);
    let claim = Claim::first(core.clone());
    let enter = claim.clone();
    let first = thread::named("first", Role::PART).unscheduled();
    let first = first.spawn(move || {
        enter.enter();
        body()
    });
    let first = first.expect("the system gives a thread");
    let watched = watch(&core);
    if core.turns().has_ended(0) {
        // A panic comes first: what it left undone may be why nobody can go on.
        let value = first.join().map_err(panicked)?;
        watched?;
        ANY.store(false, Ordering::SeqCst);
        return Ok(ran(value, &core));
    }
    Err(watched.err().unwrap_or(Failure::Outside(String::new())))
}

fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::Panicked(text.unwrap_or_default())
}

fn ran<T>(value: T, core: &Core) -> Ran<T> {
    let turns = core.turns();
    Ran {
        value,
        steps: turns.steps,
        switches: turns.switches,
        virtual_ns: turns.now_ns,
        trace: turns.trace,
    }
}

/// Waits until all is over.
fn watch(core: &Core) -> Result<(), Failure> {
    let mut before = (0, Duration::ZERO);
    let mut turns = core.turns();
    while !turns.is_over() {
        let waited = core.changed.wait_timeout(turns, LOOK);
        turns = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(report) = core.failure() {
            return Err(Failure::Deadlock(report));
        }
        let still = if before.0 == turns.steps {
            before.1 + LOOK
        } else {
            Duration::ZERO
        };
        before = (turns.steps, still);
        if still > PATIENCE {
            let name = turns.name(turns.running);
            let report = format!("{} ({name})\n{}", turns.running, turns.describe());
            return Err(Failure::Outside(report));
        }
    }
    Ok(())
}
