//! `zfs snapshot`.

use admin::changes::Snapshot;
use admin::{Assignments, Change, Failure, FailureKind, pool_of};

use super::flags::{PROPERTY, RECURSIVE};
use crate::arguments::assign_dataset;
use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, usage};

/// `zfs snapshot`.
pub(super) const COMMAND: Command = Command {
    name: "snapshot",
    aliases: &["snap"],
    summary: "Create snapshots, all at the same moment.",
    forms: &["filesystem|volume@snap ..."],
    flags: &[RECURSIVE, PROPERTY],
    operands: Operands::at_least(1, "missing snapshot argument"),
    run: snapshot,
};

fn snapshot(call: &Invocation) -> Outcome {
    let names = call.operands();
    let pool = pool_of(&names[0]);
    for name in names {
        if !name.contains('@') {
            return Err(usage(format!(
                "'{name}': missing '@' delimiter in snapshot name"
            )));
        }
        let failed = |reason: &dyn std::fmt::Display| {
            let failure = Failure::cannot(FailureKind::Invalid, "create snapshot", name, reason);
            match names.len() {
                1 => failure,
                _ => failure.advise("no snapshots were created"),
            }
        };
        admin::check_snapshot(name).map_err(|error| failed(&error))?;
        if pool_of(name) != pool {
            return Err(failed(&"snapshots of several pools cannot be taken at once").into());
        }
    }
    let mut properties = Assignments::new();
    for text in call.values("o") {
        assign_dataset(&mut properties, text, true).map_err(|error| usage(error.to_string()))?;
    }
    let mut connection = crate::daemons::pool_of(admin::dataset_of(&names[0]))?;
    let request = Change::Snapshot(Snapshot {
        names: names.to_vec(),
        recursive: call.has("r"),
        properties,
    });
    change(&mut connection, request, &call.line)
}
