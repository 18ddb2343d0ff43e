//! `zpool add`.

use admin::Change;
use admin::changes::{AddVdevs, CheckVdevs};

use super::vdev_specs::{asked_ashift, check_files, check_sizes, file_size, tree_with, vdevs};
use crate::daemons::{change, pool, status};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, print, usage};

/// `zpool add`.
pub(super) const COMMAND: Command = Command {
    name: "add",
    aliases: &[],
    summary: "Add devices to a pool.",
    forms: &["pool vdev ..."],
    flags: &[
        switch("f", "use devices that look used, and mixed redundancy"),
        switch("n", "only show what the pool would be"),
        option("o", "ashift=number", "the sector size as a power of two"),
        option("size", "SIZE", "create missing files with this size"),
    ],
    operands: Operands::at_least(1, "missing pool name argument"),
    run: add,
};

fn add(call: &Invocation) -> Outcome {
    let (name, words) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name argument"))?;
    if words.is_empty() {
        return Err(usage("missing vdev specification"));
    }
    let specs = vdevs(words)?;
    let size = file_size(call)?;
    check_files(&specs, size)?;
    if !call.has("f") {
        check_sizes(&specs)?;
    }
    let ashift = asked_ashift(call)?;
    let mut connection = pool(name)?;
    let wanted = AddVdevs {
        vdevs: specs.clone(),
        ashift,
        force: call.has("f"),
        file_size: size,
    };
    let dry_run = call.has("n");
    let request = match dry_run {
        true => Change::CheckVdevs(CheckVdevs { wanted }),
        false => Change::AddVdevs(wanted),
    };
    change(&mut connection, request, &call.line)?;
    if dry_run {
        let there = status(&mut connection)?;
        let head = format!("would update '{name}' to the following configuration:\n\n\t{name}\n");
        return print(&(head + &tree_with(&there.vdevs, &specs)));
    }
    Ok(())
}
