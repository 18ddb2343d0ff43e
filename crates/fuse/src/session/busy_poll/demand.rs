//! Whether others want the CPUs on which readers would poll.
//!
//! The system tells at any time how many threads could run. Without the readers that poll and the one caller whom they
//! poll for, these are the others; when they are more than there are CPUs, each reader that stays runnable keeps
//! somebody waiting, and is kept waiting. A look takes about a microsecond and is taken once a millisecond; when the
//! CPUs are wanted, the next one is later each time, for what is found then is as a rule the same.

use super::super::counters::counters;
use super::POLLING;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sys::system::RunnableThreads;

/// How long what was seen is believed when CPUs are free.
const FREE_NS: u64 = 1_000_000;
/// The same when they are wanted, at first.
const WANTED_NS: u64 = 4_000_000;
/// How often that is doubled at most: 256 ms.
const DOUBLINGS_MAX: u32 = 6;

static DEMAND: Demand = Demand::new();
static RUNNABLE: LazyLock<Option<RunnableThreads>> = LazyLock::new(RunnableThreads::open);
static CPUS: LazyLock<u64> = LazyLock::new(|| sys::system::cpu_count() as u64);

/// Whether others want the CPUs. Asked by a thread that has a place among those that poll.
pub(super) fn others_want_cpus(now_ns: u64) -> bool {
    DEMAND.is_high(now_ns, *CPUS, || {
        let runnable = RUNNABLE.as_ref()?.count()?;
        let polling = POLLING.load(Ordering::Relaxed) as u64;
        let caller = 1;
        Some(runnable.saturating_sub(polling + caller))
    })
}

/// What was seen last. Races between readers cost a look, no more.
#[derive(Debug)]
struct Demand {
    believed_until_ns: AtomicU64,
    is_high: AtomicBool,
    /// How many looks in a row found the CPUs wanted; fewer again with each that did not.
    found: AtomicU32,
}

impl Demand {
    const fn new() -> Self {
        Self {
            believed_until_ns: AtomicU64::new(0),
            is_high: AtomicBool::new(false),
            found: AtomicU32::new(0),
        }
    }

    fn is_high(&self, now_ns: u64, cpus: u64, others: impl FnOnce() -> Option<u64>) -> bool {
        if now_ns < self.believed_until_ns.load(Ordering::Relaxed) {
            return self.is_high.load(Ordering::Relaxed);
        }
        let found = self.found.load(Ordering::Relaxed);
        // Where it is not told, the account is what is left.
        let is_high = others().is_some_and(|others| others > cpus);
        let (after, believed_ns) = if is_high {
            counters().polls_put_off.increment();
            let doublings = found.min(DOUBLINGS_MAX);
            (doublings + 1, WANTED_NS << doublings)
        } else {
            (found.saturating_sub(1), FREE_NS)
        };
        self.found.store(after, Ordering::Relaxed);
        self.is_high.store(is_high, Ordering::Relaxed);
        let until_ns = now_ns.saturating_add(believed_ns);
        self.believed_until_ns.store(until_ns, Ordering::Relaxed);
        is_high
    }
}

#[cfg(test)]
mod tests;
