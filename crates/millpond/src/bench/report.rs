//! The results as a table or as JSON.

mod html;

use serde_json::{Value, json};

use super::measure::{Phase, Times};
use crate::render::{Column, aligned};

pub(super) use html::html;

/// A scenario that ran.
pub(super) struct Outcome {
    pub(super) scenario: &'static str,
    /// Its parameters, as they are said.
    pub(super) parameters: Vec<(&'static str, u64)>,
    pub(super) phases: Vec<Phase>,
    /// The device alone, before and after; none if it could not be asked.
    pub(super) probes: Option<[Times; 2]>,
    /// What should be known to read the figures.
    pub(super) notes: Vec<String>,
}

impl Outcome {
    /// The device's write-and-flush latency: the median of both probes.
    fn device_ns(&self) -> Option<u64> {
        self.probes.as_ref().map(|[before, after]| {
            let mut both = before.clone();
            both.merge(after);
            both.quantile_ns(500)
        })
    }

    /// How far the two probes are apart: 1.0 is not at all.
    fn drift(&self) -> Option<f64> {
        self.probes.as_ref().map(|[before, after]| {
            after.quantile_ns(500) as f64 / before.quantile_ns(500).max(1) as f64
        })
    }
}

fn microseconds(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{}.{:02}", ns / 1000, ns % 1000 / 10),
        10_000..100_000 => format!("{}.{}", ns / 1000, ns % 1000 / 100),
        _ => (ns / 1000).to_string(),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A table of the phases; times in microseconds.
pub(super) fn table(outcome: &Outcome) -> String {
    let parameters: Vec<String> = outcome
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let mut out = format!("{}: {}\n\n", outcome.scenario, parameters.join(", "));
    let titles = [
        "PHASE", "COUNT", "SECONDS", "PER_S", "MB/S", "P50_us", "P99_us", "P99.9_us", "MAX_us",
        "WORST_S",
    ];
    let columns: Vec<Column> = titles
        .iter()
        .enumerate()
        .map(|(at, title)| {
            if at == 0 {
                Column::left(title)
            } else {
                Column::right(title)
            }
        })
        .collect();
    let rows: Vec<Vec<String>> = outcome.phases.iter().map(row).collect();
    out += &aligned(&columns, &rows);
    if let (Some(device_ns), Some(drift)) = (outcome.device_ns(), outcome.drift()) {
        out += &format!(
            "\ndevice alone, 8 KiB and fdatasync: F = {} us; second probe {} of the first\n",
            microseconds(device_ns),
            three_digits(drift)
        );
        for phase in outcome.phases.iter().filter(|phase| phase.name == "fsync") {
            let ratio = |per_mille| {
                three_digits(
                    phase.tally.times.quantile_ns(per_mille) as f64 / device_ns.max(1) as f64,
                )
            };
            out += &format!(
                "fsync: p50 {} F, p99 {} F, p99.9 {} F\n",
                ratio(500),
                ratio(990),
                ratio(999)
            );
        }
    }
    for note in &outcome.notes {
        out += &format!("note: {note}\n");
    }
    out
}

fn row(phase: &Phase) -> Vec<String> {
    let times = &phase.tally.times;
    let quantile = |per_mille| microseconds(times.quantile_ns(per_mille));
    vec![
        phase.name.to_owned(),
        times.count().to_string(),
        format!("{:.3}", phase.took.as_secs_f64()),
        three_digits(phase.per_second()),
        if phase.tally.bytes == 0 {
            "-".to_owned()
        } else {
            three_digits(phase.mb_per_second())
        },
        quantile(500),
        quantile(990),
        quantile(999),
        microseconds(times.max_ns()),
        phase
            .worst_window()
            .map_or_else(|| "-".to_owned(), |worst| format!("{worst:.2}")),
    ]
}

fn times_json(times: &Times) -> Value {
    let us = |ns: u64| ns as f64 / 1000.0;
    json!({
        "count": times.count(),
        "p50_us": us(times.quantile_ns(500)), "p99_us": us(times.quantile_ns(990)),
        "p999_us": us(times.quantile_ns(999)), "max_us": us(times.max_ns()),
    })
}

/// One line of JSON.
pub(super) fn json(outcome: &Outcome) -> String {
    let phases: Vec<Value> = outcome
        .phases
        .iter()
        .map(|phase| {
            let mut found = times_json(&phase.tally.times);
            let more = [
                ("name", json!(phase.name)),
                ("seconds", json!(phase.took.as_secs_f64())),
                ("per_second", json!(phase.per_second())),
                ("bytes", json!(phase.tally.bytes)),
                ("mb_per_second", json!(phase.mb_per_second())),
                ("windows", json!(phase.windows())),
                ("worst_window", json!(phase.worst_window())),
            ];
            if let Some(found) = found.as_object_mut() {
                found.extend(more.map(|(name, value)| (name.to_owned(), value)));
            }
            found
        })
        .collect();
    let parameters: serde_json::Map<String, Value> = outcome
        .parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let probe = outcome.probes.as_ref().map(|[before, after]| {
        json!({
            "before": times_json(before), "after": times_json(after),
            "f_us": outcome.device_ns().unwrap_or(0) as f64 / 1000.0, "drift": outcome.drift(),
        })
    });
    let whole = json!({
        "scenario": outcome.scenario, "parameters": parameters, "phases": phases,
        "device": probe, "notes": outcome.notes,
    });
    whole.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::measure::Tally;
    use super::*;
    use std::time::{Duration, Instant};

    fn outcome() -> Outcome {
        let mut tally = Tally::new(Instant::now());
        tally.bytes = 5_000_000;
        tally.times.add(Duration::from_micros(150));
        tally.times.add(Duration::from_micros(300));
        let mut probe = Times::default();
        probe.add(Duration::from_micros(100));
        Outcome {
            scenario: "varmail",
            parameters: vec![("threads", 2)],
            phases: vec![Phase::took("fsync", Duration::from_secs(2), tally)],
            probes: Some([probe.clone(), probe]),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_table_relates_fsync_to_the_device() {
        let text = table(&outcome());
        assert!(text.starts_with("varmail: threads 2\n\nPHASE"), "{text}");
        assert!(
            text.contains("F = 100 us; second probe 1.00 of the first"),
            "{text}"
        );
        assert!(text.contains("fsync: p50 1.5"), "{text}");
    }

    #[test]
    fn the_html_stands_alone() {
        let text = html(&outcome());
        assert!(
            text.contains("<polyline class=\"line\" points=\"60.0,"),
            "{text}"
        );
        assert!(text.contains("varmail: threads 2"));
        assert!(!text.contains("http"), "nothing from elsewhere");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn json_has_the_same() {
        let found: Value = serde_json::from_str(&json(&outcome())).unwrap();
        assert_eq!(found["parameters"]["threads"], 2);
        assert_eq!(found["phases"][0]["count"], 2);
        assert_eq!(found["phases"][0]["mb_per_second"], 2.5);
        assert_eq!(found["phases"][0]["max_us"], 300.0);
        assert_eq!(found["device"]["f_us"], 100.0);
    }
}
