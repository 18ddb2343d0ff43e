//! Requests that wait for the disk by their nature: fsync and its relatives.
//!
//! They are taken off the reader threads, so that a hundred waiting fsyncs keep nobody's stat
//! waiting. Each waits on a thread of its own: what comes while the log writes a batch makes up the
//! next one, so that the more wait together, the fewer flushes each costs.

use super::Shared;
use super::counters::counters;
use super::dispatch::{send, send_error};
use crate::wire::{FsyncFlags, RequestHeader};
use base::clock::monotonic_ns;
use base::queue::Bounded;
use posix::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use sys::FuseDevice;

/// Threads that wait for the disk on behalf of callers, per mount.
const THREADS_MAX: usize = 64;
/// Requests that may wait; the kernel's callers are the natural bound, this one is far above.
const QUEUED_MAX: usize = 4096;
/// An idle thread ends after this long.
const IDLE: Duration = Duration::from_secs(10);

/// What is to be made durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum DurableJob {
    File { handle: u64, flags: FsyncFlags },
    Directory { node: u64 },
    Everything,
}

struct Queued {
    job: DurableJob,
    device: Arc<FuseDevice>,
    unique: u64,
    opcode: u32,
    arrived_ns: u64,
}

/// The queue and its threads.
pub(super) struct Durable {
    queue: Bounded<Queued>,
    threads: AtomicUsize,
    /// Threads that wait for a request.
    waiting: AtomicUsize,
}

impl Durable {
    pub(super) fn new() -> Self {
        Self {
            queue: Bounded::new("fuse.durable", QUEUED_MAX),
            threads: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Queues a request; when the queue is full, the reader that brings it does the work.
    pub(super) fn submit(
        &self,
        shared: &Arc<Shared>,
        device: &Arc<FuseDevice>,
        header: &RequestHeader,
        job: DurableJob,
    ) {
        let RequestHeader { unique, opcode, .. } = *header;
        let arrived_ns = monotonic_ns();
        let queued = Queued {
            job,
            device: Arc::clone(device),
            unique,
            opcode,
            arrived_ns,
        };
        if let Err(queued) = self.queue.push(queued) {
            return perform(shared, &queued);
        }
        // The item is in the queue before `waiting` is read, and a thread that stops waiting looks
        // into the queue once more after it said so: one of the two sees the other.
        if self.waiting.load(Ordering::SeqCst) == 0 && self.may_start() {
            let for_thread = Arc::clone(shared);
            let started = std::thread::Builder::new()
                .name("fuse-durable".into())
                .spawn(move || for_thread.durable.run(&for_thread));
            if started.is_err() {
                self.threads.fetch_sub(1, Ordering::SeqCst);
                if let Some(queued) = self.queue.try_pop() {
                    perform(shared, &queued);
                }
            }
        }
    }

    fn may_start(&self) -> bool {
        let more = |count| (count < THREADS_MAX).then_some(count + 1);
        self.threads
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    fn run(&self, shared: &Shared) {
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let next = self.queue.pop_for(IDLE);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            match next.or_else(|| self.queue.try_pop()) {
                Some(queued) => perform(shared, &queued),
                None => break,
            }
        }
        self.threads.fetch_sub(1, Ordering::SeqCst);
    }

    /// No further requests; threads end when the queue is empty.
    pub(super) fn close(&self) {
        self.queue.close();
    }
}

fn perform(shared: &Shared, queued: &Queued) {
    let tree = &shared.tree;
    let started_ns = monotonic_ns();
    let operation = || match queued.job {
        DurableJob::File { handle, flags } => tree.fsync(handle, flags),
        DurableJob::Directory { node } => tree.fsync_directory(node),
        DurableJob::Everything => tree.sync(),
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(operation));
    match result {
        Ok(Ok(())) => send(&queued.device, queued.unique, &[]),
        Ok(Err(error)) => send_error(&queued.device, queued.unique, error),
        Err(_) => {
            counters().panics.increment();
            shared.fail();
            send_error(&queued.device, queued.unique, Errno::EIO);
        }
    }
    let ended_ns = monotonic_ns();
    let counters = counters();
    let waited_ns = started_ns.saturating_sub(queued.arrived_ns);
    counters.durable_queue_ns.record(waited_ns);
    let served_ns = ended_ns.saturating_sub(started_ns);
    counters.durable_serve_ns.record(served_ns);
    counters.record(queued.opcode, ended_ns.saturating_sub(queued.arrived_ns));
}
