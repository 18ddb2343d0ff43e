//! `zpool status`.

use admin::PoolStatus;
use base::clock::{Clock, SystemClock};

use super::flags::{
    BY_GUID, FULL_PATH, JSON_GUID, RESOLVE, TIMESTAMP, json_options, naming, timestamp,
};
use crate::daemons::{ended, note, pools_and_absent, status as ask};
use crate::flags::{EXACT, JSON, JSON_INT};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, complain, print};
use crate::render::{Json, JsonOptions, StatusOptions};
use crate::repeat::Interval;

/// `zpool status`.
pub(super) const COMMAND: Command = Command {
    name: "status",
    aliases: &[],
    summary: "Show the health of pools.",
    forms: &["[pool] ... [interval [count]]"],
    flags: &[
        switch("e", "only vdevs that are not healthy"),
        BY_GUID,
        RESOLVE,
        FULL_PATH,
        EXACT,
        switch("s", "a column of slow I/Os"),
        switch("d", "a column of direct writes that failed verification"),
        switch(
            "power",
            "a column for the power of slots, which is not known here",
        ),
        switch("i", "how devices were initialized, too"),
        switch("t", "how devices were trimmed, too"),
        switch("D", "the dedup tables, too"),
        switch("v", "list damaged files"),
        switch("x", "only pools with problems"),
        JSON,
        JSON_INT,
        switch("json-flat-vdevs", "all vdevs in one list in JSON"),
        JSON_GUID,
        TIMESTAMP,
    ],
    operands: Operands::ANY,
    run: status,
};

fn status(call: &Invocation) -> Outcome {
    let interval = Interval::split(call.operands())?;
    let mut noted = false;
    interval.repeat(&mut || once(call, &interval.names, &mut noted))
}

fn once(call: &Invocation, names: &[String], noted: &mut bool) -> Outcome {
    let problems = call.has("x");
    let (connections, answered, absent) = pools_and_absent(names)?;
    // What is not served is a problem that is asked for, each time.
    let complete = answered && (absent.is_empty() || !problems);
    let mut found: Vec<PoolStatus> = Vec::new();
    for mut connection in connections {
        found.push(ask(&mut connection)?);
    }
    print(&timestamp(call)?)?;
    let absent: Vec<String> = absent.iter().map(note).collect();
    if problems && !call.has("j") {
        absent
            .iter()
            .try_for_each(|line| print(&format!("{line}\n")))?;
    } else if !std::mem::replace(noted, true) {
        absent.iter().for_each(|line| complain(line));
    }
    if call.has("j") {
        print(&json(call, found))?;
        return ended(complete);
    }
    if found.is_empty() {
        if complete {
            complain(&"no pools available");
        }
        return ended(complete);
    }
    if problems {
        found.retain(|pool| !pool.is_healthy());
        if found.is_empty() {
            match names {
                [name] => print(&format!("pool '{name}' is healthy\n"))?,
                _ if complete => print("all pools are healthy\n")?,
                _ => {}
            }
            return ended(complete);
        }
    }
    let now = SystemClock.now_s();
    let options = StatusOptions {
        verbose: call.has("v"),
        exact: call.has("p"),
        slow: call.has("s"),
        direct: call.has("d"),
        power: call.has("power"),
        initialize: call.has("i"),
        trim: call.has("t"),
        dedup: call.has("D"),
        naming: naming(call),
        now,
    };
    let texts: Vec<String> = found
        .iter()
        .map(|pool| crate::render::status(pool, options))
        .collect();
    print(&texts.join("\n"))?;
    ended(complete)
}

fn json(call: &Invocation, mut found: Vec<PoolStatus>) -> String {
    found.retain(|pool| !call.has("x") || !pool.is_healthy());
    if !call.has("v") {
        found.iter_mut().for_each(|pool| pool.error_files.clear());
    }
    let options = JsonOptions {
        slow: call.has("s"),
        initialize: call.has("i"),
        trim: call.has("t"),
        dedup: call.has("D"),
        ..json_options(call)
    };
    let mut json = Json::new("zpool status", options);
    json.statuses(&found, naming(call));
    json.text()
}
