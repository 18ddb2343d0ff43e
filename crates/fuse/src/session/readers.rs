//! The threads that read requests.
//!
//! As many *residents* as there are cores read and serve; what the cache holds is served right on
//! the thread that took the request. A thread that waits (for a disk, for the write throttle) is
//! not runnable, so another may take its place: a monitor sees that no reader is free, counts
//! those that have been in one request for longer than [`STUCK_NS`] and sleep, and starts a
//! *helper* for each of them, up to `fuse.readers_max` threads. A helper ends when enough others wait
//! for requests again and have for [`LINGER_NS`]. So runnable threads stay at the number of cores,
//! and a cached stat does not queue behind somebody's disk. What waits for as long as others like keeps not even that
//! many: one reader at most waits for room, and never the last that is free; other requests wait without one
//! (`parked`).
//!
//! Each thread has its own descriptor of the connection: replies do not meet on one lock.

use super::Shared;
use super::busy_poll::{ArrivalRate, BusyPoller};
use super::counters::counters;
use super::dispatch::{Place, Worker};
use super::negotiate::TRANSFER_LEN_MAX;
use crate::tree::ReadReply;
use crate::tunables::READERS_MAX;
use base::clock::monotonic_ns;
use base::thread;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use sys::{Errno, FuseDevice};

/// All readers of a mount, helpers included; a tunable may say less.
const SLOTS: usize = 32;
/// A request that takes longer is taken to wait for something.
const STUCK_NS: u64 = 1_000_000;
/// A helper that nobody has needed for so long ends.
const LINGER_NS: u64 = 1_000_000_000;
/// How often the monitor looks while the readers are busy.
const TICK: Duration = Duration::from_millis(1);
/// So many quiet looks, and the monitor sleeps until it is called.
const QUIET_TICKS: u32 = 50;
/// Room for the longest request: a write of 1 MiB and what stands before its data.
const BUFFER_LEN: usize = TRANSFER_LEN_MAX as usize + 4096;

/// On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    /// Since when its reader serves the present request; 0 while it waits for one.
    busy_since_ns: AtomicU64,
    /// The reader's thread, as the kernel calls it; 0 if that is not known.
    thread: AtomicU32,
    taken: AtomicBool,
}

/// The state of all readers of a mount.
pub(super) struct Readers {
    residents: usize,
    slots: [Slot; SLOTS],
    /// Readers that live.
    alive: AtomicUsize,
    /// Readers that wait for a request.
    waiting: AtomicUsize,
    /// When a helper was last missed.
    missed_ns: AtomicU64,
    arrivals: ArrivalRate,
    monitor: OnceLock<Thread>,
    monitor_sleeps: AtomicBool,
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
    fn place(&self, others_waiting: usize) -> Place {
        if others_waiting > 0 {
            Place::BesideFree
        } else if self.alive.load(Ordering::SeqCst) >= self.readers_max() {
            Place::LastOfAll
        } else {
            Place::LastFree
        }
    }

    fn take_slot(&self) -> Option<usize> {
        let slots = self.slots.iter().take(self.readers_max());
        slots
            .into_iter()
            .position(|slot| !slot.taken.swap(true, Ordering::AcqRel))
    }

