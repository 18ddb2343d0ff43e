//! `zfs clone`.

use admin::changes::CloneSnapshot;
use admin::{Change, check_dataset, pool_of};

use super::flags::{PARENTS, PROPERTY, UNMOUNTED};
use super::new_dataset::properties;
use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, cannot};

/// `zfs clone`.
pub(super) const COMMAND: Command = Command {
    name: "clone",
    aliases: &[],
    summary: "Create a clone of a snapshot.",
    forms: &["snapshot filesystem|volume"],
    flags: &[PARENTS, UNMOUNTED, PROPERTY],
    operands: Operands::exactly(2, "missing source or target dataset argument"),
    run: clone,
};

fn clone(call: &Invocation) -> Outcome {
    let (snapshot, name) = (call.operand(0), call.operand(1));
    admin::check_snapshot(snapshot).map_err(|error| cannot("open", snapshot, error))?;
    check_dataset(name).map_err(|error| cannot("create", name, error))?;
    if pool_of(snapshot) != pool_of(name) {
        return Err(cannot("create", name, "source and target pools differ").into());
    }
    let properties = properties(call, "create", name)?;
    let mut connection = crate::daemons::pool_of(snapshot)?;
    let request = Change::Clone(CloneSnapshot {
        snapshot: snapshot.to_owned(),
        name: name.to_owned(),
        properties,
        parents: call.has("p"),
        unmounted: call.has("u"),
    });
    change(&mut connection, request, &call.line)
}
