//! Counters, gauges and histograms, and the one registry that reads them all.
//!
//! Writing costs a few nanoseconds: relaxed additions on a shard of the caller's thread. Reading
//! sums the shards and may be a moment old. Who calls it: every engine part; who reads it:
//! `zpool iostat`-style commands, the metrics endpoint and tests.

mod flow;
mod histogram;
mod registry;
mod windows;

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

pub use flow::{Flow, flow};
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot, bucket_end};
pub use registry::{Registry, Sample, Source, Value, registry};
pub use windows::{WINDOWS_MAX, Windows};

/// How many independent cells a counter has.
const SHARDS: usize = 8;

#[repr(align(64))]
#[derive(Debug)]
struct Padded(AtomicU64);

/// The calling thread's shard of every counter.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    SHARD
        .try_with(|cell| {
            let mut value = cell.get();
            if value == usize::MAX {
                value = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
                cell.set(value);
            }
            value
        })
        .unwrap_or(0)
}

/// A number that only grows.
#[derive(Debug)]
pub struct Counter {
    shards: [Padded; SHARDS],
}

impl Counter {
    /// A counter at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shards: [const { Padded(AtomicU64::new(0)) }; SHARDS],
        }
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.shards[shard()].0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds 1 and answers true once in `period` times, for measuring a sample of the events.
    pub(crate) fn increment_sampled(&self, period: u64) -> bool {
        let before = self.shards[shard()].0.fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(period)
    }

    /// Adds 1.
    pub fn increment(&self) {
        self.add(1);
    }

    /// The sum of all additions so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.shards
            .iter()
            .fold(0u64, |sum, s| sum.wrapping_add(s.0.load(Ordering::Relaxed)))
    }

    /// Back to 0: for counters that an operator clears.
    pub fn reset(&self) {
        for s in &self.shards {
            s.0.store(0, Ordering::Relaxed);
        }
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

/// A level that goes up and down, and the highest it ever was.
#[derive(Debug, Default)]
pub struct Gauge {
    value: AtomicI64,
    high_water: AtomicI64,
}

impl Gauge {
    /// A gauge at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: AtomicI64::new(0),
            high_water: AtomicI64::new(0),
        }
    }

    /// Adds `amount`, which may be negative, and answers the new level.
    pub fn add(&self, amount: i64) -> i64 {
        let level = self
            .value
            .fetch_add(amount, Ordering::Relaxed)
            .wrapping_add(amount);
        if amount > 0 && level > self.high_water.load(Ordering::Relaxed) {
            self.high_water.fetch_max(level, Ordering::Relaxed);
        }
        level
    }

    /// Sets the level.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
        self.high_water.fetch_max(value, Ordering::Relaxed);
    }

    /// The level now.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// The highest level so far.
    #[must_use]
    pub fn high_water(&self) -> i64 {
        self.high_water.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
