//! The threads that read requests.
//!
//! As many *residents* as there are cores read and serve; what the cache holds is served right on
//! the thread that took the request. A thread that waits (for a disk, for the write throttle) is
//! not runnable, so another may take its place: a monitor sees that no reader is free, counts
//! those that have been in one request for longer than a millisecond and sleep, and starts a
//! *helper* for each of them, up to `fuse.readers_max` threads. A helper ends when enough others wait
//! for requests again and have for a second. So runnable threads stay at the number of cores,
//! and a cached stat does not queue behind somebody's disk. What waits for as long as others like keeps not even that
//! many: one reader at most waits for room, and never the last that is free; other requests wait without one
//! (`parked`).
//!
//! Each thread has its own descriptor of the connection: replies do not meet on one lock.

use super::busy_poll::BusyPoller;
use super::counters::counters;
use super::dispatch::Worker;
use super::negotiate::TRANSFER_LEN_MAX;
use super::shared::Shared;
use crate::tree::ReadReply;
use base::clock::monotonic_ns;
use base::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use sys::{Errno, FuseDevice};

/// How often the monitor looks while the readers are busy.
const TICK: Duration = Duration::from_millis(1);
/// So many quiet looks, and the monitor sleeps until it is called.
const QUIET_TICKS: u32 = 50;
/// Room for the longest request: a write of 1 MiB and what stands before its data.
const BUFFER_LEN: usize = TRANSFER_LEN_MAX as usize + 4096;

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
