//! What the threads of a connection share, and its end.

use super::counters::counters;
use super::negotiate::Settled;
use super::reader_states::Readers;
use crate::tree::Tree;
use crate::wire::{InitFlags, OpenReplyFlags, inval_inode_notification};
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread_pool::ThreadPool;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use sys::{Errno, FuseDevice};

static ENDED_CLASS: LockClass = LockClass::new("fuse.ended", rank::FRONT_END + 40);

/// An offset that spares a node's pages.
const ATTRIBUTES_ONLY: i64 = -1;

/// What the threads of a connection share.
pub(super) struct Shared {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) device: FuseDevice,
    pub(super) settled: Settled,
    pub(super) readers: Readers,
    /// Threads for what is waited for until it is durable.
    pub(super) durable: Arc<ThreadPool>,
    /// Threads for requests that wait without a reader.
    pub(super) parked: Arc<ThreadPool>,
    failed: AtomicBool,
    over: AtomicBool,
    ended: Mutex<bool>,
    ended_changed: Condvar,
}

impl Shared {
    pub(super) fn new(
        tree: Arc<dyn Tree>,
        device: FuseDevice,
        settled: Settled,
        readers: Readers,
        (durable, parked): (Arc<ThreadPool>, Arc<ThreadPool>),
    ) -> Self {
        Self {
            tree,
            device,
            settled,
            readers,
            durable,
            parked,
            failed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ended: Mutex::new(&ENDED_CLASS, false),
            ended_changed: Condvar::new(),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn notify(&self, message: &[u8]) -> bool {
        counters().notifications.increment();
        // ENOENT: the kernel does not know the node or name, so there is nothing to forget.
        let written = self.device.write(&[IoSlice::new(message)]);
        matches!(written, Ok(_) | Err(Errno::NOENT))
    }

    /// Makes the kernel ask for a node's attributes again: after a change that took set-id bits it
    /// goes on showing the old mode. Takes none of its locks, and so may be done within an operation.
    pub(super) fn forget_mode(&self, node: u64) {
        self.notify(&inval_inode_notification(node, ATTRIBUTES_ONLY, 0));
    }

    /// Makes the kernel ask for the attributes of all files that are being written.
    pub(super) fn forget_attributes_of_written(&self) {
        for node in self.tree.nodes_maybe_mapped() {
            self.forget_mode(node);
        }
    }

    /// Whether the kernel gathers writes.
    pub(super) fn gathers_writes(&self) -> bool {
        self.settled.flags.has(InitFlags::WRITEBACK_CACHE)
    }

    /// How the kernel is to treat an open. A kernel that gathers writes owns size and times: what
    /// went past it would not count.
    pub(super) fn open_flags(&self, wanted: OpenReplyFlags) -> OpenReplyFlags {
        if self.gathers_writes() {
            wanted.without(OpenReplyFlags::DIRECT_IO)
        } else {
            wanted
        }
    }

    /// The last reader has left.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.durable.close();
        self.parked.close();
        self.readers.stop_monitor();
        // Whatever happens there, those who wait for the end must learn of it.
        let ended = std::panic::AssertUnwindSafe(|| self.tree.ended());
        if std::panic::catch_unwind(ended).is_err() {
            counters().panics.increment();
            self.fail();
        }
        *self.ended.lock() = true;
        self.ended_changed.notify_all();
    }

    /// Waits for the end; false when it did not come in time.
    pub(super) fn wait_ended(&self, deadline: Instant) -> bool {
        let mut ended = self.ended.lock();
        while !*ended {
            if self.ended_changed.wait_until(&mut ended, deadline) {
                break;
            }
        }
        *ended
    }
}
