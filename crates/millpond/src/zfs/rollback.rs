//! `zfs rollback`.

use admin::Change;
use admin::changes::Rollback;

use super::flags::DATASET;
use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, cannot};

/// `zfs rollback`.
pub(super) const COMMAND: Command = Command {
    name: "rollback",
    aliases: &[],
    summary: "Roll a file system or volume back to a snapshot.",
    forms: &["snapshot"],
    flags: &[
        switch("r", "destroy later snapshots and bookmarks"),
        switch("R", "and their clones"),
        switch("f", "force unmounting of those clones"),
    ],
    operands: Operands::exactly(1, DATASET),
    run: rollback,
};

fn rollback(call: &Invocation) -> Outcome {
    let snapshot = call.operand(0);
    admin::check_snapshot(snapshot).map_err(|error| cannot("open", snapshot, error))?;
    let mut connection = crate::daemons::pool_of(snapshot)?;
    let request = Change::Rollback(Rollback {
        snapshot: snapshot.to_owned(),
        destroy_later: call.has("r") || call.has("R"),
        destroy_clones: call.has("R"),
        force: call.has("f"),
    });
    change(&mut connection, request, &call.line)
}
