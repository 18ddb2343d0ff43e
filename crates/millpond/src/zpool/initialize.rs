//! `zpool initialize`.

use admin::changes::{Initialize, WaitInitialize};
use admin::{Change, InitializeAction};

use crate::daemons::{change, each};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};

/// `zpool initialize`.
pub(super) const COMMAND: Command = Command {
    name: "initialize",
    aliases: &[],
    summary: "Overwrite free space on devices once, in the background.",
    forms: &["pool [device] ...", "-a"],
    flags: &[
        switch("a", "all pools").or("all"),
        switch("c", "cancel it").or("cancel"),
        switch("s", "suspend it").or("suspend"),
        switch("u", "forget that it was done").or("uninit"),
        switch("w", "wait until it has ended").or("wait"),
    ],
    operands: Operands::ANY,
    run: initialize,
};

fn initialize(call: &Invocation) -> Outcome {
    let action = match (call.has("c"), call.has("s"), call.has("u")) {
        (true, true, _) | (true, _, true) | (_, true, true) => {
            return Err(usage("-c, -s, and -u are mutually exclusive"));
        }
        (true, false, false) => InitializeAction::Cancel,
        (false, true, false) => InitializeAction::Suspend,
        (false, false, true) => InitializeAction::Forget,
        (false, false, false) => InitializeAction::Start,
    };
    let waits = call.has("w");
    if waits && action != InitializeAction::Start {
        return Err(usage("-w cannot be used with -c, -s, or -u"));
    }
    // The first word is the pool, the others are devices of it.
    let (names, devices) = match call.operands() {
        words if call.has("a") && !words.is_empty() => return Err(usage("too many arguments")),
        [] if call.has("a") => (Vec::new(), Vec::new()),
        [] => return Err(usage("missing pool name argument")),
        [pool, devices @ ..] => (vec![pool.clone()], devices.to_vec()),
    };
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        let request = Change::Initialize(Initialize { action, devices });
        change(&mut connection, request, &call.line)
    })?;
    if !waits {
        return Ok(());
    }
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        let request = Change::WaitInitialize(WaitInitialize { devices });
        change(&mut connection, request, "")
    })
}
