//! Who leads, who waits, and when a batch counts as durable. Pure: no locks, no I/O.
//!
//! ```text
//!   request --a batch is due--> somebody who waits leads: takes requests, plans a batch, writes it
//!   batch --written--> its leader flushes; the next batch may be planned
//!   batch --flushed, and all before it--> durable: its callers are released
//!   batch --failed, or one before it--> failed: its callers wait for the txg
//! ```
//!
//! A batch is due when nothing is on its way to the medium; or when one batch is being flushed, and
//! at least as many wait as that one serves. So whoever comes while a batch is under way makes up
//! the next one, a flush always serves at least half of those who wait for flushes, and under
//! steady load the callers fall into two cohorts, of which one is being flushed while the other
//! gathers. There is no timer.

use std::collections::VecDeque;

/// Batches under way at once: while one is being flushed, the next is planned and written.
pub(crate) const BATCHES_MAX: usize = 2;

/// From so many callers on, a batch that starts beside another one takes but half of all: the
/// cohorts become equal at once, instead of one of them being always late.
const HALVED_MIN: usize = if cfg!(test) { 3 } else { 8 };

/// What the caller of a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Lead,
    Wait,
}

/// A batch that was planned.
struct PendingBatch<W> {
    number: u64,
    /// Whether it is durable, and since when that is known.
    outcome: Option<(bool, u64)>,
    waiters: Vec<W>,
}

/// The requests and batches of one log.
pub(crate) struct CommitQueue<W> {
    /// Requests that no leader has taken. While one leads that has taken none yet, its own is the
    /// first.
    waiting: VecDeque<W>,
    leaders: usize,
    /// A leader has not written its batch yet.
    writing: bool,
    /// Planned, oldest first, until they and all before them are done.
    pending: VecDeque<PendingBatch<W>>,
    next: u64,
    /// A batch failed: so does every later one, until a new chain begins.
    broken: bool,
}

/// Callers to be released, and whether what they wait for is durable.
pub(crate) type Released<W> = Vec<(W, bool)>;

impl<W: Clone> CommitQueue<W> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            leaders: 0,
            writing: false,
            pending: VecDeque::new(),
            next: 0,
            broken: false,
        }
    }

    /// A request comes in.
    pub(crate) fn arrive(&mut self, waiter: W) -> Role {
        self.waiting.push_back(waiter.clone());
        if !self.is_due() {
            return Role::Wait;
        }
        // Whoever is awake leads, and a leader's own request is in its batch.
        self.waiting.pop_back();
        self.waiting.push_front(waiter);
        self.begin();
        Role::Lead
    }

    fn is_due(&self) -> bool {
        let waiting = self.waiting.len();
        waiting > 0
            && !self.writing
            && self.leaders < BATCHES_MAX
            && waiting >= self.callers_pending()
    }

    fn callers_pending(&self) -> usize {
        self.pending.iter().map(|batch| batch.waiters.len()).sum()
    }

    fn begin(&mut self) {
        self.leaders += 1;
        self.writing = true;
    }

    /// Who is to lead now.
    fn next_leader(&mut self) -> Option<W> {
        let next_leader = self.waiting.front().filter(|_| self.is_due()).cloned();
        if next_leader.is_some() {
            self.begin();
        }
        next_leader
    }

    /// A leader takes the requests of its batch.
    pub(crate) fn take(&mut self) -> Vec<W> {
        let (pending, waiting) = (self.callers_pending(), self.waiting.len());
        let mut count = waiting;
        if pending > 0 && pending + waiting >= HALVED_MIN {
            count = (pending + waiting).div_ceil(2).min(waiting);
        }
        self.waiting.drain(..count).collect()
    }

    /// A leader has planned a batch for these.
    pub(crate) fn start_batch(&mut self, waiters: Vec<W>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.push_back(PendingBatch {
            number,
            outcome: None,
            waiters,
        });
        number
    }

    /// These need nothing but what is under way: they wait for the newest batch. Released at once
    /// when there is none.
    pub(crate) fn join(&mut self, waiters: Vec<W>) -> Released<W> {
        match self.pending.back_mut() {
            Some(newest) => {
                newest.waiters.extend(waiters);
                Vec::new()
            }
            None => {
                let durable = !self.broken;
                waiters
                    .into_iter()
                    .map(|waiter| (waiter, durable))
                    .collect()
            }
        }
    }

    /// A leader has written its batch and is about to flush it; who leads the next.
    pub(crate) fn written(&mut self) -> Option<W> {
        self.writing = false;
        self.next_leader()
    }

    /// A batch is on the medium, or failed, at `now_ns`: who is released, in order, and how long
    /// each batch that is done waited for those before it.
    pub(crate) fn complete(
        &mut self,
        number: u64,
        durable: bool,
        now_ns: u64,
    ) -> (Released<W>, Vec<u64>) {
        let batch = self.pending.iter_mut().find(|batch| batch.number == number);
        if let Some(batch) = batch {
            batch.outcome = Some((durable, now_ns));
        }
        let (mut released, mut waits_ns) = (Vec::new(), Vec::new());
        while let Some((durable, since_ns)) = self.pending.front().and_then(|first| first.outcome) {
            self.broken |= !durable;
            let durable = !self.broken;
            let first = self.pending.pop_front();
            let waiters = first.into_iter().flat_map(|first| first.waiters);
            released.extend(waiters.map(|waiter| (waiter, durable)));
            waits_ns.push(now_ns.saturating_sub(since_ns));
        }
        (released, waits_ns)
    }

    /// A leader is done, or found nothing to write (`in_vain`); who leads the next.
    pub(crate) fn leave(&mut self, in_vain: bool) -> Option<W> {
        self.leaders -= 1;
        if in_vain {
            self.writing = false;
        }
        self.next_leader()
    }

    /// Whether a batch failed since the last call of [`CommitQueue::reset`].
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether batches are on their way to the medium.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether anybody waits or works.
    pub(crate) fn is_busy(&self) -> bool {
        self.leaders > 0 || !self.pending.is_empty()
    }

    /// A new chain begins. False while batches of the old one are under way.
    pub(crate) fn reset(&mut self) -> bool {
        if self.pending.is_empty() {
            self.broken = false;
        }
        !self.broken
    }
}

#[cfg(test)]
mod tests;
