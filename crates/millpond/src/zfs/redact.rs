//! `zfs redact`.

use admin::changes::Redact;
use admin::{Change, Failure, FailureKind, NameKind, pool_of};

use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, cannot};

/// `zfs redact`.
pub(super) const COMMAND: Command = Command {
    name: "redact",
    aliases: &[],
    summary: "Create a bookmark of a snapshot that lists the blocks of files which all of the other snapshots changed.",
    forms: &["snapshot bookmark redaction_snapshot ..."],
    flags: &[],
    operands: Operands::at_least(3, "missing redaction snapshot argument"),
    run: redact,
};

fn redact(call: &Invocation) -> Outcome {
    let (source, bookmark) = (call.operand(0), call.operand(1));
    let head = admin::dataset_of(source);
    let name = match bookmark.split_once('#') {
        None => format!("{head}#{bookmark}"),
        Some(("", short)) => format!("{head}#{short}"),
        Some(_) => bookmark.to_owned(),
    };
    let failed = |reason: &dyn std::fmt::Display| cannot("redact", source, reason);
    check_snapshot(source)?;
    admin::check_bookmark(&name).map_err(|error| failed(&error))?;
    if admin::dataset_of(&name) != head {
        return Err(failed(&"the bookmark must be one of the same file system or volume").into());
    }
    let by: Vec<String> = call.operands().iter().skip(2).cloned().collect();
    for other in &by {
        check_snapshot(other)?;
        if pool_of(other) != pool_of(source) {
            return Err(failed(&"redaction snapshots are in a different pool").into());
        }
    }
    let mut connection = crate::daemons::pool_of(source)?;
    let request = Change::Redact(Redact {
        source: source.to_owned(),
        name,
        by,
    });
    change(&mut connection, request, &call.line)
}

fn check_snapshot(name: &str) -> Outcome {
    let refuse = |text: &dyn std::fmt::Display| {
        Err(Failure::cannot(FailureKind::Invalid, "redact", name, text).into())
    };
    match admin::check_name(name) {
        Err(error) => refuse(&error),
        Ok(NameKind::Snapshot) => Ok(()),
        Ok(_) => refuse(&"operation not applicable to datasets of this type"),
    }
}
