//! `zfs diff`.

use admin::queries::{Diff, Heard};
use admin::{Failure, FailureKind, NameKind};

use crate::daemons::pool_of;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, print_bytes};
use crate::render::DiffOptions;

/// `zfs diff`.
pub(super) const COMMAND: Command = Command {
    name: "diff",
    aliases: &[],
    summary: "Show which files changed since a snapshot.",
    forms: &["snapshot [snapshot|filesystem]"],
    flags: &[
        switch("F", "file types, too"),
        switch("H", "no arrows, tabs between columns"),
        switch("t", "the times of the last changes, too"),
        switch("h", "do not escape characters in names"),
    ],
    operands: Operands::between(1, 2, "must provide at least one snapshot name"),
    run: diff,
};

fn diff(call: &Invocation) -> Outcome {
    let from = call.operand(0);
    let head = admin::dataset_of(from);
    let to = match call.operands().get(1) {
        Some(snapshot) if snapshot.starts_with('@') => format!("{head}{snapshot}"),
        Some(to) => to.clone(),
        None => head.to_owned(),
    };
    for (name, snapshot_only) in [(from, true), (&to, false)] {
        let refuse = |text: &dyn std::fmt::Display| {
            Stop::from(Failure::cannot(FailureKind::Invalid, "open", name, text))
        };
        match admin::check_name(name) {
            Err(error) => return Err(refuse(&error)),
            Ok(NameKind::Snapshot) => {}
            Ok(NameKind::Dataset) if !snapshot_only => {}
            Ok(_) => {
                let text = "operation not applicable to datasets of this type";
                return Err(refuse(&text));
            }
        }
    }
    if admin::pool_of(from) != admin::pool_of(&to) {
        let text = "Unable to obtain diffs: not an earlier snapshot from the same fs";
        return Err(Failure::new(FailureKind::Invalid, text).into());
    }
    let options = DiffOptions {
        kinds: call.has("F"),
        scripted: call.has("H"),
        times: call.has("t"),
        raw: call.has("h"),
    };
    let query = Diff {
        from: from.to_owned(),
        to,
    };
    let mut stopped = None;
    let asked = pool_of(from)?.ask_pages(query, &mut |heard| {
        let page = match heard {
            Heard::Page(page) => page,
            Heard::Warning(failure) => return Err(failure),
        };
        print_bytes(&crate::render::diff(&page, options)).map_err(|stop| {
            stopped = Some(stop);
            Failure::new(FailureKind::Service, "the output is closed")
        })
    });
    match stopped {
        Some(stop) => Err(stop),
        None => Ok(asked?),
    }
}
