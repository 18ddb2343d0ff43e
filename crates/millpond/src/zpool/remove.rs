//! `zpool remove`.

use admin::Change;
use admin::changes::{RemoveAction, RemoveVdevs};

use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};
use crate::waiting::until_idle;

use super::wait::work;

/// `zpool remove`.
pub(super) const COMMAND: Command = Command {
    name: "remove",
    aliases: &[],
    summary: "Remove devices from a pool, or cancel the removal of one.",
    forms: &["[-npw] pool device ...", "-s pool"],
    flags: &[
        switch(
            "n",
            "say only how much memory would be used for what was moved",
        ),
        switch("p", "with -n: exact numbers"),
        switch("s", "cancel the removal that is under way"),
        switch("w", "wait until it is done"),
    ],
    operands: Operands::at_least(1, "missing pool name argument"),
    run: remove,
};

fn remove(call: &Invocation) -> Outcome {
    let (name, devices) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name argument"))?;
    let (cancels, estimates) = (call.has("s"), call.has("n"));
    if cancels && (estimates || call.has("w") || call.has("p")) {
        return Err(usage("-s cannot be used with -n, -p or -w"));
    }
    if cancels && !devices.is_empty() {
        return Err(usage("too many arguments"));
    }
    if !cancels && devices.is_empty() {
        return Err(usage("missing device"));
    }
    let action = match (cancels, estimates) {
        (true, _) => RemoveAction::Cancel,
        (false, true) => RemoveAction::Estimate {
            exact: call.has("p"),
        },
        (false, false) => RemoveAction::Remove,
    };
    let request = Change::RemoveVdevs(RemoveVdevs {
        devices: devices.to_vec(),
        action,
    });
    change(&mut pool(name)?, request, &call.line)?;
    if call.has("w") && !estimates {
        until_idle(pool(name)?, &mut |connection| {
            Ok(work(connection)?.is_idle(&["remove"]))
        })?;
    }
    Ok(())
}
