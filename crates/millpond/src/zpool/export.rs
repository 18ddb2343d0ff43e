//! `zpool export`.

use admin::changes::Export;
use admin::client::state_directory;
use admin::register::forget;
use admin::{Change, Failure, FailureKind};

use super::flags::all_or_named;
use crate::daemons::{absent_named, close, each};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::Outcome;

/// `zpool export`.
pub(super) const COMMAND: Command = Command {
    name: "export",
    aliases: &[],
    summary: "Export pools: unmount everything and release the devices.",
    forms: &["pool ...", "-a"],
    flags: &[switch("a", "all pools"), switch("f", "unmount by force")],
    operands: Operands::ANY,
    run: export,
};

/// Strikes a pool that does not run off the register: one whose devices are gone, or any by force. What its daemon
/// left mounted is unmounted.
fn forgotten(name: &str, force: bool) -> Result<bool, Failure> {
    let Some(known) = absent_named(name)? else {
        return Ok(false);
    };
    let Some(directory) = state_directory().filter(|_| force || known.present().is_empty()) else {
        return Ok(false);
    };
    unmount_dead(name)?;
    forget(&directory, known.guid).map_err(|error| {
        let text = format!("{}: {error}", directory.display());
        Failure::new(FailureKind::Medium, text)
    })?;
    Ok(true)
}

/// Unmounts what a daemon that is gone left mounted.
fn unmount_dead(pool: &str) -> Result<(), Failure> {
    let unmounted = daemon::remove_dead_mounts_of(pool);
    let left = unmounted.map_err(|error| {
        let text = format!("cannot unmount what is left of '{pool}': {error}");
        Failure::new(FailureKind::Service, text)
    })?;
    match left.first() {
        Some(path) => Err(Failure::cannot(
            FailureKind::Busy,
            "unmount",
            &path.to_string_lossy(),
            "its daemon is gone, and it does not go",
        )),
        None => Ok(()),
    }
}

fn export(call: &Invocation) -> Outcome {
    let mut names = all_or_named(call)?;
    let force = call.has("f");
    if !names.is_empty() {
        let mut left = Vec::new();
        for name in names {
            if !forgotten(&name, force)? {
                left.push(name);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        names = left;
    }
    each(&names, &mut |connection| {
        close(connection, Change::Export(Export { force }), &call.line)
    })
}
