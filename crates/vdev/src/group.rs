//! Writes that are waited for together: those of a txg's sync pass, or of an intent log block.

use crate::queue::Queue;
use crate::{IoClass, LeafFailure, VdevError};
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{Txg, VdevId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sys::Buffer;

static CLASS: LockClass = LockClass::new("vdev.group", rank::VDEV + 30);

/// A set of writes in flight. Writes are added by [`crate::Top::write`] from any thread.
pub struct WriteGroup {
    txg: Txg,
    outstanding: AtomicUsize,
    waiting: AtomicBool,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    failed: Vec<FailedWrite>,
    /// The queues that have or had writes of this group: they are told when someone waits.
    queues: Vec<Arc<Queue>>,
}

/// A write that no leaf took. Its bytes are kept, so that it can be written again once the vdev
/// is back.
#[derive(Clone, Debug)]
pub struct FailedWrite {
    /// The top-level vdev.
    pub vdev: VdevId,
    /// Offset in its allocatable area.
    pub offset: u64,
    /// The bytes.
    pub data: Buffer,
    /// What the write was for.
    pub class: IoClass,
    /// What each leaf said.
    pub failures: Vec<LeafFailure>,
}

impl WriteGroup {
    /// A group without writes. A leaf that misses one of its writes is noted as missing `txg`.
    #[must_use]
    pub fn new(txg: Txg) -> Arc<Self> {
        Arc::new(Self {
            txg,
            outstanding: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            state: Mutex::new(&CLASS, State::default()),
            done: Condvar::new(),
        })
    }

    /// The txg that the writes belong to.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.txg
    }

    /// Waits until every write of the group is done. That does not make them durable:
    /// [`crate::Top::flush`] does.
    ///
    /// # Errors
    /// The first write that no leaf took; see [`WriteGroup::take_failed`] for all of them. The
    /// answer stays an error until they are taken.
    pub fn wait(&self) -> Result<(), VdevError> {
        // Order matters: a writer that adds to a queue after we looked at it sees `waiting`.
        self.waiting.store(true, Ordering::SeqCst);
        let queues = self.state.lock().queues.clone();
        if let [only] = &queues[..] {
            // One queue: its work is done here and now rather than by waking another thread.
            while self.outstanding() > 0 && only.help() {}
        } else {
            queues.iter().for_each(|queue| queue.kick());
        }
        let mut state = self.state.lock();
        while self.outstanding.load(Ordering::Acquire) > 0 {
            self.done.wait(&mut state);
        }
        self.waiting.store(false, Ordering::SeqCst);
        match state.failed.first() {
            None => Ok(()),
            Some(first) => Err(VdevError::WriteFailed {
                vdev: first.vdev,
                offset: first.offset,
                len: first.data.len() as u64,
                failures: first.failures.clone(),
            }),
        }
    }

    /// How many writes are not done yet.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    /// The writes that failed so far, to be written again (to the same place, once the vdev is
    /// back) or elsewhere.
    #[must_use]
    pub fn take_failed(&self) -> Vec<FailedWrite> {
        std::mem::take(&mut self.state.lock().failed)
    }

    /// Notes that one more write is in flight.
    pub(crate) fn begin(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that `queue` has a write of this group.
    pub(crate) fn register(&self, queue: &Arc<Queue>) {
        let mut state = self.state.lock();
        if !state.queues.iter().any(|known| Arc::ptr_eq(known, queue)) {
            state.queues.push(Arc::clone(queue));
        }
    }

    /// Whether someone waits for the group, so that its writes must not linger.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Notes that a write is done, well or not.
    pub(crate) fn finish(&self, failed: Option<FailedWrite>) {
        if let Some(failed) = failed {
            self.state.lock().failed.push(failed);
        }
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Taken so that the notice cannot fall between a waiter's look and its sleep.
            drop(self.state.lock());
            self.done.notify_all();
        }
    }
}
