//! `zpool scrub`.

use admin::client::Connection;
use admin::{Change, ScanState, ScrubAction, VdevNaming};
use inspect::{Audience, Line};
use serde_json::json;

use super::flags::all_or_named;
use crate::daemons::{change, each, status};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, print, usage};
use crate::progress::Course;
use crate::render::{Json, JsonOptions};

/// `zpool scrub`.
pub(super) const COMMAND: Command = Command {
    name: "scrub",
    aliases: &[],
    summary: "Read every block and verify its checksum, in the background.",
    forms: &["pool ...", "-a"],
    flags: &[
        switch("a", "all pools"),
        switch("s", "stop it"),
        switch("p", "pause it"),
        switch("w", "wait until it has ended"),
        switch(
            "j",
            "JSON, with -w: how far it is, a line a second on standard error; then the pools, as by 'status -j'",
        )
        .or("json"),
    ],
    operands: Operands::ANY,
    run: scrub,
};

fn scrub(call: &Invocation) -> Outcome {
    let action = match (call.has("s"), call.has("p"), call.has("w")) {
        (true, true, _) => return Err(usage("invalid option combination: -s and -p")),
        (true, _, true) | (_, true, true) => {
            return Err(usage("invalid option combination: -w with -s or -p"));
        }
        (true, false, _) => ScrubAction::Stop,
        (false, true, _) => ScrubAction::Pause,
        (false, false, _) => ScrubAction::Start,
    };
    let json = call.has("j");
    if json && !call.has("w") {
        return Err(usage("invalid option combination: -j without -w"));
    }
    let names = all_or_named(call)?;
    each(&names, &mut |mut connection| {
        change(&mut connection, Change::Scrub(action), &call.line)
    })?;
    if !call.has("w") {
        return Ok(());
    }
    let mut statuses = Vec::new();
    each(&names, &mut |mut connection| {
        watch_scan(&mut connection, json)?;
        change(&mut connection, Change::WaitScrub, "")?;
        if json {
            statuses.push(status(&mut connection)?);
        }
        Ok(())
    })?;
    if json {
        // For programs: numbers as they are.
        let options = JsonOptions {
            exact: true,
            integers: true,
            ..JsonOptions::default()
        };
        let mut document = Json::new("zpool scrub", options);
        document.statuses(&statuses, VdevNaming::default());
        print(&document.text())?;
    }
    Ok(())
}

/// Tells how far a scan is, until it has ended or was paused.
fn watch_scan(connection: &mut Connection, json: bool) -> Outcome {
    let mut line = Line::new(Audience::of(json));
    if line.audience() == Audience::Nobody {
        return Ok(());
    }
    let pool = connection.pool().to_owned();
    let mut course = Course::new(format!("{pool}: scrub"));
    loop {
        let Some(scan) = status(connection)?.scan else {
            return Ok(());
        };
        let (done, total) = (scan.scanned, scan.to_examine);
        line.draw(
            || course.text(done, total),
            || json!({"what": "scrub", "pool": pool, "bytes": done, "bytes_total": total}),
        );
        if scan.state != ScanState::Running {
            return Ok(());
        }
        std::thread::sleep(crate::waiting::PAUSE);
    }
}
