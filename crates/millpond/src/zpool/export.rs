//! `zpool export`.

use admin::Change;
use admin::changes::Export;

use super::flags::all_or_named;
use crate::daemons::{close, each};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::Outcome;

/// `zpool export`.
pub(super) const COMMAND: Command = Command {
    name: "export",
    aliases: &[],
    summary: "Unmount everything and let pools go.",
    forms: &["pool ...", "-a"],
    flags: &[switch("a", "all pools"), switch("f", "unmount by force")],
    operands: Operands::ANY,
    run: export,
};

fn export(call: &Invocation) -> Outcome {
    let names = all_or_named(call)?;
    let force = call.has("f");
    each(&names, &mut |connection| {
        close(connection, Change::Export(Export { force }), &call.line)
    })
}
