//! Readings of the instruments as they travel from the daemon to a command.

mod family;

use base::metrics::{BUCKETS, HistogramSnapshot, Sample, Value};
use serde::{Deserialize, Serialize};

pub use family::MetricFamily;

/// One reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Dotted name, from the general to the particular (`queue.prefetch.depth`); units are its last
    /// letters (`_ns`, `bytes`).
    pub name: String,
    /// What was read.
    pub reading: Reading,
}

/// What was read of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reading {
    /// A number that only grows.
    Count(u64),
    /// A level.
    Level {
        /// Now.
        now: i64,
        /// The highest so far.
        highest: i64,
    },
    /// A distribution.
    Distribution(Distribution),
}

/// A distribution in powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Bucket and count of the buckets that are not empty: bucket `i` holds the values whose highest
    /// set bit is `i - 1`.
    pub buckets: Vec<(u8, u64)>,
    /// The sum of all values.
    pub sum: u64,
    /// The largest value.
    pub max: u64,
}

impl From<&HistogramSnapshot> for Distribution {
    fn from(found: &HistogramSnapshot) -> Self {
        let filled = (0u8..).zip(found.buckets).filter(|(_, count)| *count > 0);
        Self {
            buckets: filled.collect(),
            sum: found.sum,
            max: found.max,
        }
    }
}

impl Distribution {
    /// The same with all its buckets, for arithmetic.
    #[must_use]
    pub fn whole(&self) -> HistogramSnapshot {
        let mut found = HistogramSnapshot {
            sum: self.sum,
            max: self.max,
            ..HistogramSnapshot::default()
        };
        for (bucket, count) in &self.buckets {
            if let Some(place) = found.buckets.get_mut(usize::from(*bucket)) {
                *place = *count;
            }
        }
        found
    }

    /// What came since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self::from(&self.whole().since(&earlier.whole()))
    }
}

const _: () = assert!(BUCKETS <= u8::MAX as usize);

impl From<Sample> for Metric {
    fn from(sample: Sample) -> Self {
        let reading = match sample.value {
            Value::Counter(count) => Reading::Count(count),
            Value::Gauge { level, high_water } => Reading::Level {
                now: level,
                highest: high_water,
            },
            Value::Histogram(found) => Reading::Distribution(Distribution::from(&*found)),
        };
        Self {
            name: sample.name,
            reading,
        }
    }
}

/// All readings of one daemon.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MetricsReport {
    /// The pool.
    pub pool: String,
    /// How long the daemon has had the pool.
    pub uptime_ns: u64,
    /// The readings, by name.
    pub metrics: Vec<Metric>,
}

impl MetricsReport {
    /// These readings of one daemon.
    pub fn new<'a>(
        pool: &str,
        uptime_ns: u64,
        readings: impl IntoIterator<Item = (&'a str, Reading)>,
    ) -> Self {
        let named = |(name, reading): (&str, Reading)| Metric {
            name: name.to_owned(),
            reading,
        };
        Self {
            pool: pool.to_owned(),
            uptime_ns,
            metrics: readings.into_iter().map(named).collect(),
        }
    }

    /// What came since an earlier report of the same daemon: counts and distributions are
    /// differences, levels are as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let change = |metric: &Metric| {
            let before = earlier.find(&metric.name);
            let reading = match (&metric.reading, before) {
                (Reading::Count(now), Some(Reading::Count(before))) => {
                    Reading::Count(now.saturating_sub(*before))
                }
                (Reading::Distribution(now), Some(Reading::Distribution(before))) => {
                    Reading::Distribution(now.since(before))
                }
                (reading, _) => reading.clone(),
            };
            Metric {
                name: metric.name.clone(),
                reading,
            }
        };
        Self {
            pool: self.pool.clone(),
            uptime_ns: self.uptime_ns.saturating_sub(earlier.uptime_ns),
            metrics: self.metrics.iter().map(change).collect(),
        }
    }

    /// One reading by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Reading> {
        let place = self
            .metrics
            .binary_search_by(|metric| metric.name.as_str().cmp(name))
            .ok()?;
        self.metrics.get(place).map(|metric| &metric.reading)
    }

    /// Only what has one of the words in its name; all of it if there are none.
    pub fn keep(&mut self, words: &[String]) {
        if !words.is_empty() {
            self.metrics
                .retain(|metric| words.iter().any(|word| metric.name.contains(word.as_str())));
        }
    }
}

