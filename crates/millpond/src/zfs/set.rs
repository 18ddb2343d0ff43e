//! `zfs set`.

use admin::changes::Set;
use admin::{Assignments, Change};

use crate::arguments::{assign_dataset, bad_assignment};
use crate::daemons::change_by_pool;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};

/// `zfs set`.
pub(super) const COMMAND: Command = Command {
    name: "set",
    aliases: &[],
    summary: "Set properties.",
    forms: &["property=value ... filesystem|volume|snapshot ..."],
    flags: &[switch("u", "do not remount")],
    operands: Operands::at_least(2, "missing property=value or dataset argument"),
    run: set,
};

fn set(call: &Invocation) -> Outcome {
    let count = call
        .operands()
        .iter()
        .take_while(|text| text.contains('='))
        .count();
    let (assignments, names) = call.operands().split_at(count);
    if assignments.is_empty() {
        return Err(usage("missing property=value argument"));
    }
    let Some(first) = names.first() else {
        return Err(usage("missing dataset name(s)"));
    };
    let mut properties = Assignments::new();
    for text in assignments {
        assign_dataset(&mut properties, text, false)
            .map_err(|error| bad_assignment("set property for", first, &error))?;
    }
    change_by_pool(names, &call.line, |names| {
        Change::Set(Set {
            names,
            properties: properties.clone(),
            keep_mounts: call.has("u"),
        })
    })
}
