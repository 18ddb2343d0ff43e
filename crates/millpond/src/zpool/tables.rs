//! `zpool ddtprune` and `zpool prefetch`.

use admin::Change;
use admin::changes::{PrefetchTables, PruneDedup};

use crate::daemons::{change, each, pool};
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, usage};

/// `zpool ddtprune`.
pub(super) const PRUNE: Command = Command {
    name: "ddtprune",
    aliases: &[],
    summary: "Take old entries of blocks with one reference out of the dedup tables.",
    forms: &["pool"],
    flags: &[
        option("d", "days", "those older than so many days"),
        option("p", "percentage", "the oldest, so many of a hundred"),
    ],
    operands: Operands::exactly(1, "missing pool name"),
    run: prune,
};

/// `zpool prefetch`.
pub(super) const PREFETCH: Command = Command {
    name: "prefetch",
    aliases: &[],
    summary: "Read dedup tables or the block reference table into memory.",
    forms: &["pool ..."],
    flags: &[option("t", "type", "ddt or brt; by default both")],
    operands: Operands::at_least(1, "missing pool name argument"),
    run: prefetch,
};

fn prune(call: &Invocation) -> Outcome {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number != 0);
    let wanted = match (call.value("d"), call.value("p")) {
        (Some(_), Some(_)) => return Err(usage("-d cannot be used with -p option")),
        (Some(days), None) => number(days).map(PruneDedup::Days),
        (None, Some(percent)) => number(percent)
            .filter(|percent| *percent <= 100)
            .map(PruneDedup::Percent),
        (None, None) => return Err(usage("missing amount option")),
    };
    let Some(wanted) = wanted else {
        return Err(usage("invalid amount"));
    };
    let mut connection = pool(call.operand(0))?;
    change(&mut connection, Change::PruneDedup(wanted), &call.line)
}

fn prefetch(call: &Invocation) -> Outcome {
    let wanted: &[PrefetchTables] = match call.value("t") {
        None => &[PrefetchTables::Dedup, PrefetchTables::BlockReferences],
        Some("ddt") => &[PrefetchTables::Dedup],
        Some("brt") => &[PrefetchTables::BlockReferences],
        Some(other) => return Err(usage(format!("unsupported prefetch type '{other}'"))),
    };
    each(call.operands(), &mut |mut connection| {
        for tables in wanted {
            let request = Change::PrefetchTables(*tables);
            change(&mut connection, request, &call.line)?;
        }
        Ok(())
    })
}
