//! What is known of threads that read requests: which are busy, since when, and how many are free. Readers of one mount
//! are such a set, and those that all mounts have in common.

use super::busy_poll::ArrivalRate;
use crate::tunables::{BUSY_MOUNTS_MAX, BUSY_REQUESTS_MIN, READERS_MAX};
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// All readers of a set, helpers included; a tunable may say less.
const SLOTS: usize = 32;
/// A request that takes longer is taken to wait for something.
const STUCK_NS: u64 = 1_000_000;
/// The time in which requests of a mount are counted.
const RATE_NS: u64 = 100_000_000;
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
    /// By another thread: the mount has as many of the common readers as it may have, or this is the last of them.
    Elsewhere,
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

/// How many requests a mount has lately, while common readers read them. Races between readers lose one, no more.
#[derive(Debug, Default)]
pub(super) struct RequestRate {
    since_ns: AtomicU64,
    count: AtomicU64,
}

impl RequestRate {
    /// A request was read; whether there are so many that readers of its own are worth it.
    pub(super) fn arrived(&self, now_ns: u64) -> bool {
        let count = if now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)) > RATE_NS {
            self.since_ns.store(now_ns, Ordering::Relaxed);
            1
        } else {
            self.count.load(Ordering::Relaxed) + 1
        };
        self.count.store(count, Ordering::Relaxed);
        count >= BUSY_REQUESTS_MIN.get()
    }
}

static INTERRUPT_CLASS: LockClass = LockClass::new("fuse.interrupt", rank::FRONT_END + 43);

/// Mounts of the process that have readers of their own.
static BUSY_MOUNTS: AtomicUsize = AtomicUsize::new(0);

/// One of the process's places for mounts with readers of their own.
#[derive(Debug)]
pub(super) struct BusyPlace;

impl BusyPlace {
    pub(super) fn take() -> Option<Self> {
        let more = |mounts| (mounts < BUSY_MOUNTS_MAX.count()).then_some(mounts + 1);
        let taken = BUSY_MOUNTS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self)
    }
}

impl Drop for BusyPlace {
    fn drop(&mut self) {
        BUSY_MOUNTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of a set of readers.
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
    /// All are to leave.
    leaving: AtomicBool,
    /// Held by who interrupts a reader, and by a reader from then on that must not be.
    interrupting: Mutex<()>,
    _place: Option<BusyPlace>,
    /// Whether one of them serves a request that may wait for room.
    has_waiter: AtomicBool,
}

impl Readers {
    pub(super) fn new(residents: usize, place: Option<BusyPlace>) -> Self {
        let arrivals = ArrivalRate::default();
        arrivals.answered(monotonic_ns());
        Self {
            residents: residents.clamp(1, SLOTS),
            slots: std::array::from_fn(|_| Slot::default()),
            alive: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            missed_ns: AtomicU64::new(0),
            arrivals,
            monitor: OnceLock::new(),
            monitor_sleeps: AtomicBool::new(false),
            has_waiter: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            interrupting: Mutex::new(&INTERRUPT_CLASS, ()),
            _place: place,
        }
    }

    /// Whether no request was read or answered for so long, and none is being served.
    pub(super) fn are_quiet_for(&self, quiet_ns: u64) -> bool {
        let serves = |slot: &Slot| slot.busy_since_ns.load(Ordering::Relaxed) != 0;
        self.arrivals.quiet_ns(monotonic_ns()) > quiet_ns && !self.slots.iter().any(serves)
    }

    /// Whether readers are to leave.
    pub(super) fn are_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Sends all readers away, and waits until they are gone: those that serve a request when they have done so.
    pub(super) fn send_away(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        let mut step = Duration::from_micros(200);
        while self.alive.load(Ordering::SeqCst) > 0 {
            let interrupting = self.interrupting.lock();
            for slot in &self.slots {
                let number = slot.thread.load(Ordering::Relaxed);
                if number != 0 && slot.busy_since_ns.load(Ordering::Relaxed) == 0 {
                    // One that does not wait yet is told again.
                    let _told = sys::interrupt_thread(number);
                }
            }
            drop(interrupting);
            std::thread::sleep(step);
            step = (step * 2).min(Duration::from_millis(20));
        }
    }

    /// A reader leaves its slot: from now on it is not interrupted.
    pub(super) fn leave_slot(&self, slot: usize) {
        let Some(slot) = self.slots.get(slot) else {
            return;
        };
        let interrupting = self.interrupting.lock();
        slot.thread.store(0, Ordering::Relaxed);
        drop(interrupting);
        slot.busy_since_ns.store(0, Ordering::Relaxed);
        slot.taken.store(false, Ordering::Release);
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

    /// The reader of a slot serves a request while so many others wait for one, until this is dropped.
    pub(super) fn serve(&self, slot: usize, others_waiting: usize, now_ns: u64) -> Serving<'_> {
        let slot = self.slots.get(slot);
        if let Some(slot) = slot {
            slot.busy_since_ns.store(now_ns.max(1), Ordering::Relaxed);
        }
        if others_waiting == 0 {
            self.call_monitor();
        }
        Serving { slot }
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

    /// Wakes the monitor so that it sees that nobody is left.
    pub(super) fn stop_monitor(&self) {
        if let Some(monitor) = self.monitor.get() {
            monitor.unpark();
        }
    }

    fn call_monitor(&self) {
        if self.monitor_sleeps.load(Ordering::Relaxed)
            && self.monitor_sleeps.swap(false, Ordering::AcqRel)
            && let Some(monitor) = self.monitor.get()
        {
            monitor.unpark();
        }
    }
}

/// A reader that serves a request.
pub(super) struct Serving<'a> {
    slot: Option<&'a Slot>,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.busy_since_ns.store(0, Ordering::Relaxed);
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
    use super::{BUSY_REQUESTS_MIN, Readers, RequestRate};

    #[test]
    fn many_requests_in_a_short_time_are_worth_readers_of_its_own() {
        let (rate, min) = (RequestRate::default(), BUSY_REQUESTS_MIN.get());
        let second = 1_000_000_000;
        for now in 1..min * 2 {
            assert!(!rate.arrived(now * second), "one a second");
        }
        let busy = (0..min).filter(|now| rate.arrived(second * min * 4 + now));
        assert_eq!(busy.count(), 1);
    }

    #[test]
    fn one_reader_at_a_time_may_wait_for_room() {
        let readers = Readers::new(2, None);
        let waiter = readers.waiter();
        assert!(waiter.is_some());
        assert!(readers.waiter().is_none() && readers.waiter().is_none());
        drop(waiter);
        assert!(readers.waiter().is_some());
    }
}
