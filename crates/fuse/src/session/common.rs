//! Readers that all mounts of the process have in common, so that a mount which nobody uses costs a descriptor and
//! a small record.
//!
//! They are told of mounts by one watch (`sys::FuseWatch`), each mount to one of them at a time: it takes one
//! request, asks for the mount again, and serves. So the next request of the same mount may be another one's, and
//! mounts with much to do get their turn one after the other. A mount with many requests gets readers of its own
//! (`readers`), and comes back when it has had none for a while; `base::hand_over` says who takes a mount's
//! requests, and who sees its end.
//!
//! What keeps readers of one mount from waiting for others holds here as well: one of them at most waits for room,
//! and a monitor starts helpers for those that wait. Beyond that no mount can keep others waiting, whatever its
//! file system does: at its requests are so many common readers at most (`fuse.common_readers_per_mount`), and the
//! last one that is free serves nobody. What is left over goes to threads of the mount (`parked`).

use super::counters::counters;
use super::dispatch::Worker;
use super::monitor::{self, ReaderSet, Rest};
use super::reader_states::{Place, Readers};
use super::readers::{self, BUFFER_LEN};
use super::shared::Shared;
use crate::tree::ReadReply;
use crate::tunables::COMMON_READERS_PER_MOUNT;
use base::clock::monotonic_ns;
use base::lock::{LockClass, RwLock, rank};
use base::queue::Bounded;
use base::thread;
use base::thread_pool::ThreadPool;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, OnceLock};
use sys::{Errno, FuseWatch, ThreadNumber};

static WATCHED_CLASS: LockClass = LockClass::new("fuse.watched", rank::FRONT_END + 42);

/// Mounts that end at once: an end waits for a txg.
const ENDS_MAX: usize = 64;
/// Ends that may wait for those threads; a reader sees to what is beyond.
const ENDS_QUEUED_MAX: usize = 1 << 16;

static ENDS: LazyLock<Arc<ThreadPool>> = LazyLock::new(|| {
    let queue = Bounded::new("fuse.ends", ENDS_QUEUED_MAX);
    ThreadPool::new(("fuse-end", sys::thread::ANSWERS), ENDS_MAX, queue)
});

/// The readers, what they are told by, and the mounts that they are told of.
pub(super) struct Common {
    watch: FuseWatch,
    readers: Arc<Readers>,
    mounts: RwLock<HashMap<u64, Arc<Shared>>>,
}

/// Has the common readers read the requests of a mount, beside its own if it has any. False: they cannot, or it has
/// ended.
pub(super) fn watch(shared: &Arc<Shared>) -> bool {
    let Some(common) = Common::get() else {
        return false;
    };
    if !shared.hand_over.join() {
        return false;
    }
    let before = common
        .mounts
        .write()
        .insert(shared.number, Arc::clone(shared));
    debug_assert!(before.is_none(), "watched twice");
    if common.watch.add(&shared.device, shared.number).is_ok() {
        return true;
    }
    common.mounts.write().remove(&shared.number);
    leave(shared);
    false
}

