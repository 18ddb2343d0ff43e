//! `zpool attach` and `zpool replace`.

use std::path::PathBuf;

use admin::Change;
use admin::changes::AttachDevice;

use super::vdev_specs::{asked_ashift, new_device};
use super::wait::under_way;
use crate::daemons::{change, pool, status};
use crate::grammar::{Command, Flag, Invocation, Operands, option, switch};
use crate::output::{Outcome, usage};
use crate::waiting::until_idle;

const FLAGS: &[Flag] = &[
    switch("f", "use a device that looks used"),
    switch(
        "s",
        "fill it in the order of places, and scrub the pool then; for mirrors and dRAIDs",
    ),
    switch("w", "wait until it is resilvered, or the RAID-Z expanded"),
    option("o", "ashift=number", "the sector size as a power of two"),
];

/// `zpool attach`.
pub(super) const ATTACH: Command = Command {
    name: "attach",
    aliases: &[],
    summary: "Attach a device to another one, which becomes a mirror, to a mirror, or to a RAID-Z, which is expanded.",
    forms: &["pool device|raidz new-device"],
    flags: FLAGS,
    operands: Operands::ANY,
    run: attach,
};

/// `zpool replace`.
pub(super) const REPLACE: Command = Command {
    name: "replace",
    aliases: &[],
    summary: "Replace a device with another one.",
    forms: &["pool device [new-device]"],
    flags: FLAGS,
    operands: Operands::ANY,
    run: replace,
};

fn attach(call: &Invocation) -> Outcome {
    run(call, false)
}

fn replace(call: &Invocation) -> Outcome {
    run(call, true)
}

fn run(call: &Invocation, replace: bool) -> Outcome {
    let (name, device, new) = match call.operands() {
        [] => return Err(usage("missing pool name argument")),
        [_] => return Err(usage("missing <device> specification")),
        [_, _] if !replace => return Err(usage("missing <new_device> specification")),
        [name, device] => (name, device, None),
        [name, device, new] => (name, device, Some(new)),
        _ => return Err(usage("too many arguments")),
    };
    let new: Option<PathBuf> = new.map(|word| new_device(word)).transpose()?;
    let request = AttachDevice {
        device: device.clone(),
        new,
        replace,
        ashift: asked_ashift(call)?,
        force: call.has("f"),
        sequential: call.has("s"),
    };
    let mut connection = pool(name)?;
    change(&mut connection, Change::AttachDevice(request), &call.line)?;
    if !call.has("w") {
        return Ok(());
    }
    if !replace && device.starts_with("raidz") {
        return until_idle(connection, &mut |connection| {
            Ok(under_way(&status(connection)?).is_idle(&["raidz_expand"]))
        });
    }
    if call.has("s") {
        return until_idle(connection, &mut |connection| {
            Ok(under_way(&status(connection)?).is_idle(&["resilver"]))
        });
    }
    change(&mut connection, Change::WaitScrub, "")
}
