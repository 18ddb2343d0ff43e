//! The commands that change a pool as a whole.

use std::path::Path;

use admin::changes::{Clear, DestroyPool, Export, SetPool, Trim, WaitTrim};
use admin::client::Connection;
use admin::{
    Assignments, Change, Failure, FailureKind, PropertyError, ScanState, ScrubAction, TrimAction,
    VdevNaming,
};
use inspect::{Audience, Line};
use serde_json::json;

use crate::Outcome;
use crate::arguments::assign_pool;
use crate::daemons::{change, ended, pool, pools, status};
use crate::grammar::Invocation;
use crate::output::{Stop, complain, print, usage};
use crate::progress::Course;
use crate::render::{Json, JsonOptions};

pub(crate) fn destroy(call: &Invocation) -> Outcome {
    let force = call.has("f");
    close(
        pool(call.operand(0))?,
        Change::DestroyPool(DestroyPool { force }),
        &call.line,
    )
}

pub(crate) fn export(call: &Invocation) -> Outcome {
    let names = all_or_named(call)?;
    let force = call.has("f");
    each(&names, &mut |connection| {
        close(connection, Change::Export(Export { force }), &call.line)
    })
}

/// Asks for a change after which the pool is closed, and waits until its daemon is gone: the pool
/// can be imported as soon as the command has ended.
fn close(mut connection: Connection, last: Change, line: &str) -> Outcome {
    change(&mut connection, last, line)?;
    connection.wait_for_end();
    Ok(())
}

/// The pools named, or none for `-a`, which means all.
fn all_or_named(call: &Invocation) -> Result<Vec<String>, Stop> {
    match (call.has("a"), call.operands().is_empty()) {
        (true, false) => Err(usage("too many arguments")),
        (false, true) => Err(usage("missing pool argument")),
        _ => Ok(call.operands().to_vec()),
    }
}

/// Does something with every pool, going on after failures.
fn each(names: &[String], act: &mut dyn FnMut(Connection) -> Outcome) -> Outcome {
    let (connections, mut complete) = pools(names)?;
    for connection in connections {
        match act(connection) {
            Ok(()) => {}
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                complete = false;
            }
            Err(_) => complete = false,
        }
    }
    ended(complete)
}

pub(crate) fn set(call: &Invocation) -> Outcome {
    let (text, name) = (call.operand(0), call.operand(1));
    if let Some(vdev) = call.operands().get(2) {
        return super::vdev::set(call, text, name, vdev);
    }
    let mut properties = Assignments::new();
    assign_pool(&mut properties, text).map_err(|error| match error {
        PropertyError::NoEquals => usage(error.to_string()),
        error => Stop::from(Failure::cannot(
            FailureKind::Invalid,
            "set property for",
            name,
            error,
        )),
    })?;
    change(
        &mut pool(name)?,
        Change::SetPool(SetPool { properties }),
        &call.line,
    )
}

pub(crate) fn scrub(call: &Invocation) -> Outcome {
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

pub(crate) fn trim(call: &Invocation) -> Outcome {
    let rate = call.value("r").map(admin::parse_size).transpose();
    let rate = rate.map_err(|error| usage(format!("invalid value for rate: {error}")))?;
    let secure = call.has("d");
    let action = match (call.has("c"), call.has("s")) {
        (true, true) => return Err(usage("-c cannot be combined with other options")),
        (true, _) | (_, true) if rate.is_some() || secure || call.has("w") => {
            return Err(usage("-c and -s cannot be combined with other options"));
        }
        (true, _) => TrimAction::Cancel,
        (_, true) => TrimAction::Suspend,
        _ => TrimAction::Start {
            rate: rate.unwrap_or(0),
            secure,
        },
    };
    // The first word is the pool, the others are devices of it.
    let (names, devices) = match call.operands() {
        words if call.has("a") && !words.is_empty() => return Err(usage("too many arguments")),
        [] if call.has("a") => (Vec::new(), Vec::new()),
        [] => return Err(usage("missing pool name argument")),
        [pool, devices @ ..] => (vec![pool.clone()], devices.to_vec()),
    };
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        change(
            &mut connection,
            Change::Trim(Trim { action, devices }),
            &call.line,
        )
    })?;
    if !call.has("w") {
        return Ok(());
    }
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        change(&mut connection, Change::WaitTrim(WaitTrim { devices }), "")
    })
}

pub(crate) fn sync(call: &Invocation) -> Outcome {
    each(call.operands(), &mut |mut connection| {
        change(&mut connection, Change::Sync, &call.line)
    })
}

pub(crate) fn clear(call: &Invocation) -> Outcome {
    let device = call.operands().get(1).cloned();
    change(
        &mut pool(call.operand(0))?,
        Change::Clear(Clear { device }),
        &call.line,
    )
}

pub(crate) fn labelclear(call: &Invocation) -> Outcome {
    let word = call.operand(0);
    let path = if word.contains('/') || Path::new(word).exists() {
        Path::new(word).to_owned()
    } else {
        Path::new("/dev").join(word)
    };
    Ok(control::labelclear(&path, call.has("f"))?)
}
