//! The one list of everything that can be watched.

use super::{Counter, Gauge, Histogram, HistogramSnapshot};
use crate::lock::LockClass;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, OnceLock, Weak};

/// One reading of one metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that only grows.
    Counter(u64),
    /// A level and the highest it ever was.
    Gauge {
        /// The level now.
        level: i64,
        /// The highest level so far.
        high_water: i64,
    },
    /// A distribution.
    Histogram(Box<HistogramSnapshot>),
}

impl Value {
    /// Joins the readings of two metrics of the same name (two mounts have a queue of the same
    /// name): counts and levels are summed. Of different kinds, the first stays.
    fn join(&mut self, other: Self) {
        match (self, other) {
            (Self::Counter(sum), Self::Counter(more)) => *sum = sum.wrapping_add(more),
            (
                Self::Gauge { level, high_water },
                Self::Gauge {
                    level: more,
                    high_water: higher,
                },
            ) => {
                *level = level.wrapping_add(more);
                *high_water = (*high_water).max(higher);
            }
            (Self::Histogram(sum), Self::Histogram(more)) => sum.merge(&more),
            (Self::Counter(_), Self::Gauge { .. } | Self::Histogram(_))
            | (Self::Gauge { .. }, Self::Counter(_) | Self::Histogram(_))
            | (Self::Histogram(_), Self::Counter(_) | Self::Gauge { .. }) => {}
        }
    }
}

/// A named reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Dotted name, from the general to the particular (`vdev.queue.merged`).
    pub name: String,
    /// What was read.
    pub value: Value,
}

/// Something that owns several metrics and comes and goes (a queue, a leaf, a pool).
pub trait Source: Send + Sync {
    /// Hands each reading to `sink` with a name relative to the source's own.
    fn collect(&self, sink: &mut dyn FnMut(&str, Value));
}

#[derive(Clone)]
enum Metric {
    Counter(Arc<Counter>),
    Gauge(Arc<Gauge>),
    Histogram(Arc<Histogram>),
}

#[derive(Default)]
struct Lists {
    metrics: BTreeMap<String, Metric>,
    sources: Vec<(String, Weak<dyn Source>)>,
    /// With so many sources, those that are gone are looked for.
    clean_at: usize,
    lock_classes: Vec<&'static LockClass>,
}

/// So many sources are no reason to look for those that are gone.
const CLEAN_MIN: usize = 256;

/// See [`registry`].
#[derive(Default)]
pub struct Registry {
    // A plain lock: ranked locks register themselves here.
    lists: parking_lot::Mutex<Lists>,
}

/// The process's registry.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::default)
}

impl Registry {
    /// The counter called `name`, made when first asked for. Keep the answer: this takes a lock.
    ///
    /// A name that already belongs to another kind of metric gives an unlisted counter.
    #[must_use]
    pub fn counter(&self, name: &str) -> Arc<Counter> {
        let mut lists = self.lists.lock();
        let entry = lists.metrics.entry(name.to_owned());
        match entry.or_insert_with(|| Metric::Counter(Arc::default())) {
            Metric::Counter(counter) => Arc::clone(counter),
            Metric::Gauge(_) | Metric::Histogram(_) => Arc::default(),
        }
    }

    /// The gauge called `name`; see [`Registry::counter`].
    #[must_use]
    pub fn gauge(&self, name: &str) -> Arc<Gauge> {
        let mut lists = self.lists.lock();
        let entry = lists.metrics.entry(name.to_owned());
        match entry.or_insert_with(|| Metric::Gauge(Arc::default())) {
            Metric::Gauge(gauge) => Arc::clone(gauge),
            Metric::Counter(_) | Metric::Histogram(_) => Arc::default(),
        }
    }

    /// The histogram called `name`; see [`Registry::counter`].
    #[must_use]
    pub fn histogram(&self, name: &str) -> Arc<Histogram> {
        let mut lists = self.lists.lock();
        let entry = lists.metrics.entry(name.to_owned());
        match entry.or_insert_with(|| Metric::Histogram(Arc::default())) {
            Metric::Histogram(histogram) => Arc::clone(histogram),
            Metric::Counter(_) | Metric::Gauge(_) => Arc::default(),
        }
    }

    /// Lists a source for as long as it lives.
    pub fn add_source(&self, name: impl Into<String>, source: &Arc<impl Source + 'static>) {
        let source: Weak<dyn Source> = Arc::downgrade(&(Arc::clone(source) as Arc<dyn Source>));
        let mut lists = self.lists.lock();
        // Not each time: there may be thousands, and more each time.
        if lists.sources.len() >= lists.clean_at {
            lists.sources.retain(|(_, old)| old.strong_count() > 0);
            lists.clean_at = (2 * lists.sources.len()).max(CLEAN_MIN);
        }
        lists.sources.push((name.into(), source));
    }

    pub(crate) fn add_lock_class(&self, class: &'static LockClass) {
        self.lists.lock().lock_classes.push(class);
    }

    /// Reads everything, by name.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Sample> {
        // Sources are read after the lock is dropped: they may take locks of their own.
        let (metrics, sources, classes) = {
            let lists = self.lists.lock();
            (
                lists.metrics.clone(),
                lists.sources.clone(),
                lists.lock_classes.clone(),
            )
        };
        let mut samples = BTreeMap::new();
        for (name, metric) in metrics {
            let value = match metric {
                Metric::Counter(counter) => Value::from(&*counter),
                Metric::Gauge(gauge) => Value::from(&*gauge),
                Metric::Histogram(histogram) => Value::from(&*histogram),
            };
            put(&mut samples, name, value);
        }
        for (prefix, source) in sources {
            if let Some(source) = source.upgrade() {
                source.collect(&mut |name, value| {
                    put(&mut samples, format!("{prefix}.{name}"), value);
                });
            }
        }
        for class in classes {
            let name = class.name();
            class.collect(&mut |what, value| {
                put(&mut samples, format!("lock.{name}.{what}"), value);
            });
        }
        super::flow().collect(&mut |name, value| {
            put(&mut samples, format!("bytes.{name}"), value);
        });
        samples
            .into_iter()
            .map(|(name, value)| Sample { name, value })
            .collect()
    }
}

fn put(samples: &mut BTreeMap<String, Value>, name: String, value: Value) {
    match samples.entry(name) {
        Entry::Vacant(place) => {
            place.insert(value);
        }
        Entry::Occupied(mut present) => present.get_mut().join(value),
    }
}

/// The reading of a gauge.
fn gauge_value(gauge: &Gauge) -> Value {
    Value::Gauge {
        level: gauge.get(),
        high_water: gauge.high_water(),
    }
}

impl From<&Gauge> for Value {
    fn from(gauge: &Gauge) -> Self {
        gauge_value(gauge)
    }
}

impl From<&Counter> for Value {
    fn from(counter: &Counter) -> Self {
        Self::Counter(counter.get())
    }
}

impl From<&Histogram> for Value {
    fn from(histogram: &Histogram) -> Self {
        Self::Histogram(Box::new(histogram.snapshot()))
    }
}
