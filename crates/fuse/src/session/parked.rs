//! Requests that wait without a reader.
//!
//! The last reader that is free waits for nothing that other callers can keep up for as long as they like. A change for
//! which there is no room is returned by the engine before anything was changed; the request is kept, and served
//! again, from the start, when its turn has come. And when no further reader may be started, the last one does not even
//! begin what may wait for a disk. Both are served by the threads of a thread pool, which nobody else needs; so are
//! those that have waited for devices (`awaiting`).

use super::awaiting::{self, AwaitingRequest};
use super::counters::counters;
use super::dispatch::Worker;
use super::reader_states::{Place, Readers};
use super::shared::Shared;
use crate::tree::ReadReply;
use crate::wire::Operation;
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use base::thread;
use base::thread_pool::Job;
use posix::{Admitted, AwaitedDevices, Postponed};
use std::sync::Arc;
use sys::FuseDevice;

static JOB_CLASS: LockClass = LockClass::new("fuse.job", rank::FRONT_END + 41);

/// What a request may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// For nothing, as a rule: what it needs is in memory.
    Seldom,
    /// For a disk, or for room that is needed behind the answer.
    Maybe,
    /// As well for room, before it has changed anything.
    ForRoom,
}

impl Waits {
    pub(super) fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Lookup { .. }
            | Operation::Getattr { .. }
            | Operation::Statx { .. }
            | Operation::Readlink
            | Operation::Statfs
            | Operation::Readdir { .. }
            | Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Opendir { .. }
            | Operation::Releasedir { .. }
            | Operation::Access { .. }
            | Operation::Flush { .. }
            | Operation::Interrupt { .. }
            | Operation::Init(_)
            | Operation::Destroy
            | Operation::Unsupported
            // These have waiters of their own.
            | Operation::Fsync { .. }
            | Operation::Fsyncdir { .. }
            | Operation::Syncfs => Self::Seldom,
            // The last reference to a file without a name frees it.
            Operation::Forget { .. }
            | Operation::BatchForget { .. }
            | Operation::Release { .. }
            | Operation::Read { .. }
            | Operation::Lseek { .. } => Self::Maybe,
            Operation::Write { .. }
            | Operation::Setattr(_)
            | Operation::Open { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Setxattr { .. }
            | Operation::Removexattr { .. }
            | Operation::Fallocate { .. }
            | Operation::CopyFileRange { .. }
            | Operation::Ioctl { .. } => Self::ForRoom,
        }
    }
}

/// A request that is served later.
struct ParkedRequest {
    message: Vec<u8>,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    device: Arc<FuseDevice>,
    opcode: u32,
    arrived_ns: u64,
}

/// Has a request served when there is room for what it changes.
pub(super) fn until_admitted(
    worker: &Worker,
    (message, opcode): (&[u8], u32),
    postponed: Postponed,
) {
    counters().postponed.increment();
    let request = ParkedRequest::new(worker, message, opcode);
    postponed.leave(move |admitted| request.submit(Some(admitted)));
}

/// Has a request served again when the devices are back that it needs.
pub(super) fn until_devices_are_back(
    worker: &Worker,
    message: &[u8],
    (unique, opcode): (u64, u32),
    devices: AwaitedDevices,
) {
    let request = ParkedRequest::new(worker, message, opcode);
    let waiting = AwaitingRequest {
        device: Arc::clone(&worker.device),
        again: Box::new(move || request.submit(None)),
    };
    awaiting::until_devices_are_back(&worker.shared, unique, waiting, devices);
}

/// Has a request served by another thread.
pub(super) fn hand_over(worker: &Worker, message: &[u8], opcode: u32) {
    counters().handed_over.increment();
    ParkedRequest::new(worker, message, opcode).submit(None);
}

impl ParkedRequest {
    fn new(worker: &Worker, message: &[u8], opcode: u32) -> Self {
        Self {
            message: message.to_vec(),
            shared: Arc::clone(&worker.shared),
            readers: Arc::clone(&worker.readers),
            device: Arc::clone(&worker.device),
            opcode,
            arrived_ns: monotonic_ns(),
        }
    }

    fn submit(self, admitted: Option<Admitted>) {
        let shared = Arc::clone(&self.shared);
        let job = Box::new(move || self.serve(admitted));
        let Err(job) = shared.parked().run(job) else {
            return;
        };
        // More requests than there can be, or the mount has ended. The engine's thread must not be held up: others wait
        // for what it has for them.
        let job = Arc::new(Mutex::new(&JOB_CLASS, Some(job)));
        let for_thread = Arc::clone(&job);
        let apart = thread::named("fuse-parked", sys::thread::ANSWERS);
        if apart.spawn(move || run_once(&for_thread)).is_err() {
            run_once(&job);
        }
    }

    fn serve(self, admitted: Option<Admitted>) {
        // The kernel has given up all requests.
        if self.shared.has_ended() {
            return;
        }
        let mut worker = Worker {
            shared: self.shared,
            readers: self.readers,
            device: self.device,
            data: ReadReply::default(),
        };
        let message = &self.message;
        let is_done = match admitted {
            Some(admitted) => admitted.run(|| worker.serve(message, Place::Apart)),
            // These threads are few as well.
            None => worker.serve(message, Place::LastFree),
        };
        if is_done {
            let elapsed_ns = monotonic_ns().saturating_sub(self.arrived_ns);
            counters().record(self.opcode, elapsed_ns);
        }
    }
}

/// Runs a job that another thread may have been meant to run.
fn run_once(job: &Mutex<Option<Job>>) {
    let job = job.lock().take();
    if let Some(job) = job {
        job();
    }
}
