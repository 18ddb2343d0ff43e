//! `zfs promote`.

use admin::changes::Promote;
use admin::{Change, NameKind, check_dataset, kind_of};

use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, cannot};

/// `zfs promote`.
pub(super) const COMMAND: Command = Command {
    name: "promote",
    aliases: &[],
    summary: "Promote a clone: its origin becomes a clone of it.",
    forms: &["clone-filesystem"],
    flags: &[],
    operands: Operands::exactly(1, "missing clone filesystem argument"),
    run: promote,
};

fn promote(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    if kind_of(name) == NameKind::Snapshot {
        return Err(cannot("promote", name, "snapshots can not be promoted").into());
    }
    check_dataset(name).map_err(|error| cannot("open", name, error))?;
    let mut connection = crate::daemons::pool_of(name)?;
    change(
        &mut connection,
        Change::Promote(Promote {
            name: name.to_owned(),
        }),
        &call.line,
    )
}
