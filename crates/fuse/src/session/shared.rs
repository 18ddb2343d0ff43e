//! What the threads of a connection share, and its end.

use super::awaiting::AwaitingRequests;
use super::counters::counters;
use super::negotiate::Settled;
use super::reader_states::RequestRate;
use super::thread_pools;
use crate::tree::Tree;
use crate::wire::{InitFlags, OpenReplyFlags, inval_inode_notification};
use base::hand_over::HandOver;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread_pool::ThreadPool;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use sys::{Errno, FuseDevice};

static ENDED_CLASS: LockClass = LockClass::new("fuse.ended", rank::FRONT_END + 40);

/// An offset that spares a node's pages.
const ATTRIBUTES_ONLY: i64 = -1;

/// What the threads of a connection share.
pub(super) struct Shared {
    pub(super) tree: Arc<dyn Tree>,
    /// That of the mount, which common readers read as well.
    pub(super) device: Arc<FuseDevice>,
    pub(super) settled: Settled,
    /// Who reads its requests.
    pub(super) hand_over: HandOver,
    /// How many readers of its own it gets, beside helpers.
    pub(super) residents: usize,
    /// Under which number the common readers are told of it.
    pub(super) number: u64,
    /// Common readers that are at its requests.
    pub(super) in_common: AtomicUsize,
    pub(super) rate: RequestRate,
    durable: OnceLock<Arc<ThreadPool>>,
    parked: OnceLock<Arc<ThreadPool>>,
    /// Requests that wait for devices.
    pub(super) awaiting: AwaitingRequests,
    failed: AtomicBool,
    over: AtomicBool,
    ended: Mutex<bool>,
    ended_changed: Condvar,
}

/// A number that no other mount of the process has had.
fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl Shared {
    pub(super) fn new(
        tree: Arc<dyn Tree>,
        device: FuseDevice,
        settled: Settled,
        residents: usize,
    ) -> Self {
        Self {
            tree,
            device: Arc::new(device),
            settled,
            hand_over: HandOver::new(),
            residents,
            number: number(),
            in_common: AtomicUsize::new(0),
            rate: RequestRate::default(),
            durable: OnceLock::new(),
            parked: OnceLock::new(),
            awaiting: AwaitingRequests::default(),
            failed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ended: Mutex::new(&ENDED_CLASS, false),
            ended_changed: Condvar::new(),
        }
    }

    /// Threads for what is waited for until it is durable.
    pub(super) fn durable(&self) -> &Arc<ThreadPool> {
        self.durable.get_or_init(thread_pools::durable)
    }

    /// Threads for requests that wait without a reader.
    pub(super) fn parked(&self) -> &Arc<ThreadPool> {
        self.parked.get_or_init(thread_pools::parked)
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
        self.settled.flags.contains(InitFlags::WRITEBACK_CACHE)
    }

    /// How the kernel is to treat an open. A kernel that gathers writes owns size and times: what
    /// went past it would not count.
    pub(super) fn open_flags(&self, wanted: OpenReplyFlags) -> OpenReplyFlags {
        if self.gathers_writes() {
            wanted.difference(OpenReplyFlags::DIRECT_IO)
        } else {
            wanted
        }
    }

    /// A user of the connection leaves; the last one ends it.
    pub(super) fn leave(&self) {
        if self.hand_over.leave() {
            self.end();
        }
    }

    /// The last user has left.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        // One that begins only now has nothing to do for long, and ends by itself.
        for threads in [&self.durable, &self.parked] {
            threads.get().inspect(|threads| threads.close());
        }
        self.awaiting.end();
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
