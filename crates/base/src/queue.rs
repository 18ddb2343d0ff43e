//! The one queue type: bounded, named, watched. When it is full the producer gets its item back
//! and does the work itself or waits; nothing is ever queued without limit.

use crate::clock::real_now;
use crate::lock::{Condvar, LockClass, Mutex, rank};
use crate::metrics::{Counter, Gauge, Source, Value, registry};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

static CLASS: LockClass = LockClass::new("queue", rank::LAST);

/// A first-in, first-out queue of at most `capacity` items.
pub struct Bounded<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    not_full: Condvar,
    meters: Arc<Meters>,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    popping: usize,
    pushing: usize,
}

struct Meters {
    capacity: usize,
    depth: Gauge,
    pushed: Counter,
    refused: Counter,
    waited: Counter,
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let capacity = i64::try_from(self.capacity).unwrap_or(i64::MAX);
        let fixed = Value::Gauge {
            level: capacity,
            high_water: capacity,
        };
        sink("capacity", fixed);
        sink("depth", Value::from(&self.depth));
        sink("pushed", Value::from(&self.pushed));
        sink("producer_helps", Value::from(&self.refused));
        sink("producer_waits", Value::from(&self.waited));
    }
}

impl<T> Bounded<T> {
    /// An empty queue, listed in the registry as `queue.NAME`.
    #[must_use]
    pub fn new(name: &str, capacity: usize) -> Self {
        let meters = Arc::new(Meters {
            capacity,
            depth: Gauge::new(),
            pushed: Counter::new(),
            refused: Counter::new(),
            waited: Counter::new(),
        });
        registry().add_source(format!("queue.{name}"), &meters);
        let state = State {
            items: VecDeque::new(),
            closed: false,
            popping: 0,
            pushing: 0,
        };
        Self {
            state: Mutex::new(&CLASS, state),
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
            meters,
        }
    }

    /// Adds an item, or gives it back if the queue is full or closed.
    ///
    /// # Errors
    /// The item, for the producer to handle itself.
    pub fn push(&self, item: T) -> Result<(), T> {
        self.push_for(item).map(drop)
    }

    /// Adds an item as [`Bounded::push`] does; answers whether for each queued item somebody waits.
    ///
    /// # Errors
    /// The item, for the producer to handle itself.
    pub(crate) fn push_for(&self, item: T) -> Result<bool, T> {
        let mut state = self.state.lock();
        let full = state.items.len() >= self.meters.capacity;
        #[cfg(all(test, not(shuttle)))]
        let full = full && !tests::UNBOUNDED.get();
        if state.closed || full {
            self.meters.refused.increment();
            return Err(item);
        }
        self.insert(&mut state, item);
        Ok(state.popping >= state.items.len())
    }

    /// The same for an item that was taken in before, where it had to wait for something else: it needs no room.
    ///
    /// # Errors
    /// The item, if the queue is closed.
    pub(crate) fn push_owed(&self, item: T) -> Result<bool, T> {
        let mut state = self.state.lock();
        if state.closed {
            self.meters.refused.increment();
            return Err(item);
        }
        self.insert(&mut state, item);
        Ok(state.popping >= state.items.len())
    }

    /// Adds an item, waiting for room; gives it back only if the queue is closed.
    ///
    /// # Errors
    /// The item, if the queue is closed.
    pub fn push_wait(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        while !state.closed && state.items.len() >= self.meters.capacity {
            state.pushing += 1;
            self.meters.waited.increment();
            self.not_full.wait(&mut state);
            state.pushing -= 1;
        }
        if state.closed {
            return Err(item);
        }
        self.insert(&mut state, item);
        Ok(())
    }

    fn insert(&self, state: &mut State<T>, item: T) {
        state.items.push_back(item);
        self.meters.pushed.increment();
        self.meters
            .depth
            .set(i64::try_from(state.items.len()).unwrap_or(i64::MAX));
        if state.popping > 0 {
            self.not_empty.notify_one();
        }
    }

    fn remove(&self, state: &mut State<T>) -> Option<T> {
        let item = state.items.pop_front()?;
        self.meters
            .depth
            .set(i64::try_from(state.items.len()).unwrap_or(i64::MAX));
        if state.pushing > 0 {
            self.not_full.notify_one();
        }
        Some(item)
    }

    /// The oldest item, waiting for one; `None` once the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(item) = self.remove(&mut state) {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.popping += 1;
            self.not_empty.wait(&mut state);
            state.popping -= 1;
        }
    }

    /// The oldest item, waiting at most `timeout` for one.
    pub fn pop_for(&self, timeout: Duration) -> Option<T> {
        let deadline = real_now().checked_add(timeout);
        let mut state = self.state.lock();
        loop {
            if let Some(item) = self.remove(&mut state) {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.popping += 1;
            let timed_out = match deadline {
                Some(deadline) => self.not_empty.wait_until(&mut state, deadline),
                None => {
                    self.not_empty.wait(&mut state);
                    false
                }
            };
            state.popping -= 1;
            if timed_out {
                return self.remove(&mut state);
            }
        }
    }

    /// The oldest item, if there is one.
    pub fn try_pop(&self) -> Option<T> {
        self.remove(&mut self.state.lock())
    }

    /// Refuses further items and wakes everyone; what is queued can still be taken.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.not_empty.notify_all();
        self.not_full.notify_all();
    }

    /// How many items are queued.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.state.lock().items.len()
    }

    /// The most items that were ever queued.
    #[must_use]
    pub fn high_water(&self) -> usize {
        usize::try_from(self.meters.depth.high_water()).unwrap_or(0)
    }

    /// The most items that can be queued.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.meters.capacity
    }

    /// How many pushes were refused, so that the producer did the work.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.meters.refused.get()
    }
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
