//! What is known of the threads that read requests: which are busy, since when, and how many are free.

use super::busy_poll::ArrivalRate;
use crate::tunables::READERS_MAX;
use base::clock::monotonic_ns;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

/// All readers of a mount, helpers included; a tunable may say less.
const SLOTS: usize = 32;
/// A request that takes longer is taken to wait for something.
const STUCK_NS: u64 = 1_000_000;
/// A helper that nobody has needed for so long ends.
const LINGER_NS: u64 = 1_000_000_000;

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By a reader while another one is free; one of them at a time may wait for room.
    BesideFree,
    /// By the last reader that is free, or a thread that such a one left it to: it does not wait for room.
    LastFree,
    /// By the last reader that is free, when no other can be started.
    LastOfAll,
    /// By a thread that reads no requests; there is room.
    Apart,
}

/// On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Slot {
    /// Since when its reader serves the present request; 0 while it waits for one.
    pub(super) busy_since_ns: AtomicU64,
    /// The reader's thread, as the kernel calls it; 0 if that is not known.
    pub(super) thread: AtomicU32,
    pub(super) taken: AtomicBool,
}

/// The state of all readers of a mount.
pub(super) struct Readers {
    pub(super) residents: usize,
    pub(super) slots: [Slot; SLOTS],
    /// Readers that live.
    pub(super) alive: AtomicUsize,
    /// Readers that wait for a request.
    pub(super) waiting: AtomicUsize,
    /// When a helper was last missed.
    pub(super) missed_ns: AtomicU64,
    pub(super) arrivals: ArrivalRate,
    pub(super) monitor: OnceLock<Thread>,
    pub(super) monitor_sleeps: AtomicBool,
    /// Whether one of them serves a request that may wait for room.
    has_waiter: AtomicBool,
}

impl Readers {
    pub(super) fn new(residents: usize) -> Self {
        Self {
            residents: residents.clamp(1, SLOTS),
            slots: std::array::from_fn(|_| Slot::default()),
            alive: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            missed_ns: AtomicU64::new(0),
            arrivals: ArrivalRate::default(),
            monitor: OnceLock::new(),
            monitor_sleeps: AtomicBool::new(false),
            has_waiter: AtomicBool::new(false),
        }
    }

    /// How many there may be.
    fn readers_max(&self) -> usize {
        READERS_MAX.count().clamp(self.residents, SLOTS)
    }

    /// Where the reader serves that has taken a request while so many others are free.
    pub(super) fn place(&self, others_waiting: usize) -> Place {
        if others_waiting > 0 {
            Place::BesideFree
        } else if self.alive.load(Ordering::SeqCst) >= self.readers_max() {
            Place::LastOfAll
        } else {
            Place::LastFree
        }
    }

    pub(super) fn take_slot(&self) -> Option<usize> {
        let slots = self.slots.iter().take(self.readers_max());
        slots
            .into_iter()
            .position(|slot| !slot.taken.swap(true, Ordering::AcqRel))
    }

    /// Readers in one request for longer than [`STUCK_NS`] that sleep. One that could run and only
    /// has no CPU is no reason for another that would have none either.
    pub(super) fn stuck(&self) -> usize {
        let now = monotonic_ns();
        let is_stuck = |slot: &&Slot| {
            let since = slot.busy_since_ns.load(Ordering::Relaxed);
            since != 0
                && now.saturating_sub(since) > STUCK_NS
                && sleeps(slot.thread.load(Ordering::Relaxed))
        };
        self.slots.iter().filter(is_stuck).count()
    }

    /// Whether a helper may end.
    pub(super) fn are_enough(&self) -> bool {
        let missed_ns = self.missed_ns.load(Ordering::Relaxed);
        self.waiting.load(Ordering::Relaxed) >= self.residents
            && monotonic_ns().saturating_sub(missed_ns) > LINGER_NS
    }

    /// Whether a reader waits for requests: not the one that asks, which serves one.
    pub(super) fn others_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The right of a reader to wait for room. Only one has it: were all to wait who find another one free, each that
    /// sleeps would have a helper started, who then waits as well, and they would all wake up together.
    pub(super) fn waiter(&self) -> Option<Waiter<'_>> {
        let is_taken = self.has_waiter.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| Waiter { readers: self })
    }

    /// Wakes the monitor so that it sees the end.
    pub(super) fn stop_monitor(&self) {
        if let Some(monitor) = self.monitor.get() {
            monitor.unpark();
        }
    }

    pub(super) fn call_monitor(&self) {
        if self.monitor_sleeps.load(Ordering::Relaxed)
            && self.monitor_sleeps.swap(false, Ordering::AcqRel)
            && let Some(monitor) = self.monitor.get()
        {
            monitor.unpark();
        }
    }
}

/// A reader that may wait for room.
pub(super) struct Waiter<'a> {
    readers: &'a Readers,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.readers.has_waiter.store(false, Ordering::Release);
    }
}

/// Whether a thread of this process waits for something; true if that cannot be known.
fn sleeps(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // The state follows the name, which is in parentheses and may hold anything.
    let state = status.as_deref().ok().and_then(|status| {
        let (_, rest) = status.rsplit_once(") ")?;
        rest.chars().next()
    });
    state != Some('R')
}

#[cfg(test)]
mod tests {
    use super::Readers;

    #[test]
    fn one_reader_at_a_time_may_wait_for_room() {
        let readers = Readers::new(2);
        let waiter = readers.waiter();
        assert!(waiter.is_some());
        assert!(readers.waiter().is_none() && readers.waiter().is_none());
        drop(waiter);
        assert!(readers.waiter().is_some());
    }
}
