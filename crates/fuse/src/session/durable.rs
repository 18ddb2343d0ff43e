//! Requests that wait for others by their nature: fsync and its relatives, writes that are to be
//! durable, writes whose old pages the kernel has to drop, and looks for holes that dirty pages may fill.
//!
//! A reader waits for one only while another reader is free, so that a hundred fsyncs keep nobody's
//! stat waiting. Most take no thread at all: they are left with the intent log, and whoever sees
//! their batch to the medium answers them. What must wait for more than the log has a thread of its own meanwhile.

use super::awaiting::{self, AwaitingRequest};
use super::counters::counters;
use super::reader_states::Readers;
use super::send::{send, send_error};
use super::shared::Shared;
use crate::wire::{Body, FsyncFlags, RequestHeader, inval_inode_notification};
use base::clock::monotonic_ns;
use posix::{Completion, Errno};
use std::sync::Arc;
use sys::FuseDevice;

/// A length of pages in the kernel's cache: as far as they go.
const TO_THE_END: i64 = 0;

/// Where the kernel may have cached something else than we have.
#[derive(Clone, Copy, Debug)]
pub(super) struct StalePages {
    /// The node, as the kernel knows it.
    pub(super) node: u64,
    /// From where on; as far as the write went.
    pub(super) offset: u64,
}

/// What is to be made durable, or to be waited for otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) enum DurableJob {
    File {
        handle: u64,
        flags: FsyncFlags,
    },
    Written {
        handle: u64,
        count: u32,
        /// It is to be durable.
        commits: bool,
        /// Old pages may be in the kernel's cache.
        stale: Option<StalePages>,
    },
    Directory {
        node: u64,
    },
    /// Data or a hole is looked for in a file of which the kernel may have pages that it has not
    /// written: those from `offset` on are written first.
    Seek {
        node: u64,
        handle: u64,
        offset: u64,
        hole: bool,
    },
    Everything,
    /// A write that the kernel is about to take: what it has of the file is written first.
    BeforeWrite {
        node: u64,
        handle: u64,
    },
}

/// A request that is answered later.
#[derive(Clone)]
struct Pending {
    job: DurableJob,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    device: Arc<FuseDevice>,
    unique: u64,
    opcode: u32,
    arrived_ns: u64,
}

/// Takes a request; when the queue for threads is full, the reader that brings it does the work.
pub(super) fn submit(
    (shared, readers): (&Arc<Shared>, &Arc<Readers>),
    device: &Arc<FuseDevice>,
    header: &RequestHeader,
    job: DurableJob,
) {
    let pending = Pending {
        job,
        shared: Arc::clone(shared),
        readers: Arc::clone(readers),
        device: Arc::clone(device),
        unique: header.unique,
        opcode: header.opcode,
        arrived_ns: monotonic_ns(),
    };
    if let DurableJob::File { handle, .. }
    | DurableJob::Written {
        handle,
        stale: None,
        ..
    } = job
    {
        let completion: Arc<dyn Completion> = Arc::new(pending.clone());
        if shared.tree.fsync_async(handle, &completion) {
            return;
        }
    }
    pending.wait_on_thread();
}

impl Completion for Pending {
    fn committed(&self, durable: bool) {
        if durable {
            let body = match self.job {
                DurableJob::Written { count, .. } => Body::written(count),
                DurableJob::File { .. }
                | DurableJob::Directory { .. }
                | DurableJob::Seek { .. }
                | DurableJob::BeforeWrite { .. }
                | DurableJob::Everything => Body::empty(),
            };
            self.answer(Ok(body), self.arrived_ns);
        } else {
            // Whoever tells this has others to tell, for whom it would wait here.
            self.clone().perform_later();
        }
    }

    fn may_lead(&self) -> bool {
        self.readers.others_wait()
    }
}

impl Pending {
    fn wait_on_thread(self) {
        let shared = Arc::clone(&self.shared);
        if let Err(job) = shared.durable().run(Box::new(move || self.perform())) {
            job();
        }
    }

    /// However many wait for a thread.
    fn perform_later(self) {
        let shared = Arc::clone(&self.shared);
        let job = Box::new(move || self.perform());
        if let Err(job) = shared.durable().run_owed(job) {
            job();
        }
    }

    fn perform(&self) {
        let tree = &self.shared.tree;
        let started_ns = monotonic_ns();
        let operation = || match self.job {
            DurableJob::File { handle, flags } => tree.fsync(handle, flags).map(|()| Body::empty()),
            DurableJob::Written {
                handle,
                count,
                commits,
                stale,
            } => {
                if let Some(stale) = stale {
                    self.drop_pages(stale, i64::from(count));
                }
                if commits {
                    tree.fsync(handle, FsyncFlags::default())?;
                }
                Ok(Body::written(count))
            }
            DurableJob::Directory { node } => tree.fsync_directory(node).map(|()| Body::empty()),
            DurableJob::Seek {
                node,
                handle,
                offset,
                hole,
            } => {
                self.drop_pages(StalePages { node, offset }, TO_THE_END);
                tree.seek(handle, offset, hole).map(Body::seek)
            }
            DurableJob::Everything => tree.sync().map(|()| Body::empty()),
            DurableJob::BeforeWrite { node, handle } => {
                self.drop_pages(StalePages { node, offset: 0 }, TO_THE_END);
                tree.admit_write(handle)?;
                let (attributes, valid) = tree.getattr(node)?;
                Ok(Body::attribute(&attributes, valid))
            }
        };
        let operation = std::panic::AssertUnwindSafe(operation);
        let (result, devices) = posix::repeatable(|| std::panic::catch_unwind(operation));
        let result = result.unwrap_or_else(|_| {
            counters().panics.increment();
            self.shared.fail();
            Err(Errno::EIO)
        });
        if let (Err(_), Some(devices)) = (&result, devices) {
            let pending = self.clone();
            let waiting = AwaitingRequest {
                device: Arc::clone(&self.device),
                again: Box::new(move || pending.perform_later()),
            };
            awaiting::until_devices_are_back(&self.shared, self.unique, waiting, devices);
            return;
        }
        self.answer(result, started_ns);
    }

    /// Has the kernel write back and drop pages; waits until readers that have them locked have got them. Other
    /// threads see to both.
    fn drop_pages(&self, stale: StalePages, len: i64) {
        let offset = i64::try_from(stale.offset).unwrap_or(i64::MAX);
        let message = inval_inode_notification(stale.node, offset, len);
        self.shared.notify(&message);
    }

    fn answer(&self, result: Result<Body, Errno>, started_ns: u64) {
        match result {
            Err(error) => send_error(&self.device, self.unique, error),
            Ok(body) => send(&self.device, self.unique, &[body.as_bytes()]),
        }
        let ended_ns = monotonic_ns();
        let counters = counters();
        let waited_ns = started_ns.saturating_sub(self.arrived_ns);
        counters.durable_queue_ns.record(waited_ns);
        let served_ns = ended_ns.saturating_sub(started_ns);
        counters.durable_serve_ns.record(served_ns);
        counters.record(self.opcode, ended_ns.saturating_sub(self.arrived_ns));
    }
}
