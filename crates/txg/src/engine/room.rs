//! Where operations wait whose threads do not: first come, first served, each with its own delay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::clock::monotonic_ns;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::sync::atomic::{AtomicU64, Ordering};

use super::Engine;
use crate::credit::Credit;
use crate::error::TxgError;
use crate::manner::{self, Admitted, Awaited};
use crate::patience::Patience;

static ROOM: LockClass = LockClass::new("txg.room", rank::TXG + 5);

/// A credit that comes back between a look and the wait may be missed; this bounds what that costs.
const PAUSE: Duration = Duration::from_millis(5);

/// What is called when an operation may go on.
pub(crate) type Then = Box<dyn FnOnce(Admitted) + Send>;

/// An operation that found no room.
struct Queued {
    bytes: u64,
    patience: Patience,
    then: Then,
}

#[derive(Default)]
struct Waiting {
    /// Those that wait for room.
    queued: VecDeque<Queued>,
    /// Those that have it and are delayed, by when that ends ([`monotonic_ns`]); and a number, for two at one moment.
    delayed: BTreeMap<(u64, u64), (Credit, Then)>,
    numbered: u64,
    /// Those that wait for nothing but a thread.
    ready: Vec<(Result<Option<Credit>, TxgError>, Then)>,
    /// Somebody sees to them.
    is_served: bool,
}

/// See the module.
pub(super) struct Room {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// How many wait for room: whoever must not wait either goes behind them.
    queued: AtomicU64,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(&ROOM, Waiting::default()),
            changed: Condvar::new(),
            queued: AtomicU64::new(0),
        }
    }

    /// Whether somebody waits here for room.
    pub(super) fn has_queue(&self) -> bool {
        self.queued.load(Ordering::Relaxed) != 0
    }

    /// There may be room.
    pub(super) fn wake(&self) {
        if self.has_queue() {
            self.changed.notify_all();
        }
    }
}

/// One to be called, with what it gets.
type Call = (Result<Option<Credit>, TxgError>, Then);

impl Waiting {
    fn delay(&mut self, due_ns: u64, credit: Credit, then: Then) {
        self.numbered += 1;
        self.delayed.insert((due_ns, self.numbered), (credit, then));
    }
}

impl Engine {
    /// The calling thread would have to wait.
    ///
    /// # Errors
    /// It must not.
    pub(super) fn must_wait(self: &Arc<Self>) -> Result<(), TxgError> {
        if manner::hurries() {
            return Err(manner::postpone(self, Awaited::Thread));
        }
        Ok(())
    }

    /// The credit that the calling thread's operation was postponed for, if it is enough.
    pub(super) fn reserved_before(
        self: &Arc<Self>,
        bytes: u64,
    ) -> Result<Option<Credit>, TxgError> {
        let Some(outcome) = manner::brought(self) else {
            return Ok(None);
        };
        let Some(mut credit) = outcome? else {
            return Ok(None);
        };
        // What the operation finds may have changed meanwhile, and with it what it needs.
        let is_enough = credit.fit(bytes);
        Ok(is_enough.then_some(credit))
    }

    /// Calls `then` when what an operation waits for is there.
    pub(crate) fn admit_later(self: &Arc<Self>, awaited: Awaited, then: Then) {
        self.meters.postponed.increment();
        let mut waiting = self.room.waiting.lock();
        match awaited {
            Awaited::Room(bytes) => {
                let patience = Patience::default();
                waiting.queued.push_back(Queued {
                    bytes,
                    patience,
                    then,
                });
                self.room.queued.fetch_add(1, Ordering::Relaxed);
            }
            Awaited::Delay { credit, due_ns } => waiting.delay(due_ns, credit, then),
            Awaited::Thread => waiting.ready.push((Ok(None), then)),
        }
        if std::mem::replace(&mut waiting.is_served, true) {
            drop(waiting);
            self.room.changed.notify_all();
            return;
        }
        drop(waiting);
        let engine = Arc::clone(self);
        let server = base::thread::named("txg-admit", sys::thread::ANSWERS);
        if server.spawn(move || engine.serve_room()).is_err() {
            // Nobody can wait here: they wait where they go on.
            let mut waiting = self.room.waiting.lock();
            waiting.is_served = false;
            let all = self.take_all(&mut waiting, &Ok(()));
            drop(waiting);
            self.call(all);
        }
    }

