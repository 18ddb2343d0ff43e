//! `zpool detach`.

use admin::Change;
use admin::changes::DetachDevice;

use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, usage};

/// `zpool detach`.
pub(super) const COMMAND: Command = Command {
    name: "detach",
    aliases: &[],
    summary: "Detach a device from a mirror, or cancel a replacement.",
    forms: &["pool device"],
    flags: &[],
    operands: Operands::ANY,
    run: detach,
};

fn detach(call: &Invocation) -> Outcome {
    let (name, device) = match call.operands() {
        [] => return Err(usage("missing pool name argument")),
        [_] => return Err(usage("missing <device> specification")),
        [name, device] => (name, device.clone()),
        _ => return Err(usage("too many arguments")),
    };
    let request = Change::DetachDevice(DetachDevice { device });
    change(&mut pool(name)?, request, &call.line)
}
