//! Writes that are waited for together: those of a txg's sync pass, or of an intent log block.

use crate::leaf::{COPIED, DeviceHandle};
use crate::members::Members;
use crate::queue::{Help, Queue};
use crate::top::KeptWrites;
use crate::{Failure, IoClass, LeafFailure, VdevError};
use base::invariant::Findings;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{Guid, Txg, VdevId, invariant};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use sys::Buffer;

/// How long a waiter sleeps before it looks again whether there is something to write.
const HELP_AGAIN: Duration = Duration::from_millis(500);

static CLASS: LockClass = LockClass::new("vdev.group", rank::VDEV + 30);
static COMPLETION_CLASS: LockClass = LockClass::new("vdev.write_completion", rank::VDEV + 20);

/// A set of writes in flight. Writes are added by [`crate::Top::write`] from any thread.
pub struct WriteGroup {
    id: u64,
    txg: Txg,
    /// Of the pool.
    findings: Arc<Findings>,
    outstanding: AtomicUsize,
    waiters: AtomicUsize,
    /// The number of the next write: of two writes to one place the later one counts.
    next_write: AtomicU64,
    /// Whether all writes so far are of a class that someone waits for.
    urgent_only: AtomicBool,
    /// Whether any write failed: looked at without the lock at the end of each write.
    any_failed: AtomicBool,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Writes that no leaf took, by place: of each place the newest. With the number of the write.
    failed: BTreeMap<(VdevId, u64), (u64, FailedWrite)>,
    /// The newest write that was done well to each place since some write failed.
    good: BTreeMap<(VdevId, u64), u64>,
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
    /// The txg of the block: where its bytes lie may depend on it.
    pub birth: Txg,
    /// The bytes.
    pub data: Buffer,
    /// What the write was for.
    pub class: IoClass,
    /// What each leaf said.
    pub failures: Vec<LeafFailure>,
}

impl WriteGroup {
    /// A group without writes, of no pool: what is found wrong about its writes is told to nobody. A leaf that misses
    /// one of its writes is noted as missing `txg`.
    #[must_use]
    pub fn new(txg: Txg) -> Arc<Self> {
        Self::of_pool(txg, &Arc::default())
    }

