//! The commands that make, destroy and rename datasets, snapshots and bookmarks.

use admin::changes::{
    Bookmark, CloneSnapshot, Create, Destroy, Promote, Rename, Rollback, Snapshot,
};
use admin::client::{self, Connection};
use admin::{
    Assignments, Change, DestroyTarget, Failure, FailureKind, NameKind, VolumeSpec, check_dataset,
    kind_of, pool_of,
};

use crate::Outcome;
use crate::arguments::assign_dataset;
use crate::daemons::change;
use crate::grammar::Invocation;
use crate::output::{Stop, print, usage};

fn cannot(verb: &str, name: &str, reason: impl std::fmt::Display) -> Failure {
    Failure::cannot(FailureKind::Invalid, verb, name, reason)
}

/// The daemon of the pool in which something is to be made.
fn target(verb: &str, name: &str) -> Result<Connection, Failure> {
    let pool = pool_of(name);
    client::connect(pool)?.ok_or_else(|| {
        Failure::cannot(
            FailureKind::Missing,
            verb,
            name,
            format!("no such pool '{pool}'"),
        )
    })
}

fn properties(call: &Invocation, verb: &str, name: &str) -> Result<Assignments, Stop> {
    let mut found = Assignments::new();
    for text in call.values("o") {
        assign_dataset(&mut found, text, true).map_err(|error| match error {
            admin::PropertyError::NoEquals | admin::PropertyError::Twice(_) => {
                usage(error.to_string())
            }
            error => cannot(verb, name, error).into(),
        })?;
    }
    Ok(found)
}

pub(crate) fn create(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let volume_only = ["s", "b"].iter().any(|flag| call.has(flag));
    if volume_only && !call.has("V") {
        return Err(usage(
            "'-s' and '-b' can only be used when creating a volume",
        ));
    }
    check_dataset(name).map_err(|error| cannot("create", name, error))?;
    if !name.contains('/') {
        return Err(cannot("create", name, "missing dataset name")
            .advise(format!(
                "use 'zpool create {name}' to create a storage pool"
            ))
            .into());
    }
    let mut properties = properties(call, "create", name)?;
    let volume = match call.value("V") {
        None => None,
        Some(text) => {
            let size = admin::parse_size(text)
                .map_err(|error| usage(format!("bad volume size '{text}': {error}")))?;
            if let Some(block) = call.value("b") {
                assign_dataset(&mut properties, &format!("volblocksize={block}"), true)
                    .map_err(|error| cannot("create", name, error))?;
            }
            if size == 0 {
                return Err(cannot("create", name, "volume size cannot be zero").into());
            }
            Some(VolumeSpec {
                size,
                sparse: call.has("s"),
            })
        }
    };
    let mut connection = target("create", name)?;
    if call.has("n") || call.has("v") {
        print(&announcement(call, name))?;
    }
    if call.has("n") {
        return Ok(());
    }
    let request = Change::Create(Create {
        name: name.to_owned(),
        volume,
        properties,
        parents: call.has("p"),
        unmounted: call.has("u"),
    });
    change(&mut connection, request, &call.line)
}

fn announcement(call: &Invocation, name: &str) -> String {
    let mut out = match (call.has("P"), call.has("n")) {
        (true, _) => format!("create\t{name}\n"),
        (false, true) => format!("would create {name}\n"),
        (false, false) => format!("create {name}\n"),
    };
    for text in call.values("o") {
        let (property, value) = text.split_once('=').unwrap_or((text, ""));
        out += &if call.has("P") {
            format!("property\t{property}\t{value}\n")
        } else {
            format!("\t{property}={value}\n")
        };
    }
    out
}

