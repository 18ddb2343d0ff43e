//! `zpool destroy`.

use admin::Change;
use admin::changes::DestroyPool;

use super::flags::POOL;
use crate::daemons::{close, pool};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::Outcome;

/// `zpool destroy`.
pub(super) const COMMAND: Command = Command {
    name: "destroy",
    aliases: &[],
    summary: "Destroy a pool.",
    forms: &["pool"],
    flags: &[switch("f", "unmount by force")],
    operands: Operands::exactly(1, POOL),
    run: destroy,
};

fn destroy(call: &Invocation) -> Outcome {
    let force = call.has("f");
    close(
        pool(call.operand(0))?,
        Change::DestroyPool(DestroyPool { force }),
        &call.line,
    )
}
