//! `zpool create`, and what is asked for wherever a pool is made.

use std::path::{Path, PathBuf};

use admin::rows::dataset::{CANMOUNT, MOUNTPOINT};
use admin::rows::pool::{ALTROOT, VERSION};
use admin::{
    Assignments, CreateRequest, Failure, FailureKind, OpenRequest, PropertyError, Value, VdevClass,
    VdevSpec, client,
};

use super::flags::{ALTERNATE_ROOT, altroot};
use super::vdev_specs::{check_files, check_redundancy, check_sizes, file_size, tree, vdevs};
use crate::arguments::{assign_dataset, assign_pool, bad_assignment};
use crate::grammar::{Command, Flag, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};

/// Of everything that makes a pool.
pub(crate) const NO_FEATURES: Flag = switch("d", "enable only the features that are named");
/// Likewise.
pub(crate) const POOL_PROPERTY: Flag = option(
    "o",
    "property=value",
    "a pool property or feature@name; may be repeated",
);
/// Likewise.
pub(crate) const ROOT_PROPERTY: Flag = option(
    "O",
    "property=value",
    "a property of the root file system; may be repeated",
);

/// `zpool create`.
pub(super) const COMMAND: Command = Command {
    name: "create",
    aliases: &[],
    summary: "Create a pool of files, disks, or disks of NBD servers (nbd://HOST/EXPORT).",
    forms: &["pool vdev ..."],
    flags: &[
        switch("f", "use devices that look used"),
        switch("n", "only show what would be created"),
        NO_FEATURES,
        POOL_PROPERTY,
        ROOT_PROPERTY,
        option("m", "mountpoint", "where the root file system is mounted"),
        ALTERNATE_ROOT,
        option("t", "tempname", "a temporary name of the pool"),
        option("size", "SIZE", "create missing files with this size"),
    ],
    operands: Operands::at_least(1, "missing pool name argument"),
    run: create,
};

fn create(call: &Invocation) -> Outcome {
    let (name, words) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name"))?;
    if words.is_empty() {
        return Err(usage("missing vdev specification"));
    }
    let refused = |reason: &dyn std::fmt::Display| {
        Failure::cannot(FailureKind::Invalid, "create", name, reason)
    };
    if let Err(error) = admin::check_pool(name) {
        let failure = refused(&error);
        return Err(if name.contains('/') {
            failure
                .advise("use 'zfs create' to create a dataset")
                .into()
        } else {
            failure.into()
        });
    }
    let specs = vdevs(words)?;
    if !specs.iter().any(|vdev| vdev.class == VdevClass::Normal) {
        let text = "invalid vdev specification: at least one toplevel vdev must be specified";
        return Err(Failure::new(FailureKind::Invalid, text).into());
    }
    let mut request = request(call, name, specs)?;
    let taken = request.temporary_name.clone();
    let taken = taken.as_ref().unwrap_or(name);
    request.file_size = file_size(call)?;
    if let Some(temporary) = &request.temporary_name {
        admin::check_pool(temporary).map_err(|error| refused(&error))?;
    }
    // First: where a pool of this name is mounted, its daemon may not answer.
    if client::connect(taken)?.is_some() {
        return Err(
            Failure::cannot(FailureKind::Exists, "create", taken, "pool already exists").into(),
        );
    }
    check_mountpoint(&request)?;
    check_files(&request.vdevs, request.file_size)?;
    if !request.force {
        check_sizes(&request.vdevs)?;
        check_redundancy(&request.vdevs)?;
    }
    if call.has("n") {
        return print(&layout(&request));
    }
    let mut request = request;
    request.key =
        crate::key_material::for_new_dataset("create", name, &request.dataset_properties)?;
    let started = crate::daemons::start(&OpenRequest::Create(request));
    if let Err(Stop::Quiet(_)) = started {
        complain(&format_args!(
            "the pool is there all the same: 'zfs mount {taken}' mounts it, 'zpool destroy {taken}' takes it back"
        ));
    }
    started
}

