//! The results as a table or as JSON.

mod charts;
mod compared;
mod html;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::measure::{Phase, Times};
use super::surroundings::Surroundings;
use crate::render::{Column, aligned};

pub(super) use compared::Compared;
pub(super) use html::html;

/// A device of which one probe takes so many times as long as the other is not to be relied on.
const STEADY: f64 = 1.5;

/// A scenario that ran.
pub(super) struct Outcome {
    pub(super) scenario: &'static str,
    /// Its parameters, as they are said.
    pub(super) parameters: Vec<(&'static str, u64)>,
    pub(super) surroundings: Surroundings,
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

    /// That figures in F mean little, if so.
    fn unreliable(&self) -> Option<String> {
        let drift = self.drift()?;
        let unsteady = !(STEADY.recip()..=STEADY).contains(&drift);
        unsteady.then(|| {
            let drift = three_digits(drift);
            let means = "figures in F mean little";
            format!("the device is unreliable: afterwards it took {drift} times as long as before; {means}")
        })
    }
}

/// The latencies that the chart's curve goes through.
fn quantiles_ns(phase: &Phase) -> Vec<f64> {
    let points = charts::QUANTILES.iter();
    points
        .map(|(per_mille, _)| phase.tally.times.quantile_ns(*per_mille) as f64)
        .collect()
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
    let mut out = format!("{}: {}\n", outcome.scenario, parameters.join(", "));
    for line in outcome.surroundings.lines() {
        out += &format!("{line}\n");
    }
    out.push('\n');
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
    for note in outcome.unreliable().iter().chain(&outcome.notes) {
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
                ("quantiles_ns", json!(quantiles_ns(phase))),
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
            "unreliable": outcome.unreliable().is_some(),
        })
    });
    let whole = json!({
        "scenario": outcome.scenario, "parameters": parameters, "surroundings": outcome.surroundings.json(),
        "phases": phases,
        "device": probe, "notes": outcome.notes,
    });
    whole.to_string() + "\n"
}
