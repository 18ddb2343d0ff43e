//! The instruments, and what a pool says of itself, in the text format of Prometheus.

mod health;
mod help;

pub(crate) use health::properties as dataset_properties;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use admin::{
    DatasetRow, Distribution, IoReport, Metric, MetricFamily as Family, MetricsReport, PoolStatus,
    Reading,
};
use base::metrics::bucket_end;

#[cfg(test)]
mod tests;

/// Buckets that are shown: from half a microsecond to two minutes, from 512 bytes to all that counts.
const SHOWN_BUCKETS: std::ops::RangeInclusive<usize> = 9..=37;

/// Which distributions are told bucket by bucket. A pool has hundreds of them (five for each class of I/O of each
/// device, two for each class of locks), and each is some thirty series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buckets {
    /// Those of requests of the kernel, of devices by class of I/O (how long programs waited), and what there is once
    /// in a pool. Of the others sum and count are told; of classes of locks that nobody had to wait for, nothing.
    #[default]
    Usual,
    /// All of them.
    All,
}

impl Buckets {
    fn are_told(self, name: &str) -> bool {
        match (self, Family::of(name)) {
            (Self::All, _) => true,
            (Self::Usual, Family::Lock { .. } | Family::Queue { .. }) => false,
            (Self::Usual, Family::Device { class, what, .. }) => {
                class.is_none() || what == "total_ns"
            }
            (Self::Usual, Family::Fuse { .. } | Family::Other) => true,
        }
    }
}

/// Samples of one name.
#[derive(Default)]
struct Samples {
    kind: &'static str,
    help: String,
    lines: String,
}

/// All samples, by name: those of one name must stand together under one type.
#[derive(Default)]
struct Families(BTreeMap<String, Samples>);

impl Families {
    fn of(&mut self, name: &str, kind: &'static str, help: impl FnOnce() -> String) -> &mut String {
        let found = self.0.entry(name.to_owned()).or_insert_with(|| Samples {
            kind,
            help: help(),
            lines: String::new(),
        });
        &mut found.lines
    }

    fn text(self) -> String {
        let mut out = String::new();
        for (name, Samples { kind, help, lines }) in self.0 {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
            // One line's end too many: every sample has its own.
            out.pop();
        }
        out
    }
}

/// What a pool says of itself, for Prometheus.
#[derive(Debug, Default)]
pub struct Readings {
    /// The instruments.
    pub metrics: Vec<MetricsReport>,
    /// The pool's health.
    pub status: Option<PoolStatus>,
    /// The pool's space.
    pub io: Option<IoReport>,
    /// The datasets with what they use.
    pub datasets: Vec<DatasetRow>,
}

/// The readings in the text format of Prometheus (version 0.0.4): times in seconds, every sample with
/// its pool.
#[must_use]
pub fn prometheus(readings: &Readings, buckets: Buckets) -> String {
    let mut families = Families::default();
    let devices = health::devices(readings.status.as_ref());
    for report in &readings.metrics {
        let waited = waited_for(report);
        let is_told = |metric: &&Metric| match Family::of(&metric.name) {
            Family::Lock { class, .. } => buckets == Buckets::All || waited.contains(class),
            Family::Queue { .. } | Family::Device { .. } | Family::Fuse { .. } | Family::Other => {
                true
            }
        };
        for metric in report.metrics.iter().filter(is_told) {
            instrument(&mut families, &report.pool, metric, &devices, buckets);
        }
    }
    health::add(&mut families, readings);
    families.text()
}

/// The classes of locks that somebody had to wait for: a few of hundreds. Once waited for, one stays.
fn waited_for(report: &MetricsReport) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for metric in &report.metrics {
        if let Family::Lock { class, what } = Family::of(&metric.name)
            && what == "contended"
            && matches!(metric.reading, Reading::Count(1..))
        {
            found.insert(class);
        }
    }
    found
}

fn instrument(
    families: &mut Families,
    pool: &str,
    metric: &Metric,
    devices: &BTreeMap<String, String>,
    buckets: Buckets,
) {
    let (base, labels) = prometheus_name(pool, &metric.name, devices);
    let help = || help::instrument(&metric.name);
    let (base, seconds) = match base.strip_suffix("_ns") {
        Some(name) => (format!("{name}_seconds"), true),
        None => (base, false),
    };
    match &metric.reading {
        Reading::Count(count) => {
            let name = format!("{base}_total");
            let lines = families.of(&name, "counter", help);
            let _ = writeln!(lines, "{name}{{{labels}}} {}", scaled(*count, seconds));
        }
        Reading::Level { now, highest } => {
            let lines = families.of(&base, "gauge", help);
            let _ = writeln!(lines, "{base}{{{labels}}} {}", scaled(*now, seconds));
            let name = format!("{base}_highest");
            let lines = families.of(&name, "gauge", || help() + " The highest so far.");
            let _ = writeln!(lines, "{name}{{{labels}}} {}", scaled(*highest, seconds));
        }
        Reading::Distribution(found) if buckets.are_told(&metric.name) => {
            let lines = families.of(&base, "histogram", help);
            prometheus_buckets(&base, &labels, found, seconds, lines);
            prometheus_sum(&base, &labels, found, seconds, lines);
        }
        Reading::Distribution(found) => {
            let lines = families.of(&base, "summary", help);
            prometheus_sum(&base, &labels, found, seconds, lines);
        }
    }
}

/// A value as it is, or nanoseconds in seconds.
fn scaled(value: impl Into<i128>, seconds: bool) -> String {
    let value = value.into();
    if seconds {
        (value as f64 / 1e9).to_string()
    } else {
        value.to_string()
    }
}

fn prometheus_name(pool: &str, name: &str, devices: &BTreeMap<String, String>) -> (String, String) {
    let mut labels = format!("pool=\"{}\"", escape(pool));
    let mut label = |key: &str, value: &str| {
        let _ = write!(labels, ",{key}=\"{}\"", escape(value));
    };
    let base = match Family::of(name) {
        Family::Lock { class, what } => {
            label("class", class);
            format!("lock_{what}")
        }
        Family::Queue { queue, what } => {
            label("queue", queue);
            format!("queue_{what}")
        }
        Family::Device { vdev, class, what } => {
            label("vdev", vdev);
            if let Some(path) = devices.get(vdev) {
                label("path", path);
            }
            match class {
                Some(class) => {
                    label("class", class);
                    format!("vdev_class_{what}")
                }
                None => format!("vdev_{what}"),
            }
        }
        Family::Fuse { operation } => {
            label("operation", operation);
            "fuse_latency_ns".to_owned()
        }
        Family::Other => name.to_owned(),
    };
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let base: String = base.chars().map(plain).collect();
    (format!("millpond_{base}"), labels)
}

fn prometheus_buckets(
    name: &str,
    labels: &str,
    found: &Distribution,
    seconds: bool,
    out: &mut String,
) {
    // The same buckets each time, whether anything is in them or not: rates are taken of each.
    let found_buckets = found.whole().buckets;
    let mut seen = 0u64;
    for (bucket, count) in found_buckets.iter().enumerate() {
        seen += count;
        if SHOWN_BUCKETS.contains(&bucket) {
            let end = scaled(bucket_end(bucket), seconds);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {seen}");
        }
    }
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {seen}");
}

fn prometheus_sum(name: &str, labels: &str, found: &Distribution, seconds: bool, out: &mut String) {
    let count: u64 = found.buckets.iter().map(|(_, count)| count).sum();
    let sum = scaled(found.sum, seconds);
    let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
    let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
