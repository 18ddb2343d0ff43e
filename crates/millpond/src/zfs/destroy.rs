//! `zfs destroy`.

use admin::changes::Destroy;
use admin::client::Connection;
use admin::{Change, DestroyTarget, Failure, FailureKind, NameKind, Said, check_dataset, kind_of};

use super::flags::{DATASET, RECURSIVE};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{MINUS_ONE, Outcome, Stop, cannot, complain, print, usage};

/// `zfs destroy`.
pub(super) const COMMAND: Command = Command {
    name: "destroy",
    aliases: &[],
    summary: "Destroy file systems, volumes, snapshots or a bookmark.",
    forms: &[
        "filesystem|volume",
        "filesystem|volume@snap[%snap][,...]",
        "filesystem#bookmark",
    ],
    flags: &[
        switch("f", "unmount even if other mount namespaces have copies"),
        switch("n", "only show what would be destroyed"),
        switch("p", "the same, for scripts"),
        switch("R", "also clones outside"),
        RECURSIVE,
        switch("v", "show what is destroyed"),
        switch("d", "defer snapshots in use until their last user is gone"),
    ],
    operands: Operands::exactly(1, DATASET),
    run: destroy,
};

fn destroy(call: &Invocation) -> Outcome {
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
                complain(&Failure::new(FailureKind::Invalid, text));
                return Err(Stop::Quiet(MINUS_ONE));
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
        match part.said() {
            Said::Line(line) => out += &spoken(&line, verbosity),
            Said::Warning(failure) => {
                complain(&failure);
                complete = false;
            }
            Said::Notice(text) => complain(&text),
            Said::Answer(_) | Said::Done | Said::Failed(_) => {}
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