impl Common {
    /// Those of this process, started with its first mount. None: they cannot be had.
    fn get() -> Option<&'static Arc<Self>> {
        static COMMON: OnceLock<Option<Arc<Common>>> = OnceLock::new();
        COMMON.get_or_init(|| Self::start().ok()).as_ref()
    }

    fn start() -> io::Result<Arc<Self>> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let common = Arc::new(Self {
            watch: FuseWatch::new()?,
            readers: Arc::new(Readers::new(cores.max(2), None)),
            mounts: RwLock::new(&WATCHED_CLASS, HashMap::new()),
        });
        for _ in 0..common.readers.residents {
            common.start_reader(false)?;
        }
        monitor::start(Arc::clone(&common))?;
        Ok(common)
    }

    fn start_reader(self: &Arc<Self>, helper: bool) -> io::Result<()> {
        let Some(slot) = self.readers.take_slot() else {
            counters().helpers_refused.increment();
            return Ok(());
        };
        self.readers.alive.fetch_add(1, Ordering::SeqCst);
        let common = Arc::clone(self);
        let name = if helper { "fuse-helper" } else { "fuse-common" };
        let started = thread::named(name, sys::thread::ANSWERS)
            .spawn(move || common.run_reader(slot, helper));
        if let Err(error) = started {
            self.leave(slot);
            return Err(error);
        }
        Ok(())
    }

    fn leave(&self, slot: usize) {
        self.readers.leave_slot(slot);
        self.readers.alive.fetch_sub(1, Ordering::SeqCst);
    }

    fn run_reader(&self, slot: usize, helper: bool) {
        if let Some(slot) = self.readers.slots.get(slot) {
            slot.thread
                .store(ThreadNumber::own().raw(), Ordering::Relaxed);
        }
        let mut buffer = vec![0; BUFFER_LEN];
        let mut data = ReadReply::default();
        loop {
            self.readers.waiting.fetch_add(1, Ordering::SeqCst);
            let told = self.watch.wait();
            let others = self
                .readers
                .waiting
                .fetch_sub(1, Ordering::SeqCst)
                .saturating_sub(1);
            // An error is a signal, or nothing that a reader could do anything about.
            let shared = told.ok().and_then(|number| self.mount(number));
            if let Some(shared) = shared {
                data = self.take(&shared, &mut buffer, data, (slot, others));
            }
            if helper && self.readers.are_enough() {
                break;
            }
        }
        self.leave(slot);
    }

    fn mount(&self, number: u64) -> Option<Arc<Shared>> {
        self.mounts.read().get(&number).map(Arc::clone)
    }

    /// Takes a request of a mount that this reader was told of, and serves it.
    fn take(
        &self,
        shared: &Arc<Shared>,
        buffer: &mut [u8],
        data: ReadReply,
        (slot, others): (usize, usize),
    ) -> ReadReply {
        match shared.device.read(buffer) {
            Ok(len) => {
                let started_ns = monotonic_ns();
                // The watch's part is this reader's now, so the mount has not ended.
                let has_joined = shared.hand_over.join();
                debug_assert!(has_joined, "a mount that has ended was watched");
                let here = shared.in_common.fetch_add(1, Ordering::Relaxed);
                let place = self.place(here, others);
                let is_busy = shared.rate.arrived(started_ns);
                if is_busy && readers::start_for_a_while(shared) {
                    self.forget(shared);
                } else {
                    self.ask_again(shared);
                }
                let serving = self.readers.serve(slot, others, started_ns);
                let mut worker = Worker {
                    shared: Arc::clone(shared),
                    readers: Arc::clone(&self.readers),
                    device: Arc::clone(&shared.device),
                    data,
                };
                let message = buffer.get(..len).unwrap_or_default();
                if worker.serve(message, place) {
                    readers::count(message, monotonic_ns().saturating_sub(started_ns));
                }
                drop(serving);
                shared.in_common.fetch_sub(1, Ordering::Relaxed);
                leave(shared);
                return worker.data;
            }
            // Readers of its own have it; or the caller was killed, or a signal came, or there is no memory.
            Err(Errno::AGAIN | Errno::NOENT | Errno::INTR | Errno::NOMEM) => self.ask_again(shared),
            // Unmounted, or aborted.
            Err(_) => self.forget(shared),
        }
        data
    }

    /// Where the reader serves that has taken a request of a mount at which so many others are.
    fn place(&self, here: usize, others: usize) -> Place {
        if here >= COMMON_READERS_PER_MOUNT.count() {
            return Place::Elsewhere;
        }
        match self.readers.place(others) {
            Place::LastOfAll | Place::Elsewhere => Place::Elsewhere,
            place @ (Place::BesideFree | Place::LastFree | Place::Apart) => place,
        }
    }

    fn ask_again(&self, shared: &Arc<Shared>) {
        if self.watch.ask_again(&shared.device, shared.number).is_err() {
            // Nobody would be told of it any more.
            drop(readers::start_for_ever(shared));
            self.forget(shared);
        }
    }

    /// Gives up the watch's part of a mount.
    fn forget(&self, shared: &Arc<Shared>) {
        let _gone = self.watch.remove(&shared.device);
        self.mounts.write().remove(&shared.number);
        leave(shared);
    }
}

/// A common reader leaves a mount. It has others to serve, so it waits for no end.
fn leave(shared: &Arc<Shared>) {
    if !shared.hand_over.leave() {
        return;
    }
    let for_end = Arc::clone(shared);
    if let Err(end) = ENDS.run(Box::new(move || for_end.end())) {
        end();
    }
}

impl ReaderSet for Common {
    fn readers(&self) -> &Readers {
        &self.readers
    }

    fn start_helper(self: &Arc<Self>) {
        // Without a thread to be had, callers wait for those that there are.
        drop(self.start_reader(true));
    }

    fn rest(&self) -> Rest {
        Rest::Sleep
    }
}
