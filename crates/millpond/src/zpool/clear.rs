//! `zpool clear`.

use admin::Change;
use admin::changes::Clear;

use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands};
use crate::output::Outcome;

/// `zpool clear`.
pub(super) const COMMAND: Command = Command {
    name: "clear",
    aliases: &[],
    summary: "Clear errors and resume a suspended pool.",
    forms: &["pool [device]"],
    flags: &[],
    operands: Operands::between(1, 2, "missing pool name"),
    run: clear,
};

fn clear(call: &Invocation) -> Outcome {
    let device = call.operands().get(1).cloned();
    change(
        &mut pool(call.operand(0))?,
        Change::Clear(Clear { device }),
        &call.line,
    )
}
