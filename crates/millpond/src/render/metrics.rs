//! `millpond stat`: the instruments as tables and as JSON.

use std::collections::BTreeMap;

use admin::{Distribution, IoReport, Metric, MetricFamily as Family, MetricsReport, Reading};
use base::metrics::bucket_end;
use serde_json::{Map, Value, json};

use super::table::{Column, aligned};

mod summary;

#[cfg(test)]
mod tests;

/// How the tables are made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MetricsTable {
    /// What never moved, too.
    pub(crate) all: bool,
    /// Locks and queues, too.
    pub(crate) locks: bool,
}

/// The readings, by how they are shown.
#[derive(Default)]
struct Sections<'a> {
    locks: Rows<'a>,
    queues: Rows<'a>,
    distributions: Vec<Vec<String>>,
    levels: Vec<Vec<String>>,
    counts: Vec<Vec<String>>,
}

impl<'a> Sections<'a> {
    fn add(&mut self, metric: &'a Metric, time_ns: u64) {
        let Metric { name, reading } = metric;
        match (Family::of(name), reading) {
            (Family::Lock { class, what }, _) => {
                self.locks.entry(class).or_default().insert(what, reading);
            }
            (Family::Queue { queue, what }, _) => {
                self.queues.entry(queue).or_default().insert(what, reading);
            }
            (_, Reading::Distribution(found)) => {
                self.distributions.push(distribution_row(name, found));
            }
            (_, Reading::Level { now, highest }) => {
                let levels = [now, highest].map(ToString::to_string);
                self.levels.push(row(name, levels));
            }
            (_, Reading::Count(count)) => {
                let figures = [count.to_string(), per_second(*count, time_ns)];
                self.counts.push(row(name, figures));
            }
        }
    }
}

const LOCKS: &[&str] = &[
    "LOCK",
    "TAKEN",
    "CONTENDED",
    "WAIT_P99",
    "WAIT_MAX",
    "HELD_P99",
    "HELD_MAX",
];
const QUEUES: &[&str] = &[
    "QUEUE", "CAPACITY", "DEPTH", "HIGHEST", "PUSHED", "HELPS", "WAITS",
];
const DISTRIBUTIONS: &[&str] = &[
    "DISTRIBUTION",
    "COUNT",
    "MEAN",
    "P50",
    "P99",
    "P99.9",
    "MAX",
];
const LEVELS: &[&str] = &["LEVEL", "NOW", "HIGHEST"];
const COUNTS: &[&str] = &["COUNT", "TOTAL", "PER_SECOND"];
const RATIOS: &[&str] = &["RATIO", "VALUE"];

/// What follows from several readings; a ratio whose denominator is 0 is left out.
fn ratios(report: &MetricsReport) -> Vec<(&'static str, f64)> {
    let count = |name: &str| match report.find(name) {
        Some(Reading::Count(count)) => *count as f64,
        _ => 0.0,
    };
    // All of the time that callers spent in fsync, over the time: how many of them at once.
    let fsync_ns = match report.find("log.fsync_ns") {
        Some(Reading::Distribution(found)) => found.sum as f64,
        _ => 0.0,
    };
    let outstanding = fsync_ns / (report.uptime_ns.max(1) as f64);
    let asked = count("cache.hits") + count("cache.misses");
    let all = [
        ("cache hits of lookups", count("cache.hits"), asked),
        (
            "prefetch hits of issued",
            count("prefetch.hit"),
            count("prefetch.issued"),
        ),
        (
            "device bytes of bytes written by users",
            count("bytes.device_written"),
            count("bytes.user_written"),
        ),
        (
            "log bytes of bytes written by users",
            count("bytes.log"),
            count("bytes.user_written"),
        ),
        (
            "fsyncs of a device flush",
            count("log.commits"),
            count("log.flushes"),
        ),
        (
            "group factor: fsyncs of a flush, of those at once",
            count("log.commits") / count("log.flushes").max(1.0),
            outstanding,
        ),
    ];
    let defined = all.into_iter().filter(|(_, _, below)| *below > 0.0);
    defined
        .map(|(name, above, below)| (name, above / below))
        .collect()
}

/// The tables of one pool: what it does in a few lines if `io` is given, then locks, queues, distributions, levels,
/// counts. Counts are followed by their rate in the time of the report.
#[must_use]
pub(crate) fn metrics_table(
    report: &MetricsReport,
    io: Option<&IoReport>,
    options: MetricsTable,
) -> String {
    let mut found = Sections::default();
    for metric in report.metrics.iter().filter(|m| options.all || moved(m)) {
        found.add(metric, report.uptime_ns);
    }
    let ratio_rows = ratios(report)
        .into_iter()
        .map(|(name, value)| row(name, [format!("{value:.3}")]))
        .collect();
    if !options.locks {
        found.locks.clear();
        found.queues.clear();
    }
    let sections = [
        (LOCKS, lock_rows(&found.locks)),
        (QUEUES, queue_rows(&found.queues)),
        (DISTRIBUTIONS, found.distributions),
        (LEVELS, found.levels),
        (COUNTS, found.counts),
        (RATIOS, ratio_rows),
    ];
    let mut out = format!("pool: {}\n", report.pool);
    if let Some(io) = io {
        out += &summary::summary(report, io);
    }
    for (titles, rows) in sections {
        if rows.is_empty() {
            continue;
        }
        out += &titled(titles, &rows);
    }
    out
}

