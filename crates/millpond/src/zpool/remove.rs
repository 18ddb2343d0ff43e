//! `zpool remove`.

use admin::Change;
use admin::changes::RemoveVdevs;

use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};

/// `zpool remove`.
pub(super) const COMMAND: Command = Command {
    name: "remove",
    aliases: &[],
    summary: "Remove log devices from a pool.",
    forms: &["pool device ..."],
    flags: &[switch("w", "wait until it is done (always the case)")],
    operands: Operands::at_least(2, "missing pool or device argument"),
    run: remove,
};

fn remove(call: &Invocation) -> Outcome {
    let (name, devices) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name argument"))?;
    let request = Change::RemoveVdevs(RemoveVdevs {
        devices: devices.to_vec(),
    });
    change(&mut pool(name)?, request, &call.line)
}
