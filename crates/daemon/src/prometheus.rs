//! The instruments in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use admin::{Distribution, MetricFamily as Family, MetricsReport, Reading};
use base::metrics::bucket_end;

#[cfg(test)]
mod tests;

/// The reports in the text format of Prometheus (version 0.0.4): times in seconds, every sample with
/// its pool.
#[must_use]
pub fn prometheus(reports: &[MetricsReport]) -> String {
    // Samples of one name must stand together under one type.
    let mut families: BTreeMap<String, (&'static str, String)> = BTreeMap::new();
    for report in reports {
        for metric in &report.metrics {
            let (base, labels) = prometheus_name(&report.pool, &metric.name);
            match &metric.reading {
                Reading::Count(count) => {
                    let entry = families.entry(format!("{base}_total")).or_default();
                    entry.0 = "counter";
                    let _ = writeln!(entry.1, "{base}_total{{{labels}}} {count}");
                }
                Reading::Level { now, highest } => {
                    for (name, level) in [(base.clone(), now), (format!("{base}_highest"), highest)]
                    {
                        let entry = families.entry(name.clone()).or_default();
                        entry.0 = "gauge";
                        let _ = writeln!(entry.1, "{name}{{{labels}}} {level}");
                    }
                }
                Reading::Distribution(found) => {
                    let (name, seconds) = match base.strip_suffix("_ns") {
                        Some(name) => (format!("{name}_seconds"), true),
                        None => (base, false),
                    };
                    let entry = families.entry(name.clone()).or_default();
                    entry.0 = "histogram";
                    prometheus_histogram(&name, &labels, found, seconds, &mut entry.1);
                }
            }
        }
    }
    let mut out = String::new();
    for (name, (kind, samples)) in families {
        let _ = writeln!(out, "# TYPE {name} {kind}");
        out += &samples;
    }
    out
}

fn prometheus_name(pool: &str, name: &str) -> (String, String) {
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

fn prometheus_histogram(
    name: &str,
    labels: &str,
    found: &Distribution,
    seconds: bool,
    out: &mut String,
) {
    let scaled = |value: u64| {
        if seconds {
            (value as f64 / 1e9).to_string()
        } else {
            value.to_string()
        }
    };
    let mut seen = 0u64;
    for (bucket, count) in &found.buckets {
        seen += count;
        let end = scaled(bucket_end(usize::from(*bucket)));
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {seen}");
    }
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {seen}");
    let _ = writeln!(out, "{name}_sum{{{labels}}} {}", scaled(found.sum));
    let _ = writeln!(out, "{name}_count{{{labels}}} {seen}");
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
