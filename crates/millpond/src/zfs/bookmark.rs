//! `zfs bookmark`.

use admin::changes::Bookmark;
use admin::{Change, pool_of};

use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, cannot, usage};

/// `zfs bookmark`.
pub(super) const COMMAND: Command = Command {
    name: "bookmark",
    aliases: &[],
    summary: "Create a bookmark of a snapshot or bookmark.",
    forms: &["snapshot|bookmark newbookmark"],
    flags: &[],
    operands: Operands::exactly(2, "missing snapshot or bookmark argument"),
    run: bookmark,
};

fn bookmark(call: &Invocation) -> Outcome {
    let (mut source, mut name) = (call.operand(0).to_owned(), call.operand(1).to_owned());
    if !name.contains('#') {
        return Err(usage(format!(
            "invalid bookmark name '{name}': must contain a '#'"
        )));
    }
    if name.starts_with('#') {
        name = format!("{}{name}", admin::dataset_of(&source));
    } else if source.starts_with(['@', '#']) {
        source = format!("{}{source}", admin::dataset_of(&name));
    }
    let failed = |reason: &dyn std::fmt::Display| cannot("create bookmark", &name, reason);
    admin::check_bookmark(&name).map_err(|error| failed(&error))?;
    admin::check_name(&source).map_err(|error| cannot("open", &source, error))?;
    if pool_of(&source) != pool_of(&name) {
        return Err(failed(&"bookmark is in a different pool").into());
    }
    let mut connection = crate::daemons::pool_of(&source)?;
    change(
        &mut connection,
        Change::Bookmark(Bookmark {
            source,
            name: name.clone(),
        }),
        &call.line,
    )
}