pub(crate) fn request(
    call: &Invocation,
    name: &str,
    vdevs: Vec<VdevSpec>,
) -> Result<CreateRequest, Stop> {
    let refused = |error: PropertyError| bad_assignment("create", name, &error);
    let mut assigned = Assignments::new();
    for text in call.values("o") {
        assign_pool(&mut assigned, text).map_err(refused)?;
    }
    let mut features = Vec::new();
    let mut properties = Assignments::new();
    let mut temporary_name = call.value("t").map(str::to_owned);
    for (property, value) in assigned {
        match (property.strip_prefix("feature@"), value) {
            (Some(feature), _) if !control::is_feature(feature) => {
                return Err(refused(PropertyError::Unknown(property)));
            }
            (Some(feature), value) => {
                features.push((
                    feature.to_owned(),
                    value == Value::Text("enabled".to_owned()),
                ));
            }
            (None, Value::Text(text)) if property == "tname" => temporary_name = Some(text),
            (None, value) => properties.push((property, value)),
        }
    }
    if !features.is_empty() && properties.iter().any(|(name, _)| VERSION.is(name)) {
        return Err(usage(
            "'feature@' and 'version' properties cannot be specified together",
        ));
    }
    let mut dataset_properties = Assignments::new();
    for text in call.values("O") {
        assign_dataset(&mut dataset_properties, text, true).map_err(refused)?;
    }
    if let Some(path) = call.value("m") {
        assign_dataset(&mut dataset_properties, &format!("mountpoint={path}"), true)
            .map_err(refused)?;
    }
    if let Some(path) = call.value("R")
        && !path.starts_with('/')
    {
        return Err(refused(PropertyError::NotAbsolute(ALTROOT.name)));
    }
    let altroot = altroot(call, &mut properties);
    Ok(CreateRequest {
        name: name.to_owned(),
        temporary_name,
        vdevs,
        properties,
        features,
        without_features: call.has("d"),
        dataset_properties,
        altroot,
        force: call.has("f"),
        file_size: None,
        key: None,
        command: call.line.clone(),
    })
}

/// Refuses a mount point that an ordinary user cannot have, before there is a pool that is mounted nowhere.
fn check_may_mount(request: &CreateRequest, path: &Path) -> Result<(), Failure> {
    let mounts = request
        .dataset_properties
        .iter()
        .all(|(name, _)| !CANMOUNT.is(name));
    if rustix::process::getuid().is_root() || !mounts {
        return Ok(());
    }
    let there = path.ancestors().find(|place| place.exists());
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let Some(Err(error)) = there.map(|place| rustix::fs::access(place, wanted)) else {
        return Ok(());
    };
    let reason = match error {
        rustix::io::Errno::ROFS => "Read-only file system",
        _ => "Permission denied",
    };
    let reason = format!("mountpoint '{}': {reason}", path.display());
    let failure = Failure::cannot(FailureKind::Permission, "create", &request.name, reason);
    Err(failure.advise(format!(
        "mount it below a directory of your own: '-R {}'",
        own_directory().display()
    )))
}

/// Where an ordinary user may mount.
pub(super) fn own_directory() -> PathBuf {
    client::home_directory().map_or_else(|| PathBuf::from("DIRECTORY"), |home| home.join("mnt"))
}

/// Refuses a mount point that holds something.
fn check_mountpoint(request: &CreateRequest) -> Result<(), Failure> {
    let given = request
        .dataset_properties
        .iter()
        .find(|(name, _)| MOUNTPOINT.is(name));
    let place = match given {
        Some((_, Value::Text(text))) if matches!(text.as_str(), "none" | "legacy") => return Ok(()),
        Some((_, Value::Text(text))) => text.clone(),
        _ => {
            let name = request.temporary_name.as_ref().unwrap_or(&request.name);
            format!("/{name}")
        }
    };
    let path = match &request.altroot {
        Some(root) => root.join(place.trim_start_matches('/')),
        None => PathBuf::from(&place),
    };
    check_may_mount(request, &path)?;
    let shown = path.display();
    let occupied = std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
    if occupied || path.is_file() {
        let (what, advice) = if given.is_some() {
            (
                "exists and is not empty",
                "choose another directory with '-m', or empty it",
            )
        } else {
            (
                "exists and is not empty",
                "use '-m' option to provide a different default",
            )
        };
        let text = format!("mountpoint '{shown}' {what}");
        return Err(Failure::new(FailureKind::Busy, text).advise(advice));
    }
    Ok(())
}

/// What `-n` prints.
fn layout(request: &CreateRequest) -> String {
    let name = &request.name;
    let out = format!("would create '{name}' with the following layout:\n\n\t{name}\n");
    out + &tree(&request.vdevs)
}