    /// Readers in one request for longer than [`STUCK_NS`] that sleep. One that could run and only
    /// has no CPU is no reason for another that would have none either.
    fn stuck(&self) -> usize {
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
    fn are_enough(&self) -> bool {
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

    fn call_monitor(&self) {
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

/// The calling thread, as the kernel calls it; 0 if that cannot be known.
fn own_number() -> u32 {
    let link = std::fs::read_link("/proc/thread-self");
    let name = link.as_deref().ok().and_then(std::path::Path::file_name);
    let number = name.and_then(|name| name.to_str()?.parse().ok());
    number.unwrap_or(0)
}

/// Starts the residents and the monitor.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
    for _ in 0..shared.readers.residents {
        start_reader(shared, false)?;
    }
    let for_monitor = Arc::clone(shared);
    let monitor = thread::named("fuse-monitor", sys::thread::ANSWERS)
        .stack_bytes(64 << 10)
        .spawn(move || run_monitor(&for_monitor))?;
    // Called only after this is set; until then nobody waits for long.
    drop(shared.readers.monitor.set(monitor.thread().clone()));
    Ok(())
}

/// Wakes the monitor so that it sees the end.
pub(super) fn stop_monitor(shared: &Shared) {
    if let Some(monitor) = shared.readers.monitor.get() {
        monitor.unpark();
    }
}

fn start_reader(shared: &Arc<Shared>, helper: bool) -> std::io::Result<()> {
    let readers = &shared.readers;
    let Some(slot) = readers.take_slot() else {
        counters().helpers_refused.increment();
        return Ok(());
    };
    readers.alive.fetch_add(1, Ordering::SeqCst);
    let for_thread = Arc::clone(shared);
    let started = shared
        .device
        .another()
        .map_err(std::io::Error::from)
        .and_then(|device| {
            let name = if helper { "fuse-helper" } else { "fuse-reader" };
            thread::named(name, sys::thread::ANSWERS)
                .spawn(move || run_reader(&for_thread, Arc::new(device), slot, helper))
        });
    if let Err(error) = started {
        leave(shared, slot);
        return Err(error);
    }
    Ok(())
}

fn leave(shared: &Shared, slot: usize) {
    let readers = &shared.readers;
    if let Some(slot) = readers.slots.get(slot) {
        slot.busy_since_ns.store(0, Ordering::Relaxed);
        slot.taken.store(false, Ordering::Release);
    }
    if readers.alive.fetch_sub(1, Ordering::SeqCst) == 1 {
        shared.end();
    }
}

fn run_reader(shared: &Arc<Shared>, device: Arc<FuseDevice>, slot: usize, helper: bool) {
    let mut worker = Worker {
        shared: Arc::clone(shared),
        device,
        data: ReadReply::default(),
    };
    // Zeroed memory is mapped when it is first written to: idle readers cost little.
    let mut buffer = vec![0; BUFFER_LEN];
    let mut poller = BusyPoller::default();
    let readers = &shared.readers;
    if let Some(slot) = readers.slots.get(slot) {
        slot.thread.store(own_number(), Ordering::Relaxed);
    }
    loop {
        readers.waiting.fetch_add(1, Ordering::SeqCst);
        let read = poller.next_request(&worker.device, &readers.arrivals, &mut buffer);
        let others = readers
            .waiting
            .fetch_sub(1, Ordering::SeqCst)
            .saturating_sub(1);
        match read {
            Ok(len) => {
                let message = buffer.get(..len).unwrap_or_default();
                serve(&mut worker, message, slot, others);
            }
            // The caller was killed before its request was read; or a signal; or no memory.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN | Errno::NOMEM) => {}
            // ENODEV: unmounted. ECONNABORTED: aborted by the administrator. Others cannot pass.
            Err(_) => break,
        }
        if helper && readers.are_enough() {
            break;
        }
    }
    drop(worker);
    leave(shared, slot);
}

fn serve(worker: &mut Worker, message: &[u8], slot: usize, others_waiting: usize) {
    let started_ns = monotonic_ns();
    worker
        .shared
        .readers
        .arrivals
        .arrived(word(message, THREAD_AT), started_ns);
    let shared = Arc::clone(&worker.shared);
    let readers = &shared.readers;
    let busy = readers.slots.get(slot).map(|slot| &slot.busy_since_ns);
    if let Some(busy) = busy {
        busy.store(started_ns.max(1), Ordering::Relaxed);
    }
    if others_waiting == 0 {
        readers.call_monitor();
    }
    let is_done = worker.serve(message, readers.place(others_waiting));
    let ended_ns = monotonic_ns();
    readers.arrivals.answered(ended_ns);
    if let Some(busy) = busy {
        busy.store(0, Ordering::Relaxed);
    }
    if is_done {
        let elapsed_ns = ended_ns.saturating_sub(started_ns);
        counters().record(word(message, OPCODE_AT), elapsed_ns);
    }
}

/// Where a request's header has its operation, and the thread of its caller.
const OPCODE_AT: usize = 4;
const THREAD_AT: usize = 32;

/// A word of a message; 0 where there is none.
fn word(message: &[u8], at: usize) -> u32 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn run_monitor(shared: &Arc<Shared>) {
    let readers = &shared.readers;
    let mut quiet = 0;
    while !shared.has_ended() {
        if quiet >= QUIET_TICKS {
            readers.monitor_sleeps.store(true, Ordering::SeqCst);
            if readers.waiting.load(Ordering::SeqCst) > 0 {
                // A spurious return costs a look.
                std::thread::park();
            }
            readers.monitor_sleeps.store(false, Ordering::SeqCst);
            quiet = 0;
            continue;
        }
        std::thread::sleep(TICK);
        if readers.waiting.load(Ordering::Relaxed) > 0 {
            quiet += 1;
            continue;
        }
        quiet = 0;
        let running = readers
            .alive
            .load(Ordering::Relaxed)
            .saturating_sub(readers.stuck());
        if running < readers.residents {
            readers.missed_ns.store(monotonic_ns(), Ordering::Relaxed);
            counters().helpers_started.increment();
            // Without a thread to be had, callers wait for those that there are.
            drop(start_reader(shared, true));
        }
    }
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
