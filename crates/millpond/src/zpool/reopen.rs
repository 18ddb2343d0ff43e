//! `zpool reopen`, `zpool resilver` and `zpool reguid`.

use admin::Change;
use admin::changes::{Reguid, ReopenDevices};

use crate::daemons::{change, each, pool};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, usage};

/// `zpool reopen`.
pub(super) const REOPEN: Command = Command {
    name: "reopen",
    aliases: &[],
    summary: "Reopen the devices of a pool.",
    forms: &["[pool] ..."],
    flags: &[switch("n", "do not resilver while a scrub runs")],
    operands: Operands::ANY,
    run: reopen,
};

/// `zpool resilver`.
pub(super) const RESILVER: Command = Command {
    name: "resilver",
    aliases: &[],
    summary: "Start a resilver; one that runs is restarted.",
    forms: &["pool ..."],
    flags: &[],
    operands: Operands::at_least(1, "missing pool name argument"),
    run: resilver,
};

/// `zpool reguid`.
pub(super) const REGUID: Command = Command {
    name: "reguid",
    aliases: &[],
    summary: "Give a pool a new guid, for instance a copy of another pool.",
    forms: &["pool"],
    flags: &[option("g", "guid", "use this guid instead of a random one")],
    operands: Operands::between(1, 1, "missing pool name"),
    run: reguid,
};

fn reopen(call: &Invocation) -> Outcome {
    let keep_scan = call.has("n");
    let request = Change::ReopenDevices(ReopenDevices { keep_scan });
    each(call.operands(), &mut |mut connection| {
        change(&mut connection, request.clone(), &call.line)
    })
}

fn resilver(call: &Invocation) -> Outcome {
    each(call.operands(), &mut |mut connection| {
        change(&mut connection, Change::RestartResilver, &call.line)
    })
}

fn reguid(call: &Invocation) -> Outcome {
    let guid = match call.value("g") {
        None => None,
        Some(text) => match text.parse::<u64>() {
            Ok(guid) if guid != 0 => Some(guid),
            Ok(_) | Err(_) => return Err(usage(format!("invalid GUID '{text}'"))),
        },
    };
    let mut connection = pool(call.operand(0))?;
    change(&mut connection, Change::Reguid(Reguid { guid }), &call.line)
}
