//! `zpool split`.

use std::path::PathBuf;

use admin::changes::Split;
use admin::{
    Assignments, Change, Failure, FailureKind, ImportRequest, OpenRequest, PoolStatus, Request,
    Said, VdevReport, client,
};

use super::flags::{ALTERNATE_ROOT, BY_GUID, FULL_PATH, RESOLVE, altroot, naming};
use super::import::MOUNT_OPTIONS;
use crate::arguments::{assign_pool, bad_assignment};
use crate::daemons::{change, pool, status};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, print, usage};
use crate::zfs::keys::load_missing;

/// `zpool split`.
pub(super) const COMMAND: Command = Command {
    name: "split",
    aliases: &[],
    summary: "Make a pool of one side of each mirror of another.",
    forms: &["pool newpool [device ...]"],
    flags: &[
        BY_GUID,
        RESOLVE,
        FULL_PATH,
        switch("l", "with -R: load keys"),
        switch("n", "only show what would be split off"),
        option(
            "o",
            "property=value|mntopts",
            "a property of the new pool or, with -R, mount options",
        ),
        ALTERNATE_ROOT,
    ],
    operands: Operands::ANY,
    run: split,
};

/// What is asked for besides names.
struct Asked {
    properties: Assignments,
    mount_options: Vec<String>,
    altroot: Option<PathBuf>,
}

fn split(call: &Invocation) -> Outcome {
    let (name, new, devices) = match call.operands() {
        [] => return Err(usage("missing pool name")),
        [_] => return Err(usage("missing new pool name")),
        [name, new, devices @ ..] => (name, new, devices),
    };
    let refused = |kind, reason: &dyn std::fmt::Display| {
        Failure::new(kind, format!("Unable to split {name}: {reason}"))
    };
    let asked = asked(call, name)?;
    if asked.altroot.is_none() && !asked.mount_options.is_empty() {
        return Err(usage(
            "setting mntopts is only valid when importing the pool",
        ));
    }
    if asked.altroot.is_none() && call.has("l") {
        return Err(usage("loading keys is only valid when importing the pool"));
    }
    let mut connection = pool(name)?;
    admin::check_pool(new).map_err(|error| refused(FailureKind::Invalid, &error))?;
    if client::connect(new)?.is_some() {
        return Err(refused(FailureKind::Exists, &"pool already exists").into());
    }
    let before = status(&mut connection)?;
    let mut request = Split {
        name: new.clone(),
        devices: devices.to_vec(),
        properties: asked.properties.clone(),
        dry_run: true,
    };
    let mut sides = Vec::new();
    let ask = Request::Change {
        change: Change::Split(request.clone()),
        command: String::new(),
    };
    connection.call(&ask, &mut |part| {
        if let Said::Line(guid) = part.said() {
            sides.extend(guid.parse::<u64>());
        }
        Ok(())
    })?;
    if call.has("n") {
        return print(&layout(call, new, &before, &sides));
    }
    request.dry_run = false;
    change(&mut connection, Change::Split(request), &call.line)?;
    if asked.altroot.is_none() {
        return Ok(());
    }
    import(call, new, asked, &paths(&before, &sides))
}

fn asked(call: &Invocation, name: &str) -> Result<Asked, Stop> {
    let mut properties = Assignments::new();
    let mut mount_options = Vec::new();
    for text in call.values("o") {
        if text.contains('=') {
            assign_pool(&mut properties, text)
                .map_err(|error| bad_assignment("split", name, &error))?;
            continue;
        }
        for option in text.split(',') {
            if !MOUNT_OPTIONS.contains(&option) {
                return Err(usage(format!("invalid mount option '{option}'")));
            }
            mount_options.push(option.to_owned());
        }
    }
    let altroot = altroot(call, &mut properties);
    if altroot.as_ref().is_some_and(|root| root.is_relative()) {
        return Err(usage("the alternate root must be an absolute path"));
    }
    Ok(Asked {
        properties,
        mount_options,
        altroot,
    })
}

/// The sides among a pool's vdevs.
fn chosen<'a>(status: &'a PoolStatus, sides: &[u64]) -> Vec<(&'a VdevReport, &'a VdevReport)> {
    let is_side = |vdev: &&VdevReport| sides.contains(&vdev.guid);
    let tops = status.vdevs.iter();
    let found = tops.filter_map(|top| Some((top, top.children.iter().find(is_side)?)));
    found.collect()
}

fn paths(status: &PoolStatus, sides: &[u64]) -> Vec<PathBuf> {
    let sides = chosen(status, sides).into_iter();
    let paths = sides.filter_map(|(_, side)| side.path.as_ref());
    paths.map(PathBuf::from).collect()
}

/// What `-n` prints.
fn layout(call: &Invocation, new: &str, status: &PoolStatus, sides: &[u64]) -> String {
    use admin::VdevClass::{Cache, Dedup, Log, Normal, Spare, Special};
    let mut out = format!("would create '{new}' with the following layout:\n\n\t{new}\n");
    let mut head = Normal;
    for (top, side) in chosen(status, sides) {
        if top.class != head {
            head = top.class;
            out += match head {
                Dedup => "\tdedup\n",
                Special => "\tspecial\n",
                Normal | Log | Cache | Spare => "",
            };
        }
        out += &format!("\t  {}\n", naming(call).name(side));
    }
    out
}

/// Imports the new pool, which is mounted below the alternate root.
fn import(call: &Invocation, new: &str, asked: Asked, paths: &[PathBuf]) -> Outcome {
    let found = control::discover(paths)?.into_iter();
    let mut found = found.filter(|found| found.candidate.name == new);
    let found = found.next().ok_or_else(|| {
        let reason = "no such pool available";
        Failure::cannot(FailureKind::Missing, "import", new, reason)
    })?;
    let mount_later = call.has("l");
    let request = ImportRequest {
        guid: found.candidate.guid,
        name: new.to_owned(),
        new_name: None,
        temporary: false,
        search: paths.to_vec(),
        readonly: false,
        force: false,
        rewind: false,
        rewind_extreme: false,
        to_checkpoint: false,
        dry_run: false,
        txg_max: None,
        destroyed: false,
        missing_log: false,
        unmounted: mount_later,
        altroot: asked.altroot,
        properties: Assignments::new(),
        of_stranger: None,
        mount_options: asked.mount_options.clone(),
        command: call.line.clone(),
    };
    crate::daemons::start(&OpenRequest::Import(request))?;
    if !mount_later {
        return Ok(());
    }
    let mut connection = pool(new)?;
    let loaded = load_missing(&mut connection, None, true);
    super::import::mount_all(&mut connection, asked.mount_options)?;
    loaded
}