    /// Sees to those who wait, until there is nobody.
    fn serve_room(self: &Arc<Self>) {
        loop {
            let mut waiting = self.room.waiting.lock();
            let (ready, next) = self.look(&mut waiting);
            if !ready.is_empty() {
                drop(waiting);
                self.call(ready);
                continue;
            }
            let until_next =
                next.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
            let pause = match (waiting.queued.is_empty(), until_next) {
                (true, None) => {
                    waiting.is_served = false;
                    return;
                }
                (true, Some(pause)) => pause,
                (false, None) => PAUSE,
                (false, Some(pause)) => pause.min(PAUSE),
            };
            self.room.changed.wait_for(&mut waiting, pause);
        }
    }

    fn call(self: &Arc<Self>, ready: Vec<Call>) {
        for (outcome, then) in ready {
            then(Admitted::new(Arc::clone(self), outcome));
        }
    }

    /// Those who may go on now, and when the next delay ends.
    fn look(self: &Arc<Self>, waiting: &mut Waiting) -> (Vec<Call>, Option<u64>) {
        let ended = self.state.lock().ended.clone();
        if let Some(why) = ended {
            return (self.take_all(waiting, &Err(why)), None);
        }
        let mut ready = std::mem::take(&mut waiting.ready);
        if !waiting.queued.is_empty() {
            self.kick_for_bytes(self.holds.open());
            self.serve_queue(waiting);
            self.take_impatient(waiting, &mut ready);
        }
        // Nothing is written out meanwhile: waiting smoothly helps nobody.
        let at_once = self.suspended.load(Ordering::Relaxed);
        let now = monotonic_ns();
        while let Some(first) = waiting.delayed.first_entry() {
            if first.key().0 > now && !at_once {
                break;
            }
            let (credit, then) = first.remove();
            ready.push((Ok(Some(credit)), then));
        }
        let next = waiting.delayed.first_key_value().map(|(key, _)| key.0);
        (ready, next)
    }

    /// Gives room to those who have waited longest, as far as it goes.
    fn serve_queue(self: &Arc<Self>, waiting: &mut Waiting) {
        while let Some(bytes) = waiting.queued.front().map(|first| first.bytes) {
            let Some(after) = self.dirty.try_add(bytes) else {
                return;
            };
            let credit = Credit::new(self, bytes);
            if let Some(first) = waiting.queued.pop_front() {
                self.room.queued.fetch_sub(1, Ordering::Relaxed);
                let due_ns = self.delayed_until_ns(after, bytes).unwrap_or(0);
                waiting.delay(due_ns, credit, first.then);
            }
        }
    }

    /// Those who have waited for a suspended engine for long enough.
    fn take_impatient(&self, waiting: &mut Waiting, ready: &mut Vec<Call>) {
        let state = self.state.lock();
        for mut one in std::mem::take(&mut waiting.queued) {
            match one.patience.check(&state) {
                Ok(()) => waiting.queued.push_back(one),
                Err(why) => {
                    self.room.queued.fetch_sub(1, Ordering::Relaxed);
                    ready.push((Err(why), one.then));
                }
            }
        }
    }

    /// Everybody, with this outcome.
    fn take_all(&self, waiting: &mut Waiting, outcome: &Result<(), TxgError>) -> Vec<Call> {
        let mut all = std::mem::take(&mut waiting.ready);
        let queued = std::mem::take(&mut waiting.queued);
        self.room
            .queued
            .fetch_sub(queued.len() as u64, Ordering::Relaxed);
        let delayed = std::mem::take(&mut waiting.delayed).into_values();
        let thens = queued.into_iter().map(|one| one.then);
        let thens = thens.chain(delayed.map(|(_, then)| then));
        all.extend(thens.map(|then| (outcome.clone().map(|()| None), then)));
        all
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
