//! `zfs hold`, `zfs holds` and `zfs release`.

use admin::changes::{Hold, Release};
use admin::queries::Holds;
use admin::{Change, Failure, FailureKind};

use super::flags::RECURSIVE;
use crate::daemons::{change_by_pool, pool_of};
use crate::flags::{EXACT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, print, usage};
use crate::render::Style;

/// `zfs hold`.
pub(super) const HOLD: Command = Command {
    name: "hold",
    aliases: &[],
    summary: "Put holds on snapshots, so that they cannot be destroyed.",
    forms: &["tag snapshot ..."],
    flags: &[RECURSIVE],
    operands: Operands::at_least(2, "missing tag or snapshot argument"),
    run: hold,
};

/// `zfs holds`.
pub(super) const HOLDS: Command = Command {
    name: "holds",
    aliases: &[],
    summary: "List holds.",
    forms: &["snapshot ..."],
    flags: &[RECURSIVE, SCRIPTED, EXACT],
    operands: Operands::at_least(1, "missing snapshot argument"),
    run: holds,
};

/// `zfs release`.
pub(super) const RELEASE: Command = Command {
    name: "release",
    aliases: &[],
    summary: "Release holds.",
    forms: &["tag snapshot ..."],
    flags: &[RECURSIVE],
    operands: Operands::at_least(2, "missing tag or snapshot argument"),
    run: release,
};

fn hold(call: &Invocation) -> Outcome {
    let (tag, snapshots) = tagged(call)?;
    if tag.starts_with('.') {
        return Err(usage("tag may not start with '.'"));
    }
    change_by_pool(snapshots, &call.line, |snapshots| {
        Change::Hold(Hold {
            tag: tag.clone(),
            snapshots,
            recursive: call.has("r"),
        })
    })
}

fn release(call: &Invocation) -> Outcome {
    let (tag, snapshots) = tagged(call)?;
    change_by_pool(snapshots, &call.line, |snapshots| {
        Change::Release(Release {
            tag: tag.clone(),
            snapshots,
            recursive: call.has("r"),
        })
    })
}

fn tagged(call: &Invocation) -> Result<(&String, &[String]), crate::output::Stop> {
    let (tag, snapshots) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing tag"))?;
    check(snapshots)?;
    Ok((tag, snapshots))
}

fn check(snapshots: &[String]) -> Result<(), Failure> {
    match snapshots.iter().find(|name| !name.contains('@')) {
        Some(name) => Err(Failure::new(
            FailureKind::Invalid,
            format!("'{name}' is not a snapshot"),
        )),
        None => Ok(()),
    }
}

fn holds(call: &Invocation) -> Outcome {
    check(call.operands())?;
    let mut records = Vec::new();
    for name in call.operands() {
        records.extend(pool_of(name)?.ask(Holds {
            snapshots: vec![name.clone()],
            recursive: call.has("r"),
        })?);
    }
    print(&crate::render::holds(
        &records,
        Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        },
    ))
}
