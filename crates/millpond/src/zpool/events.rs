//! `zpool events`.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::client::{self, Connection};
use admin::queries::{ClearEvents, Events};
use admin::{EventRecord, Failure, FailureKind};

use crate::daemons::{administered, ended};
use crate::flags::SCRIPTED;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, complain, print, usage};

/// `zpool events`.
pub(super) const COMMAND: Command = Command {
    name: "events",
    aliases: &[],
    summary: "Show events of pools since they were imported.",
    forms: &["[pool]", "-c"],
    flags: &[
        switch("v", "all details, too"),
        SCRIPTED,
        switch("f", "follow new events"),
        switch("c", "clear all events"),
    ],
    operands: Operands::between(0, 1, ""),
    run: events,
};

/// How often `-f` looks for more.
const PAUSE: Duration = Duration::from_millis(250);

fn events(call: &Invocation) -> Outcome {
    if call.has("c") {
        return clear(call);
    }
    if !call.has("H") {
        print(crate::render::EVENTS_HEADER)?;
    }
    let names = call.operands();
    let mut seen = Seen::new();
    let (connections, complete) = administered(names)?;
    if connections.is_empty() && !names.is_empty() {
        // None of them is there, and perhaps none ever was.
        return ended(complete);
    }
    show(call, connections, &mut seen)?;
    while call.has("f") {
        std::thread::sleep(PAUSE);
        // A pool that is not there may come, and one that goes or does not answer may come back.
        let connections = match names.first() {
            None => client::running_own()?.connections,
            Some(name) => client::connect(name).ok().flatten().into_iter().collect(),
        };
        show(call, connections, &mut seen)?;
    }
    ended(complete)
}

/// The last event that was shown of each daemon.
type Seen = BTreeMap<(u64, u32), u64>;

/// Shows what pools have that was not shown yet, in the order in which it happened.
fn show(call: &Invocation, connections: Vec<Connection>, seen: &mut Seen) -> Outcome {
    let mut found = Vec::new();
    for mut connection in connections {
        let last = seen
            .entry((connection.guid(), connection.pid()))
            .or_default();
        match ask(&mut connection, *last) {
            Ok(records) => {
                *last = records.last().map_or(*last, |record| record.id);
                found.extend(records);
            }
            // It was exported just now.
            Err(failure) if call.has("f") && failure.kind == FailureKind::Service => {}
            Err(failure) => return Err(Stop::from(failure)),
        }
    }
    found.sort_by_key(|record| record.time_ns);
    print(&crate::render::events(&found, call.has("H"), call.has("v")))
}

fn ask(connection: &mut Connection, after: u64) -> Result<Vec<EventRecord>, Failure> {
    connection.ask_all(Events { after })
}

fn clear(call: &Invocation) -> Outcome {
    if !call.operands().is_empty() {
        return Err(usage("too many arguments"));
    }
    let mut cleared = 0;
    let (connections, mut complete) = administered(&[])?;
    for mut connection in connections {
        match connection.ask(ClearEvents) {
            Ok(count) => cleared += count,
            Err(failure) => {
                complain(&failure);
                complete = false;
            }
        }
    }
    if complete {
        print(&format!("cleared {cleared} events\n"))?;
    }
    ended(complete)
}
