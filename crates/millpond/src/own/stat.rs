//! `millpond stat`: the instruments of running pools.

use admin::{MetricsReport, Request, Response};
use daemon::Readings;

use crate::daemons::{ended, pools};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::render::MetricsTable;
use crate::repeat::Interval;

/// `millpond stat`.
pub(super) const COMMAND: Command = Command {
    name: "stat",
    aliases: &[],
    summary: "Show locks, queues, latencies and counters of running pools.",
    forms: &["[pool] ... [interval [count]]"],
    flags: &[
        option(
            "m",
            "text[,...]",
            "only metrics whose name contains one of these",
        ),
        switch("a", "also what never changed"),
        switch("y", "omit the figures since the import"),
        switch("j", "JSON").or("json"),
        switch("prometheus", "the text format of Prometheus"),
    ],
    operands: Operands::ANY,
    run: stat,
};

fn stat(call: &Invocation) -> Outcome {
    if call.has("j") && call.has("prometheus") {
        return Err(usage("-j and --prometheus cannot be combined"));
    }
    let words: Vec<String> = call
        .values("m")
        .flat_map(|text| text.split(','))
        .map(ToOwned::to_owned)
        .collect();
    let interval = Interval::split(call.operands());
    let mut before: Vec<MetricsReport> = Vec::new();
    let mut first = true;
    let skip_first = call.has("y") && interval.repeats();
    interval.repeat_after(skip_first, &mut || {
        let (mut now, complete) = reports(&interval.names)?;
        if now.is_empty() && complete {
            complain(&"no pools available");
        }
        now.iter_mut().for_each(|report| report.keep(&words));
        let changes: Vec<MetricsReport> = now
            .iter()
            .map(
                |report| match before.iter().find(|b| b.pool == report.pool) {
                    // What a scraper reads must only grow.
                    Some(earlier) if !call.has("prometheus") => report.since(earlier),
                    _ => report.clone(),
                },
            )
            .collect();
        before = now;
        if !std::mem::take(&mut first) || !skip_first {
            show(call, &changes)?;
        }
        ended(complete)
    })
}

fn show(call: &Invocation, reports: &[MetricsReport]) -> Outcome {
    if call.has("j") {
        return print(&crate::render::metrics_json(reports));
    }
    if call.has("prometheus") {
        return print(&daemon::prometheus(&Readings {
            metrics: reports.to_vec(),
            ..Readings::default()
        }));
    }
    let options = MetricsTable { all: call.has("a") };
    let tables: Vec<String> = reports
        .iter()
        .map(|report| crate::render::metrics_table(report, options))
        .collect();
    print(&tables.join("\n"))
}

fn reports(names: &[String]) -> Result<(Vec<MetricsReport>, bool), Stop> {
    let (connections, complete) = pools(names)?;
    let mut found = Vec::new();
    for mut connection in connections {
        connection.call(&Request::Metrics, &mut |part| {
            if let Response::Metrics(report) = part {
                found.push(report);
            }
            Ok(())
        })?;
    }
    Ok((found, complete))
}