    /// The same of a pool, which does not go on when something about the writes is wrong.
    #[must_use]
    pub fn of_pool(txg: Txg, findings: &Arc<Findings>) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            txg,
            findings: Arc::clone(findings),
            outstanding: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            next_write: AtomicU64::new(0),
            urgent_only: AtomicBool::new(true),
            any_failed: AtomicBool::new(false),
            state: Mutex::new(&CLASS, State::default()),
            done: Condvar::new(),
        })
    }

    /// A group of what is copied to leaves that lack it ([`crate::RangeCopy`]), whichever txgs that is of.
    #[must_use]
    pub fn of_copies(findings: &Arc<Findings>) -> Arc<Self> {
        Self::of_pool(COPIED, findings)
    }

    /// The txg that the writes belong to.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.txg
    }

    /// Where is noted what must not be.
    #[must_use]
    pub const fn findings(&self) -> &Arc<Findings> {
        &self.findings
    }

    /// Waits until every write of the group is done. That does not make them durable:
    /// [`crate::Top::flush`] does.
    ///
    /// # Errors
    /// The first write that no leaf took; see [`WriteGroup::take_failed`] for all of them. The
    /// answer stays an error until they are taken.
    pub fn wait(&self) -> Result<(), VdevError> {
        // Order matters: a writer that adds to a queue after we looked at it sees `waiters`.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let queues = self.state.lock().queues.clone();
        // The other queues' threads are woken; the first queue's work, and then whatever is left,
        // is done here and now rather than by waking yet another thread.
        queues.iter().skip(1).for_each(|queue| queue.kick());
        self.help(&queues);
        let mut state = self.state.lock();
        while self.outstanding() > 0 {
            // The timeout matters only if the system refused us threads and others still add.
            if self.done.wait_for(&mut state, HELP_AGAIN) {
                let queues = state.queues.clone();
                drop(state);
                self.help(&queues);
                state = self.state.lock();
            }
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        match state.failed.values().next() {
            None => Ok(()),
            Some((_, first)) => Err(VdevError::WriteFailed {
                vdev: first.vdev,
                offset: first.offset,
                len: first.data.len() as u64,
                failures: first.failures.clone(),
            }),
        }
    }

    /// Writes what the group waits for. Who waits for a log block does nobody else's work: while it
    /// waited for a turn to do that, its own block might long be written.
    fn help(&self, queues: &[Arc<Queue>]) {
        let what = if self.urgent_only.load(Ordering::Acquire) {
            Help::Urgent
        } else {
            Help::Any
        };
        for queue in queues {
            while self.outstanding() > 0 && queue.help(what) {}
        }
    }

    /// How many writes are not done yet.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    /// The writes that failed so far, to be written again (to the same place, once the vdev is
    /// back) or elsewhere. A place that was written well since is not among them.
    #[must_use]
    pub fn take_failed(&self) -> Vec<FailedWrite> {
        let mut state = self.state.lock();
        self.any_failed.store(false, Ordering::Release);
        state.good.clear();
        let failed = std::mem::take(&mut state.failed);
        failed.into_values().map(|(_, failed)| failed).collect()
    }

    /// Keeps a write that failed before: its vdev is still not there.
    pub(crate) fn fails_again(self: &Arc<Self>, failed: FailedWrite) {
        let number = self.next_write.fetch_add(1, Ordering::Relaxed);
        self.note_failed(number, failed, None);
    }

    /// Unlike an address, never used twice.
    pub(crate) const fn id(&self) -> u64 {
        self.id
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
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Keeps a write that no leaf took, unless its place was written since. It is read from `kept` meanwhile.
    fn note_failed(self: &Arc<Self>, number: u64, failed: FailedWrite, kept: Option<&KeptWrites>) {
        let mut state = self.state.lock();
        self.any_failed.store(true, Ordering::Release);
        let place = (failed.vdev, failed.offset);
        let newer = |other: Option<u64>| other.is_some_and(|other| other > number);
        if newer(state.good.get(&place).copied()) {
            return;
        }
        if !newer(state.failed.get(&place).map(|(other, _)| *other)) {
            if let Some(kept) = kept {
                kept.keep(&failed, self);
            }
            state.failed.insert(place, (number, failed));
        }
    }

    /// Notes that a place was written well: an older write to it that failed does not matter any
    /// more.
    fn note_good(&self, number: u64, place: (VdevId, u64), kept: &KeptWrites) {
        let mut state = self.state.lock();
        let failed = state.failed.get(&place);
        if failed.is_none_or(|(other, _)| *other < number) {
            state.failed.remove(&place);
            kept.forget(place.1);
        }
        let good = state.good.entry(place).or_insert(number);
        *good = number.max(*good);
    }

    /// Notes that a write is done.
    fn finish(&self) {
        let before = self.outstanding.fetch_sub(1, Ordering::AcqRel);
        let is_there = invariant!(
            self.findings,
            before > 0,
            "vdev.writes",
            "more writes of txg {} have ended than were begun",
            self.txg
        );
        if !is_there {
            // Who waits for the others would else wait for ever.
            self.outstanding.fetch_add(1, Ordering::AcqRel);
        } else if before == 1 {
            // Taken so that the notice cannot fall between a waiter's look and its sleep.
            drop(self.state.lock());
            self.done.notify_all();
        }
    }
}

/// Who reports on a write.
pub(crate) struct Reports {
    /// How many leaves' columns are written.
    pub(crate) count: usize,
    /// Of how many children the write may fail without being lost.
    pub(crate) tolerance: usize,
    /// Which leaves stand for one another.
    pub(crate) members: Arc<Members>,
}

/// One write on all children of its vdev: done when the last of them is.
pub(crate) struct WriteCompletion {
    group: Arc<WriteGroup>,
    kept: Arc<KeptWrites>,
    /// Its place among the writes of the group.
    number: u64,
    vdev: VdevId,
    offset: u64,
    birth: Txg,
    data: Buffer,
    class: IoClass,
    remaining: AtomicUsize,
    reports: Reports,
    failures: Mutex<Vec<(Arc<DeviceHandle>, Failure)>>,
}

impl WriteCompletion {
    /// A write that so many will report on.
    pub(crate) fn new(
        (group, kept): (&Arc<WriteGroup>, &Arc<KeptWrites>),
        place: (VdevId, u64, Txg),
        data: Buffer,
        class: IoClass,
        reports: Reports,
    ) -> Arc<Self> {
        group.outstanding.fetch_add(1, Ordering::Relaxed);
        if class != IoClass::SyncWrite {
            group.urgent_only.store(false, Ordering::Release);
        }
        Arc::new(Self {
            group: Arc::clone(group),
            kept: Arc::clone(kept),
            number: group.next_write.fetch_add(1, Ordering::Relaxed),
            vdev: place.0,
            offset: place.1,
            birth: place.2,
            data,
            class,
            remaining: AtomicUsize::new(reports.count),
            reports,
            failures: Mutex::new(&COMPLETION_CLASS, Vec::new()),
        })
    }

    pub(crate) const fn group(&self) -> &Arc<WriteGroup> {
        &self.group
    }

    pub(crate) const fn class(&self) -> IoClass {
        self.class
    }

    /// Whether nobody will report.
    pub(crate) const fn is_unheard(&self) -> bool {
        self.reports.count == 0
    }

    /// The report of the leaf behind `handle`. A leaf that failed where enough others did well has missed the txg;
    /// where too many failed nothing is there to be missed: the write is done again.
    pub(crate) fn report(&self, handle: &Arc<DeviceHandle>, result: Result<(), Failure>) {
        if let Err(failure) = result {
            // A newer write to the place may be done before this one is known to have failed: then that is noted.
            if matches!(failure, Failure::Device(_)) {
                self.group.any_failed.store(true, Ordering::Release);
            }
            self.failures.lock().push((Arc::clone(handle), failure));
        }
        let before = self.remaining.fetch_sub(1, Ordering::AcqRel);
        let is_expected = invariant!(
            self.group.findings,
            before > 0,
            "vdev.writes",
            "a leaf reported twice on the write at {} of vdev {}",
            self.offset,
            self.vdev
        );
        if !is_expected {
            self.remaining.fetch_add(1, Ordering::AcqRel);
            return;
        }
        if before > 1 {
            return;
        }
        let failures = std::mem::take(&mut *self.failures.lock());
        if !self.is_lost(&failures) {
            for (handle, _) in failures {
                handle.note_missing(self.group.txg);
            }
            if self.group.any_failed.load(Ordering::Acquire) || self.kept.any() {
                let place = (self.vdev, self.offset);
                self.group.note_good(self.number, place, &self.kept);
            }
            self.group.finish();
        } else {
            self.give_up(
                failures
                    .into_iter()
                    .map(|(handle, f)| handle.failure(f))
                    .collect(),
            );
        }
    }

    /// Whether so many children failed that the block cannot be read.
    fn is_lost(&self, failures: &[(Arc<DeviceHandle>, Failure)]) -> bool {
        if failures.len() <= self.reports.tolerance {
            return false;
        }
        let failed = |leaf: Guid| {
            failures
                .iter()
                .any(|(handle, _)| handle.config.guid == leaf)
        };
        self.reports.members.lost(failed) > self.reports.tolerance
    }

    /// Ends the write without success.
    pub(crate) fn give_up(&self, failures: Vec<LeafFailure>) {
        let failed = FailedWrite {
            vdev: self.vdev,
            offset: self.offset,
            birth: self.birth,
            data: self.data.clone(),
            class: self.class,
            failures,
        };
        self.group
            .note_failed(self.number, failed, Some(&self.kept));
        self.group.finish();
    }
}

#[cfg(test)]
mod tests;
