//! `zfs wait`.

use admin::queries::DeleteQueue;
use admin::{Failure, FailureKind, NameKind};

use crate::daemons::pool_of;
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, Stop, usage};
use crate::waiting::until_idle;

/// `zfs wait`.
pub(super) const COMMAND: Command = Command {
    name: "wait",
    aliases: &[],
    summary: "Wait until background work in a file system has ended.",
    forms: &["filesystem"],
    flags: &[option("t", "activity[,...]", "only this: deleteq")],
    operands: Operands::exactly(1, "missing 'filesystem' argument"),
    run: wait,
};

/// Waits until the files that were removed while they were open are freed, or the file system is
/// unmounted or destroyed.
fn wait(call: &Invocation) -> Outcome {
    for word in call.values("t").flat_map(|words| words.split(',')) {
        if word != "deleteq" {
            return Err(usage(format!("invalid activity '{word}'")));
        }
    }
    let name = call.operand(0);
    let invalid = |text: &dyn std::fmt::Display| {
        Err(Failure::cannot(FailureKind::Invalid, "open", name, text).into())
    };
    match admin::check_name(name) {
        Err(error) => return invalid(&error),
        Ok(NameKind::Dataset) => {}
        Ok(_) => return invalid(&"operation not applicable to datasets of this type"),
    }
    let mut first = true;
    until_idle(pool_of(name)?, &mut |connection| {
        let left = connection.ask(DeleteQueue {
            name: name.to_owned(),
        });
        match left {
            Ok(left) => {
                first = false;
                Ok(left == 0)
            }
            // It was destroyed meanwhile.
            Err(failure) if failure.kind == FailureKind::Missing && !first => Ok(true),
            Err(failure) => Err(Stop::from(failure)),
        }
    })
}
