//! The threads that read the requests of a mount that is in use.
//!
//! As many *residents* as there are cores read and serve; what the cache holds is served right on
//! the thread that took the request. A thread that waits (for a disk, for the write throttle) is
//! not runnable, so another may take its place: a monitor (`monitor`) sees that no reader is free, counts
//! those that have been in one request for longer than a millisecond and sleep, and starts a
//! *helper* for each of them, up to `fuse.readers_max` threads. A helper ends when enough others wait
//! for requests again and have for a second. So runnable threads stay at the number of cores,
//! and a cached stat does not queue behind somebody's disk. What waits for as long as others like keeps not even that
//! many: one reader at most waits for room, and never the last that is free; other requests wait without one
//! (`parked`).
//!
//! Each thread has its own descriptor of the connection: replies do not meet on one lock.
//!
//! A mount that is not in use has none of all that: its requests are read by threads that all mounts have in common
//! (`common`), which start these here when there are many, and get the mount back when there have been none for a
//! while.

use super::busy_poll::BusyPoller;
use super::common;
use super::counters::counters;
use super::dispatch::Worker;
use super::monitor::{self, ReaderSet, Rest};
use super::negotiate::TRANSFER_LEN_MAX;
use super::reader_states::{BusyPlace, Readers};
use super::shared::Shared;
use super::weight;
use crate::tree::ReadReply;
use crate::tunables::BUSY_IDLE_MS;
use base::clock::monotonic_ns;
use base::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use sys::{Errno, FuseDevice, ThreadNumber};

/// Room for the longest request: a write of 1 MiB and what stands before its data.
pub(super) const BUFFER_LEN: usize = TRANSFER_LEN_MAX as usize + 4096;

/// The readers of one mount.
struct OwnReaders {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    /// The common readers get the mount back.
    gives_back: bool,
}

/// Starts residents and monitor of a mount that common readers cannot read.
pub(super) fn start_for_ever(shared: &Arc<Shared>) -> io::Result<()> {
    start(shared, None, false)
}

/// Starts readers of its own for a mount, if it may have them; whether it has them now. By who has the watch's part.
pub(super) fn start_for_a_while(shared: &Arc<Shared>) -> bool {
    if shared.hand_over.has_own() {
        return false;
    }
    let Some(place) = BusyPlace::take() else {
        return false;
    };
    if !shared.hand_over.begin_own() {
        return false;
    }
    // Without threads to be had, things stay as they are.
    let started = start(shared, Some(place), true).is_ok();
    if !started {
        shared.hand_over.end_own();
    }
    started
}

fn start(shared: &Arc<Shared>, place: Option<BusyPlace>, gives_back: bool) -> io::Result<()> {
    let own = Arc::new(OwnReaders {
        shared: Arc::clone(shared),
        readers: Arc::new(Readers::new(shared.residents, place)),
        gives_back,
    });
    let started = (0..own.readers.residents)
        .try_for_each(|_| start_reader(&own, false))
        .and_then(|()| monitor::start(Arc::clone(&own)));
    if started.is_err() {
        own.readers.send_away();
    }
    started
}

fn start_reader(own: &Arc<OwnReaders>, helper: bool) -> io::Result<()> {
    let readers = &own.readers;
    let Some(slot) = readers.take_slot() else {
        counters().helpers_refused.increment();
        return Ok(());
    };
    if !own.shared.hand_over.join() {
        readers.leave_slot(slot);
        return Err(io::ErrorKind::NotConnected.into());
    }
    readers.alive.fetch_add(1, Ordering::SeqCst);
    let for_thread = Arc::clone(own);
    let device = own.shared.device.another();
    let started = device.map_err(io::Error::from).and_then(|device| {
        let name = if helper { "fuse-helper" } else { "fuse-reader" };
        thread::named(name, sys::thread::ANSWERS)
            .spawn(move || run_reader(&for_thread, Arc::new(device), slot, helper))
    });
    if let Err(error) = started {
        own.leave(slot);
        return Err(error);
    }
    Ok(())
}

impl OwnReaders {
    /// A reader ends.
    fn leave(&self, slot: usize) {
        self.readers.leave_slot(slot);
        if self.readers.alive.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.readers.stop_monitor();
        }
        self.shared.leave();
    }
}

impl ReaderSet for OwnReaders {
    fn readers(&self) -> &Readers {
        &self.readers
    }

    fn start_helper(self: &Arc<Self>) {
        // Without a thread to be had, callers wait for those that there are.
        drop(start_reader(self, true));
    }

    /// Gives a mount back that is not in use any more.
    fn rest(&self) -> Rest {
        if self.readers.alive.load(Ordering::SeqCst) == 0 {
            self.shared.hand_over.end_own();
            weight::nobody_asks_any_more();
            return Rest::Over;
        }
        if !self.gives_back {
            weight::nobody_asks_any_more();
            return Rest::Sleep;
        }
        weight::nobody_asks(monotonic_ns());
        let idle = Duration::from_millis(BUSY_IDLE_MS.get());
        let idle_ns = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        if self.readers.are_quiet_for(idle_ns) && common::watch(&self.shared) {
            self.readers.send_away();
            self.shared.hand_over.end_own();
            counters().given_back.increment();
            weight::nobody_asks_any_more();
            return Rest::Over;
        }
        Rest::SleepFor(idle)
    }
}

fn run_reader(own: &Arc<OwnReaders>, device: Arc<FuseDevice>, slot: usize, helper: bool) {
    let readers = &own.readers;
    let mut worker = Worker {
        shared: Arc::clone(&own.shared),
        readers: Arc::clone(readers),
        device,
        data: ReadReply::default(),
    };
    // Zeroed memory is mapped when it is first written to: idle readers cost little.
    let mut buffer = vec![0; BUFFER_LEN];
    let mut poller = BusyPoller::default();
    if let Some(slot) = readers.slots.get(slot) {
        slot.thread
            .store(ThreadNumber::own().raw(), Ordering::Relaxed);
    }
    while !readers.are_leaving() {
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
    own.leave(slot);
}

fn serve(worker: &mut Worker, message: &[u8], slot: usize, others_waiting: usize) {
    let readers = Arc::clone(&worker.readers);
    let started_ns = monotonic_ns();
    readers
        .arrivals
        .arrived(word(message, THREAD_AT), started_ns);
    weight::request_came(started_ns);
    let place = readers.place(others_waiting);
    let serving = readers.serve(slot, others_waiting, started_ns);
    let is_done = worker.serve(message, place);
    let ended_ns = monotonic_ns();
    readers.arrivals.answered(ended_ns);
    drop(serving);
    if is_done {
        count(message, ended_ns.saturating_sub(started_ns));
    }
}

/// Counts a request that was answered.
pub(super) fn count(message: &[u8], elapsed_ns: u64) {
    counters().record(word(message, OPCODE_AT), elapsed_ns);
}

/// Where a request's header has its operation, and the thread of its caller.
const OPCODE_AT: usize = 4;
const THREAD_AT: usize = 32;

/// A word of a message; 0 where there is none.
fn word(message: &[u8], at: usize) -> u32 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}
