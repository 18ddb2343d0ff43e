//! The commands that change a pool as a whole.

use std::path::Path;

use control::{Assignments, Change, Failure, FailureKind, PropertyError, ScrubAction};

use crate::Outcome;
use crate::arguments::assign_pool;
use crate::daemons::{change, ended, pool, pools};
use crate::grammar::Invocation;
use crate::output::{Stop, complain, usage};

pub(crate) fn destroy(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    change(
        &mut pool(name)?,
        Change::DestroyPool {
            force: call.has("f"),
        },
        &call.line,
    )
}

pub(crate) fn export(call: &Invocation) -> Outcome {
    let names = all_or_named(call)?;
    each(&names, &call.line, &|| Change::Export {
        force: call.has("f"),
    })
}

/// The pools named, or none for `-a`, which means all.
fn all_or_named(call: &Invocation) -> Result<Vec<String>, Stop> {
    match (call.has("a"), call.operands().is_empty()) {
        (true, false) => Err(usage("too many arguments")),
        (false, true) => Err(usage("missing pool argument")),
        _ => Ok(call.operands().to_vec()),
    }
}

/// Asks for a change of every pool, going on after failures.
fn each(names: &[String], line: &str, make: &dyn Fn() -> Change) -> Outcome {
    let (connections, mut complete) = pools(names)?;
    for mut connection in connections {
        match change(&mut connection, make(), line) {
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
    change(&mut pool(name)?, Change::SetPool { properties }, &call.line)
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
    let names = all_or_named(call)?;
    each(&names, &call.line, &|| Change::Scrub(action))?;
    if call.has("w") {
        each(&names, "", &|| Change::WaitScrub)
    } else {
        Ok(())
    }
}

pub(crate) fn sync(call: &Invocation) -> Outcome {
    each(call.operands(), &call.line, &|| Change::Sync)
}

pub(crate) fn clear(call: &Invocation) -> Outcome {
    let device = call.operands().get(1).cloned();
    change(
        &mut pool(call.operand(0))?,
        Change::Clear { device },
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
