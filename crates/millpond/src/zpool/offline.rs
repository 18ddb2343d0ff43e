//! `zpool offline` and `zpool online`.

use admin::Change;
use admin::changes::{OfflineDevices, OnlineDevices};

use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, usage};

/// `zpool offline`.
pub(super) const OFFLINE: Command = Command {
    name: "offline",
    aliases: &[],
    summary: "Take devices offline that the pool can do without.",
    forms: &["pool device ..."],
    flags: &[
        switch("f", "mark them as failed"),
        switch("t", "until the next import"),
    ],
    operands: Operands::ANY,
    run: offline,
};

/// `zpool online`.
pub(super) const ONLINE: Command = Command {
    name: "online",
    aliases: &[],
    summary: "Bring devices online; they are resilvered with what they missed.",
    forms: &["pool device ..."],
    flags: &[switch("e", "expand to all the space that they have now")],
    operands: Operands::ANY,
    run: online,
};

fn devices(call: &Invocation) -> Result<(&str, Vec<String>), Stop> {
    match call.operands() {
        [] => Err(usage("missing pool name")),
        [_] => Err(usage("missing device name")),
        [name, devices @ ..] => Ok((name, devices.to_vec())),
    }
}

fn offline(call: &Invocation) -> Outcome {
    let (name, devices) = devices(call)?;
    let request = Change::OfflineDevices(OfflineDevices {
        devices,
        faulted: call.has("f"),
        temporary: call.has("t"),
    });
    change(&mut pool(name)?, request, &call.line)
}

fn online(call: &Invocation) -> Outcome {
    let (name, devices) = devices(call)?;
    let request = Change::OnlineDevices(OnlineDevices {
        devices,
        expand: call.has("e"),
    });
    change(&mut pool(name)?, request, &call.line)
}
