//! `zpool labelclear`.

use std::path::Path;

use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::Outcome;

/// `zpool labelclear`.
pub(super) const COMMAND: Command = Command {
    name: "labelclear",
    aliases: &[],
    summary: "Wipe the labels of a device that is not in use.",
    forms: &["device"],
    flags: &[switch(
        "f",
        "even if it belongs to a pool that could be imported",
    )],
    operands: Operands::exactly(1, "missing vdev name"),
    run: labelclear,
};

fn labelclear(call: &Invocation) -> Outcome {
    let word = call.operand(0);
    let path = if word.contains('/') || control::device_exists(Path::new(word)) {
        Path::new(word).to_owned()
    } else {
        Path::new("/dev").join(word)
    };
    Ok(control::labelclear(&path, call.has("f"))?)
}
