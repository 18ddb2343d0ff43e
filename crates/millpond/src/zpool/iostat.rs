//! `zpool iostat`.

use admin::IoReport;
use admin::queries::IoStatistics;

use super::flags::{BY_GUID, FULL_PATH, RESOLVE, TIMESTAMP, naming, timestamp};
use crate::daemons::{ended, pools};
use crate::flags::{EXACT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::render::{IoHistogram, IoLayout, Style};
use crate::repeat::Interval;

/// `zpool iostat`.
pub(super) const COMMAND: Command = Command {
    name: "iostat",
    aliases: &[],
    summary: "Show the I/O of pools and their devices.",
    forms: &["[pool] ... [interval [count]]"],
    flags: &[
        switch("v", "the vdevs, too"),
        switch("l", "average latencies, too"),
        switch("q", "also waiting and active requests"),
        switch("w", "histograms of latencies instead"),
        switch("r", "histograms of request sizes instead"),
        switch("y", "omit the figures since the import"),
        switch("n", "print the header only once"),
        SCRIPTED,
        EXACT,
        BY_GUID,
        RESOLVE,
        FULL_PATH,
        TIMESTAMP,
    ],
    operands: Operands::ANY,
    run: iostat,
};

/// Lines of figures after which the header is printed again.
const PAGE_LINES: usize = 24;

fn iostat(call: &Invocation) -> Outcome {
    let layout = layout(call)?;
    let interval = Interval::split(call.operands())?;
    let mut before: Vec<IoReport> = Vec::new();
    let mut first = true;
    let mut lines_since_header = usize::MAX;
    let mut all_answered = true;
    let skip_first = call.has("y") && interval.repeats();
    interval.repeat_after(skip_first, &mut || {
        let (now, complete) = reports(&interval.names)?;
        all_answered &= complete;
        if now.is_empty() {
            if complete {
                complain(&"no pools available");
            }
            return Err(Stop::Quiet(u8::from(!complete)));
        }
        if first && skip_first {
            first = false;
            before = now;
            return Ok(());
        }
        first = false;
        let changes: Vec<IoReport> = now
            .iter()
            .map(
                |report| match before.iter().find(|b| b.guid == report.guid) {
                    Some(earlier) => report.since(earlier),
                    None => report.clone(),
                },
            )
            .collect();
        before = now;
        let table = crate::render::iostat(&changes, layout);
        let mut text = timestamp(call)?;
        let due = lines_since_header == usize::MAX
            || (!call.has("n") && (layout.vdevs || lines_since_header >= PAGE_LINES));
        if due {
            text += &table.header;
            lines_since_header = 0;
        }
        lines_since_header += table.body.lines().count();
        print(&(text + &table.body))
    })?;
    ended(all_answered)
}

fn layout(call: &Invocation) -> Result<IoLayout, Stop> {
    let histogram = match (call.has("w"), call.has("r")) {
        (true, true) => return Err(usage("-w and -r cannot be combined")),
        (true, false) => Some(IoHistogram::Latency),
        (false, true) => Some(IoHistogram::Size),
        (false, false) => None,
    };
    if histogram.is_some() && (call.has("l") || call.has("q")) {
        return Err(usage("-l and -q cannot be combined with -w or -r"));
    }
    Ok(IoLayout {
        style: Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        },
        vdevs: call.has("v"),
        latency: call.has("l"),
        queues: call.has("q"),
        histogram,
        naming: naming(call),
    })
}

fn reports(names: &[String]) -> Result<(Vec<IoReport>, bool), Stop> {
    let (connections, complete) = pools(names)?;
    let mut found = Vec::new();
    for mut connection in connections {
        found.push(*connection.ask(IoStatistics)?);
    }
    Ok((found, complete))
}
