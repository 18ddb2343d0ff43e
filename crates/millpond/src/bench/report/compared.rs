//! Several runs in one report: what `bench -j` wrote of each, scenario by scenario.

use serde_json::Value;

use super::charts::{bars, curves};
use super::html::Page;
use super::{microseconds, three_digits};
use crate::render::{Column, aligned};

/// A file of more is not one of ours.
const LINE_BYTES_MAX: usize = 64 << 20;
/// More seconds than a bar chart could show.
const WINDOWS_MAX: usize = 1 << 20;

/// A phase of one run, as its file says.
struct Phase {
    name: String,
    per_second: f64,
    mb_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    quantiles_ns: Vec<f64>,
    windows: Vec<u64>,
}

/// One run.
struct Run {
    /// The file's name, and which line if it has several.
    name: String,
    /// The scenario with its parameters.
    what: String,
    /// Where and when.
    lines: Vec<String>,
    unreliable: bool,
    phases: Vec<Phase>,
}

/// Runs, in the order in which they were named.
#[derive(Default)]
pub(crate) struct Compared(Vec<Run>);

impl Compared {
    /// Takes the runs of one file, a line each.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn add(&mut self, file: &str, text: &str) -> Result<(), String> {
        if text.len() > LINE_BYTES_MAX {
            return Err("is too long to be what 'bench -j' writes".to_owned());
        }
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for (at, line) in lines.iter().enumerate() {
            let name = match lines.len() {
                1 => file.to_owned(),
                _ => format!("{file}:{}", at + 1),
            };
            let found = serde_json::from_str(line).ok();
            let run = found.and_then(|found: Value| Run::of(name, &found));
            self.0
                .push(run.ok_or_else(|| format!("line {} is not what 'bench -j' writes", at + 1))?);
        }
        Ok(())
    }

    /// Runs of the same scenario with the same parameters, in order.
    fn groups(&self) -> Vec<Vec<&Run>> {
        let mut groups: Vec<Vec<&Run>> = Vec::new();
        for run in &self.0 {
            match groups.iter_mut().find(|group| group[0].what == run.what) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        groups
    }

    /// Whether there is anything to compare.
    pub(crate) fn is_comparison(&self) -> bool {
        self.groups().iter().any(|group| group.len() > 1)
    }

    /// A table for each scenario; ratios are to the first run that is named.
    pub(crate) fn table(&self) -> String {
        let tables: Vec<String> = self.groups().iter().map(|group| table(group)).collect();
        tables.join("\n")
    }

    /// The same with charts that have all runs.
    pub(crate) fn html(&self) -> String {
        let mut page = Page::new("compare", &self.table());
        for group in self.groups() {
            let names: Vec<String> = group.iter().map(|run| run.name.clone()).collect();
            for name in phase_names(&group) {
                let with: Vec<(usize, &Phase)> = phases(&group, &name).collect();
                page.legend(&names);
                let points: Vec<Vec<f64>> = group
                    .iter()
                    .enumerate()
                    .map(|(at, _)| {
                        let found = with.iter().find(|(run, _)| *run == at);
                        found.map_or_else(Vec::new, |(_, phase)| phase.quantiles_ns.clone())
                    })
                    .collect();
                let what = &group[0].what;
                page.figure(
                    &format!("{what}; {name}: latency by percentile"),
                    &curves(&points),
                );
                for (run, phase) in with.iter().filter(|(_, phase)| phase.windows.len() > 2) {
                    let caption = format!("{name}: operations by second, {}", names[*run]);
                    page.figure(&caption, &bars(&phase.windows, *run));
                }
            }
        }
        page.end()
    }
}

impl Run {
    fn of(name: String, found: &Value) -> Option<Self> {
        let scenario = found["scenario"].as_str()?;
        let parameters: Vec<String> = found["parameters"]
            .as_object()?
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let lines = found["surroundings"]["lines"].as_array();
        let lines = lines.into_iter().flatten().filter_map(Value::as_str);
        let phases: Option<Vec<Phase>> =
            found["phases"].as_array()?.iter().map(Phase::of).collect();
        Some(Self {
            name,
            what: format!("{scenario}: {}", parameters.join(", ")),
            lines: lines.map(str::to_owned).collect(),
            unreliable: found["device"]["unreliable"].as_bool().unwrap_or(false),
            phases: phases?,
        })
    }
}

impl Phase {
    fn of(found: &Value) -> Option<Self> {
        let number = |name: &str| found[name].as_f64();
        let quantiles = found["quantiles_ns"].as_array().into_iter().flatten();
        let windows = found["windows"].as_array().into_iter().flatten();
        Some(Self {
            name: found["name"].as_str()?.to_owned(),
            per_second: number("per_second")?,
            mb_per_second: number("mb_per_second")?,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            max_us: number("max_us")?,
            quantiles_ns: quantiles.filter_map(Value::as_f64).collect(),
            windows: windows
                .filter_map(Value::as_u64)
                .take(WINDOWS_MAX)
                .collect(),
        })
    }
}

/// The phases that a group has, in the order of its first run that has them.
fn phase_names(group: &[&Run]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for phase in group.iter().flat_map(|run| &run.phases) {
        if !names.contains(&phase.name) {
            names.push(phase.name.clone());
        }
    }
    names
}

/// A phase of each run that has it, with the run's place in the group.
fn phases<'a>(group: &'a [&Run], name: &'a str) -> impl Iterator<Item = (usize, &'a Phase)> {
    group.iter().enumerate().filter_map(move |(at, run)| {
        let found = run.phases.iter().find(|phase| phase.name == name);
        found.map(|phase| (at, phase))
    })
}

fn table(group: &[&Run]) -> String {
    let mut out = format!("{}\n", group[0].what);
    for run in group {
        for line in &run.lines {
            out += &format!("{}: {line}\n", run.name);
        }
        if run.unreliable {
            out += &format!("{}: the device was unreliable\n", run.name);
        }
    }
    let columns = [
        Column::left("PHASE"),
        Column::left("RUN"),
        Column::right("PER_S"),
        Column::right("RATIO"),
        Column::right("MB/S"),
        Column::right("P50_us"),
        Column::right("RATIO"),
        Column::right("P99_us"),
        Column::right("RATIO"),
        Column::right("MAX_us"),
    ];
    let mut rows = Vec::new();
    for name in phase_names(group) {
        let mut first = None;
        for (at, phase) in phases(group, &name) {
            let base: &Phase = first.get_or_insert(phase);
            let ratio = |value: f64, base: f64| match base > 0.0 {
                true => three_digits(value / base),
                false => "-".to_owned(),
            };
            let us = |us: f64| microseconds((us * 1000.0) as u64);
            rows.push(vec![
                name.clone(),
                group[at].name.clone(),
                three_digits(phase.per_second),
                ratio(phase.per_second, base.per_second),
                if phase.mb_per_second > 0.0 {
                    three_digits(phase.mb_per_second)
                } else {
                    "-".to_owned()
                },
                us(phase.p50_us),
                ratio(phase.p50_us, base.p50_us),
                us(phase.p99_us),
                ratio(phase.p99_us, base.p99_us),
                us(phase.max_us),
            ]);
        }
    }
    out + "\n" + &aligned(&columns, &rows)
}
