//! `zpool sync`.

use admin::Change;

use crate::daemons::{change, each_of, pools};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::Outcome;

/// `zpool sync`.
pub(super) const COMMAND: Command = Command {
    name: "sync",
    aliases: &[],
    summary: "Make everything written so far durable.",
    forms: &["[pool] ..."],
    flags: &[switch("f", "even if there is nothing to write")],
    operands: Operands::ANY,
    run: sync,
};

fn sync(call: &Invocation) -> Outcome {
    // Everybody may.
    each_of(pools(call.operands())?, &mut |mut connection| {
        change(&mut connection, Change::Sync, &call.line)
    })
}