pub(crate) fn destroy(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let (dataset, target) = match kind_of(name) {
        NameKind::Snapshot => {
            let (dataset, specs) = name.split_once('@').unwrap_or((name, ""));
            let specs: Vec<String> = specs.split(',').map(str::to_owned).collect();
            let dataset_name = dataset.to_owned();
            (
                dataset,
                DestroyTarget::Snapshots {
                    dataset: dataset_name,
                    specs,
                },
            )
        }
        NameKind::Bookmark => {
            let dataset = admin::dataset_of(name);
            if call.has("n") {
                let text = "dryrun is not supported with bookmark";
                return Err(Failure::new(FailureKind::Invalid, text).into());
            }
            if call.has("r") || call.has("R") || call.has("d") {
                return Err(usage(
                    "bookmarks cannot be destroyed with '-r', '-R' or '-d'",
                ));
            }
            (dataset, DestroyTarget::Bookmark(name.to_owned()))
        }
        NameKind::Dataset => {
            if call.has("d") {
                return Err(usage("'-d' can only be used with snapshots"));
            }
            (name, DestroyTarget::Dataset(name.to_owned()))
        }
    };
    check_dataset(dataset).map_err(|error| cannot("open", dataset, error))?;
    let mut connection = crate::daemons::pool_of(dataset)?;
    let dry_run = call.has("n");
    let request = Change::Destroy(Destroy {
        target,
        recursive: call.has("r") || call.has("R"),
        dependents: call.has("R"),
        force: call.has("f"),
        deferred: call.has("d"),
        dry_run,
    });
    let verbosity = if call.has("p") {
        Verbosity::Scripted
    } else if call.has("v") {
        Verbosity::Plain { dry_run }
    } else {
        Verbosity::Silent
    };
    let line = if dry_run { "" } else { &call.line };
    destroying(&mut connection, request, line, verbosity)
}

/// What `destroy` says of each thing that goes.
#[derive(Clone, Copy)]
enum Verbosity {
    Silent,
    Plain { dry_run: bool },
    Scripted,
}

/// The daemon says `destroy NAME` and `reclaim BYTES`; here they become what was asked for.
fn destroying(
    connection: &mut Connection,
    request: Change,
    line: &str,
    verbosity: Verbosity,
) -> Outcome {
    let mut out = String::new();
    let request = admin::Request::Change {
        change: request,
        command: line.to_owned(),
    };
    let mut complete = true;
    connection.call(&request, &mut |part| {
        match part {
            admin::Response::Line(said) => out += &spoken(&said, verbosity),
            admin::Response::Warning(failure) => {
                crate::output::complain(&failure);
                complete = false;
            }
            _ => {}
        }
        Ok(())
    })?;
    print(&out)?;
    crate::daemons::ended(complete)
}

fn spoken(said: &str, verbosity: Verbosity) -> String {
    let (verb, what) = said.split_once(' ').unwrap_or((said, ""));
    match verbosity {
        Verbosity::Silent => String::new(),
        Verbosity::Scripted => format!("{verb}\t{what}\n"),
        Verbosity::Plain { dry_run } => {
            let mood = if dry_run { "would" } else { "will" };
            let what = match (verb, what.parse()) {
                ("reclaim", Ok(bytes)) => admin::human_bytes(bytes),
                _ => what.to_owned(),
            };
            format!("{mood} {verb} {what}\n")
        }
    }
}

pub(crate) fn snapshot(call: &Invocation) -> Outcome {
    let names = call.operands();
    let pool = pool_of(&names[0]);
    for name in names {
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::cannot(FailureKind::Invalid, "create snapshot", name, reason)
                .advise("no snapshots were created")
        };
        admin::check_snapshot(name).map_err(|error| failed(&error))?;
        if pool_of(name) != pool {
            return Err(failed(&"snapshots of several pools cannot be taken at once").into());
        }
    }
    let mut properties = Assignments::new();
    for text in call.values("o") {
        assign_dataset(&mut properties, text, true).map_err(|error| usage(error.to_string()))?;
    }
    let mut connection = crate::daemons::pool_of(admin::dataset_of(&names[0]))?;
    let request = Change::Snapshot(Snapshot {
        names: names.to_vec(),
        recursive: call.has("r"),
        properties,
    });
    change(&mut connection, request, &call.line)
}

pub(crate) fn rollback(call: &Invocation) -> Outcome {
    let snapshot = call.operand(0);
    admin::check_snapshot(snapshot).map_err(|error| cannot("open", snapshot, error))?;
    let mut connection = crate::daemons::pool_of(snapshot)?;
    let request = Change::Rollback(Rollback {
        snapshot: snapshot.to_owned(),
        destroy_later: call.has("r") || call.has("R"),
        destroy_clones: call.has("R"),
        force: call.has("f"),
    });
    change(&mut connection, request, &call.line)
}

pub(crate) fn clone(call: &Invocation) -> Outcome {
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

pub(crate) fn promote(call: &Invocation) -> Outcome {
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

pub(crate) fn rename(call: &Invocation) -> Outcome {
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

pub(crate) fn bookmark(call: &Invocation) -> Outcome {
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
