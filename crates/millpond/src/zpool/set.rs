//! `zpool set`.

use admin::changes::SetPool;
use admin::{Assignments, Change};

use crate::arguments::{assign_pool, bad_assignment};
use crate::daemons::{change, pool};
use crate::grammar::{Command, Invocation, Operands};
use crate::output::Outcome;

/// `zpool set`.
pub(super) const COMMAND: Command = Command {
    name: "set",
    aliases: &[],
    summary: "Set a property of a pool or of one of its vdevs.",
    forms: &["property=value pool", "property=value pool vdev"],
    flags: &[],
    operands: Operands::between(2, 3, "missing property=value or pool argument"),
    run: set,
};

fn set(call: &Invocation) -> Outcome {
    let (text, name) = (call.operand(0), call.operand(1));
    if let Some(vdev) = call.operands().get(2) {
        return super::vdev::set(call, text, name, vdev);
    }
    let mut properties = Assignments::new();
    assign_pool(&mut properties, text)
        .map_err(|error| bad_assignment("set property for", name, &error))?;
    change(
        &mut pool(name)?,
        Change::SetPool(SetPool { properties }),
        &call.line,
    )
}
