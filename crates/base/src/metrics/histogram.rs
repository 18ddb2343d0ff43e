//! Log2 histograms: bucket `i` holds values whose highest set bit is `i - 1`; bucket 0 holds 0.

use super::shard;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many buckets a histogram has: one for 0 and one for each bit of a u64.
pub const BUCKETS: usize = 65;

const SHARDS: usize = 4;

#[repr(align(64))]
#[derive(Debug)]
struct Shard {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

/// A distribution of values (latencies in nanoseconds, sizes in bytes).
#[derive(Debug)]
pub struct Histogram {
    shards: [Shard; SHARDS],
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shards: [const {
                Shard {
                    buckets: [const { AtomicU64::new(0) }; BUCKETS],
                    sum: AtomicU64::new(0),
                    max: AtomicU64::new(0),
                }
            }; SHARDS],
        }
    }

    /// Counts one `value`.
    pub fn record(&self, value: u64) {
        let shard = &self.shards[shard() % SHARDS];
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        shard.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        shard.sum.fetch_add(value, Ordering::Relaxed);
        if value > shard.max.load(Ordering::Relaxed) {
            shard.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// The distribution so far.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut snapshot = HistogramSnapshot::default();
        for shard in &self.shards {
            for (total, bucket) in snapshot.buckets.iter_mut().zip(&shard.buckets) {
                *total = total.wrapping_add(bucket.load(Ordering::Relaxed));
            }
            snapshot.sum = snapshot.sum.wrapping_add(shard.sum.load(Ordering::Relaxed));
            snapshot.max = snapshot.max.max(shard.max.load(Ordering::Relaxed));
        }
        snapshot
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// A histogram as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// How many values fell in each bucket.
    pub buckets: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
    /// The largest value ever; 0 if there are none.
    pub max: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            sum: 0,
            max: 0,
        }
    }
}

impl HistogramSnapshot {
    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The mean of all values, 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// Adds another distribution to this one.
    pub fn merge(&mut self, other: &Self) {
        for (total, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *total = total.wrapping_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// What came since an earlier reading of the same histogram. The largest value is that of the
    /// highest bucket that grew, for the exact one may be older.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut found = self.clone();
        for (now, before) in found.buckets.iter_mut().zip(&earlier.buckets) {
            *now = now.saturating_sub(*before);
        }
        found.sum = self.sum.saturating_sub(earlier.sum);
        if self.max == earlier.max {
            let highest = found.buckets.iter().rposition(|count| *count > 0);
            found.max = highest.map_or(0, bucket_end).min(self.max);
        }
        found
    }

    /// The largest value that `per_mille` of 1,000 values do not exceed, as far as the buckets can
    /// tell: the end of its bucket, or the largest value of all.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let wanted = (u128::from(count) * u128::from(per_mille.min(1000))).div_ceil(1000);
        let mut seen = 0u128;
        for (bit, n) in self.buckets.iter().enumerate() {
            seen += u128::from(*n);
            if seen >= wanted.max(1) {
                return bucket_end(bit).min(self.max);
            }
        }
        self.max
    }
}

/// The largest value of a bucket.
#[must_use]
pub const fn bucket_end(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        1..64 => u64::MAX >> (64 - bucket),
        _ => u64::MAX,
    }
}