/// What a pool's devices did, for `zpool iostat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoReport {
    /// The pool.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// How long the daemon has had the pool.
    pub uptime_ns: u64,
    /// Bytes that normal and special devices have.
    pub size: u64,
    /// Bytes of them in use.
    pub allocated: u64,
    /// The top-level vdevs of all classes.
    pub vdevs: Vec<crate::VdevReport>,
    /// What each leaf did, by guid.
    pub leaves: Vec<(u64, LeafIo)>,
}

/// What a leaf did, by class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeafIo {
    /// Reads that someone waits for.
    pub sync_read: ClassIo,
    /// Writes that someone waits for.
    pub sync_write: ClassIo,
    /// Read-ahead.
    pub async_read: ClassIo,
    /// Data of txgs.
    pub async_write: ClassIo,
    /// Scrub and resilver.
    pub scan: ClassIo,
    /// Giving space back.
    pub trim: ClassIo,
}

/// What a leaf did in one class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClassIo {
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that wait for their turn now.
    pub pending: u64,
    /// Operations on the device now.
    pub active: u64,
    /// How long the device took, in nanoseconds; one entry an operation.
    pub disk_ns: Distribution,
    /// How long they waited for their turn, in nanoseconds.
    pub queue_ns: Distribution,
    /// Both together.
    pub total_ns: Distribution,
    /// Sizes of operations of one block, in bytes.
    pub single_bytes: Distribution,
    /// Sizes of operations that were merged from several blocks, in bytes.
    pub merged_bytes: Distribution,
}

impl LeafIo {
    /// Every class, in the order of [`vdev::IoClass::ALL`].
    pub fn classes_mut(&mut self) -> [&mut ClassIo; 6] {
        [
            &mut self.sync_read,
            &mut self.sync_write,
            &mut self.async_read,
            &mut self.async_write,
            &mut self.scan,
            &mut self.trim,
        ]
    }

    /// What came since an earlier reading; levels are as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut found = self.clone();
        let mut earlier = earlier.clone();
        for (now, before) in found.classes_mut().into_iter().zip(earlier.classes_mut()) {
            now.bytes = now.bytes.saturating_sub(before.bytes);
            for (now, before) in now
                .distributions_mut()
                .into_iter()
                .zip(before.distributions_mut())
            {
                *now = now.since(before);
            }
        }
        found
    }

    /// Adds what another leaf did.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (sum, more) in self.classes_mut().into_iter().zip(other.classes_mut()) {
            sum.bytes += more.bytes;
            sum.pending += more.pending;
            sum.active += more.active;
            for (sum, more) in sum
                .distributions_mut()
                .into_iter()
                .zip(more.distributions_mut())
            {
                let mut whole = sum.whole();
                whole.merge(&more.whole());
                *sum = Distribution::from(&whole);
            }
        }
    }
}

impl ClassIo {
    fn distributions_mut(&mut self) -> [&mut Distribution; 5] {
        [
            &mut self.disk_ns,
            &mut self.queue_ns,
            &mut self.total_ns,
            &mut self.single_bytes,
            &mut self.merged_bytes,
        ]
    }

    /// How many operations there were.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk_ns.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl IoReport {
    /// What came since an earlier report of the same pool.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut found = self.clone();
        found.uptime_ns = self.uptime_ns.saturating_sub(earlier.uptime_ns);
        for (guid, leaf) in &mut found.leaves {
            if let Some((_, before)) = earlier.leaves.iter().find(|(other, _)| other == guid) {
                *leaf = leaf.since(before);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
