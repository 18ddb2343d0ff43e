//! `zpool checkpoint`.

use admin::Change;
use admin::changes::Checkpoint;

use super::wait::under_way;
use crate::daemons::{change, pool, status};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};
use crate::waiting::until_idle;

/// `zpool checkpoint`.
pub(super) const COMMAND: Command = Command {
    name: "checkpoint",
    aliases: &[],
    summary: "Take a checkpoint of a pool, to which an import can rewind it.",
    forms: &["[-d [-w]] pool"],
    flags: &[
        switch("d", "discard the checkpoint").or("discard"),
        switch("w", "wait until it is discarded").or("wait"),
    ],
    operands: Operands::between(1, 1, "missing pool argument"),
    run: checkpoint,
};

fn checkpoint(call: &Invocation) -> Outcome {
    let discard = call.has("d");
    if call.has("w") && !discard {
        return Err(usage("--wait only valid when discarding the checkpoint"));
    }
    let name = call.operand(0);
    let request = Change::Checkpoint(Checkpoint { discard });
    change(&mut pool(name)?, request, &call.line)?;
    if !call.has("w") {
        return Ok(());
    }
    until_idle(pool(name)?, &mut |connection| {
        Ok(under_way(&status(connection)?).is_idle(&["discard"]))
    })
}
