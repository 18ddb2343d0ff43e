//! `zfs rename`.

use admin::changes::Rename;
use admin::{Change, NameKind, check_dataset, kind_of, pool_of};

use super::flags::PARENTS;
use super::new_dataset::target;
use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, cannot, usage};

/// `zfs rename`.
pub(super) const COMMAND: Command = Command {
    name: "rename",
    aliases: &[],
    summary: "Rename a dataset, snapshot or bookmark.",
    forms: &["filesystem|volume|snapshot newname"],
    flags: &[
        switch("f", "unmount even if other mount namespaces have copies"),
        PARENTS,
        switch("u", "do not remount"),
        switch("r", "also the snapshots of this name of descendants"),
    ],
    operands: Operands::exactly(2, "missing source or target dataset argument"),
    run: rename,
};

fn rename(call: &Invocation) -> Outcome {
    let from = call.operand(0);
    let mut to = call.operand(1).to_owned();
    // `zfs rename tank/a@old @new` and `… new` are enough for snapshots.
    if let Some((dataset, _)) = from.split_once('@') {
        if let Some(short) = to.strip_prefix('@') {
            to = format!("{dataset}@{short}");
        } else if !to.contains(['@', '/']) {
            to = format!("{dataset}@{to}");
        }
    }
    admin::check_name(from).map_err(|error| cannot("open", from, error))?;
    admin::check_name(&to).map_err(|error| cannot("rename to", &to, error))?;
    check_renaming(call, from, &to)?;
    let mut connection = crate::daemons::pool_of(from)?;
    let request = Change::Rename(Rename {
        from: from.to_owned(),
        to,
        parents: call.has("p"),
        recursive: call.has("r"),
        keep_mounts: call.has("u"),
        force: call.has("f"),
    });
    change(&mut connection, request, &call.line)
}

/// What cannot be renamed so, whatever is there.
fn check_renaming(call: &Invocation, from: &str, to: &str) -> Result<(), Stop> {
    let snapshot = kind_of(from) == NameKind::Snapshot;
    if call.has("r") && !snapshot {
        return Err(usage(
            "source dataset for recursive rename must be a snapshot",
        ));
    }
    if kind_of(from) == NameKind::Bookmark || (snapshot && (call.has("p") || call.has("u"))) {
        check_dataset(from).map_err(|error| cannot("open", from, error))?;
    }
    if snapshot {
        let same = admin::dataset_of(from) == admin::dataset_of(to);
        let reason = "snapshots must be part of same dataset";
        return if same {
            Ok(())
        } else {
            Err(cannot("rename to", to, reason).into())
        };
    }
    check_dataset(to).map_err(|error| cannot("rename to", to, error))?;
    if pool_of(from) != pool_of(to) {
        target("create", to)?;
        let reason = "datasets must be within same pool";
        return Err(cannot("rename to", to, reason).into());
    }
    if admin::is_within(to, from) && to != from {
        let reason = "New dataset name cannot be a descendant of current dataset name";
        return Err(cannot("rename to", to, reason).into());
    }
    Ok(())
}
