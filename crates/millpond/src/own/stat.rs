//! `millpond stat`: the instruments of running pools.

use admin::queries::{IoStatistics, Metrics};
use admin::{IoReport, MetricsReport};

use crate::daemons::{ended, pools};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::render::MetricsTable;
use crate::repeat::Interval;

/// `millpond stat`.
pub(super) const COMMAND: Command = Command {
    name: "stat",
    aliases: &[],
    summary: "Show space, rates, latencies and counters of running pools; locks and queues with -l.",
    forms: &["[pool] ... [interval [count]]"],
    flags: &[
        option(
            "m",
            "text[,...]",
            "only metrics whose name contains one of these",
        ),
        switch(
            "l",
            "locks and queues, too; with --prometheus, their buckets",
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
    let interval = Interval::split(call.operands())?;
    let mut before: Vec<Readings> = Vec::new();
    // Who asks for names wants these; programs get them all as they are.
    let summed_up = words.is_empty() && !call.has("j") && !call.has("prometheus");
    let mut first = true;
    let skip_first = call.has("y") && interval.repeats();
    interval.repeat_after(skip_first, &mut || {
        let (mut now, complete) = readings(&interval.names, summed_up)?;
        if now.is_empty() && complete {
            complain(&"no pools available");
        }
        now.iter_mut().for_each(|found| found.metrics.keep(&words));
        let changes: Vec<Readings> = now
            .iter()
            .map(|found| {
                let earlier = before
                    .iter()
                    .find(|before| before.metrics.pool == found.metrics.pool);
                match earlier {
                    // What a scraper reads must only grow.
                    Some(earlier) if !call.has("prometheus") => found.since(earlier),
                    _ => found.clone(),
                }
            })
            .collect();
        before = now;
        if !std::mem::take(&mut first) || !skip_first {
            show(call, &changes)?;
        }
        ended(complete)
    })
}

/// What one pool told.
#[derive(Clone)]
struct Readings {
    metrics: MetricsReport,
    io: Option<IoReport>,
}

impl Readings {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            metrics: self.metrics.since(&earlier.metrics),
            io: match (&self.io, &earlier.io) {
                (Some(now), Some(earlier)) => Some(now.since(earlier)),
                (now, _) => now.clone(),
            },
        }
    }
}

fn show(call: &Invocation, found: &[Readings]) -> Outcome {
    let reports =
        || -> Vec<MetricsReport> { found.iter().map(|one| one.metrics.clone()).collect() };
    if call.has("j") {
        return print(&crate::render::metrics_json(&reports()));
    }
    if call.has("prometheus") {
        let buckets = match call.has("l") {
            true => daemon::Buckets::All,
            false => daemon::Buckets::Usual,
        };
        let readings = daemon::Readings {
            metrics: reports(),
            ..daemon::Readings::default()
        };
        return print(&daemon::prometheus(&readings, buckets));
    }
    let options = MetricsTable {
        all: call.has("a"),
        locks: call.has("l") || call.has("m"),
    };
    let tables: Vec<String> = found
        .iter()
        .map(|one| crate::render::metrics_table(&one.metrics, one.io.as_ref(), options))
        .collect();
    print(&tables.join("\n"))
}

fn readings(names: &[String], with_io: bool) -> Result<(Vec<Readings>, bool), Stop> {
    let (connections, complete) = pools(names)?;
    let mut found = Vec::new();
    for mut connection in connections {
        let metrics = connection.ask(Metrics)?;
        let io = match with_io {
            true => Some(*connection.ask(IoStatistics)?),
            false => None,
        };
        found.push(Readings { metrics, io });
    }
    Ok((found, complete))
}