/// A table below an empty line: names, and figures behind them.
fn titled(titles: &[&str], rows: &[Vec<String>]) -> String {
    let column = |(at, title): (usize, &&str)| match at {
        0 => Column::left(title),
        _ => Column::right(title),
    };
    let columns: Vec<Column> = titles.iter().enumerate().map(column).collect();
    "\n".to_owned() + &aligned(&columns, rows)
}

fn row<const N: usize>(name: &str, figures: [String; N]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(figures).collect()
}

type Rows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Reading>>;

fn moved(metric: &Metric) -> bool {
    match &metric.reading {
        Reading::Count(count) => *count > 0,
        Reading::Level { now, highest } => *now != 0 || *highest != 0,
        Reading::Distribution(found) => !found.buckets.is_empty(),
    }
}

fn lock_rows(locks: &Rows<'_>) -> Vec<Vec<String>> {
    locks
        .iter()
        .map(|(class, found)| {
            let time = |what: &str, per_mille: Option<u64>| match found.get(what) {
                Some(Reading::Distribution(found)) => {
                    let whole = found.whole();
                    time_text(per_mille.map_or(whole.max, |part| whole.quantile(part)))
                }
                _ => "-".to_owned(),
            };
            vec![
                (*class).to_owned(),
                count(found.get("acquisitions").copied()),
                count(found.get("contended").copied()),
                time("wait_ns", Some(990)),
                time("wait_ns", None),
                time("hold_ns", Some(990)),
                time("hold_ns", None),
            ]
        })
        .collect()
}

fn queue_rows(queues: &Rows<'_>) -> Vec<Vec<String>> {
    queues
        .iter()
        .map(|(queue, found)| {
            let highest = match found.get("depth") {
                Some(Reading::Level { highest, .. }) => highest.to_string(),
                _ => "0".to_owned(),
            };
            let [capacity, depth, pushed, helps, waits] = [
                "capacity",
                "depth",
                "pushed",
                "producer_helps",
                "producer_waits",
            ]
            .map(|what| count(found.get(what).copied()));
            vec![
                (*queue).to_owned(),
                capacity,
                depth,
                highest,
                pushed,
                helps,
                waits,
            ]
        })
        .collect()
}

fn count(reading: Option<&Reading>) -> String {
    match reading {
        Some(Reading::Count(count)) => count.to_string(),
        Some(Reading::Level { now, .. }) => now.to_string(),
        _ => "0".to_owned(),
    }
}

fn distribution_row(name: &str, found: &Distribution) -> Vec<String> {
    let whole = found.whole();
    let is_time = name.ends_with("_ns");
    let text = |value: u64| {
        if is_time {
            time_text(value)
        } else {
            admin::human(value)
        }
    };
    vec![
        name.to_owned(),
        whole.count().to_string(),
        text(whole.mean()),
        text(whole.quantile(500)),
        text(whole.quantile(990)),
        text(whole.quantile(999)),
        text(whole.max),
    ]
}

fn per_second(amount: u64, time_ns: u64) -> String {
    let tenths = u128::from(amount) * 10_000_000_000 / u128::from(time_ns.max(1));
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// A time in three digits: `512ns`, `1.53us`, `16.7ms`, `137s`.
fn time_text(ns: u64) -> String {
    let (unit, scale) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let (whole, rest) = (ns / scale, ns % scale);
    match whole {
        0..10 => format!("{whole}.{:02}{unit}", rest * 100 / scale),
        10..100 => format!("{whole}.{}{unit}", rest * 10 / scale),
        _ => format!("{whole}{unit}"),
    }
}

/// The report as JSON: every metric under its name, distributions with their buckets' ends.
#[must_use]
pub(crate) fn metrics_json(reports: &[MetricsReport]) -> String {
    let mut pools = Map::new();
    for report in reports {
        let mut metrics = Map::new();
        for metric in &report.metrics {
            metrics.insert(metric.name.clone(), reading_json(&metric.reading));
        }
        let seconds = report.uptime_ns as f64 / 1e9;
        let ratios: Map<String, Value> = ratios(report)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let pool = json!({ "seconds": seconds, "metrics": metrics, "ratios": ratios });
        pools.insert(report.pool.clone(), pool);
    }
    let whole = json!({
        "output_version": { "command": "millpond stat", "vers_major": 0, "vers_minor": 1 },
        "pools": pools,
    });
    whole.to_string() + "\n"
}

fn reading_json(reading: &Reading) -> Value {
    match reading {
        Reading::Count(count) => json!(count),
        Reading::Level { now, highest } => json!({ "now": now, "highest": highest }),
        Reading::Distribution(found) => {
            let whole = found.whole();
            let buckets: Vec<Value> = found
                .buckets
                .iter()
                .map(|(bucket, count)| json!([bucket_end(usize::from(*bucket)), count]))
                .collect();
            json!({
                "count": whole.count(), "sum": found.sum, "mean": whole.mean(),
                "p50": whole.quantile(500), "p99": whole.quantile(990),
                "p999": whole.quantile(999), "max": found.max, "buckets": buckets,
            })
        }
    }
}
