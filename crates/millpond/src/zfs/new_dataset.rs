//! What the commands that make datasets have in common.

use admin::client::Connection;
use admin::{Assignments, Failure, FailureKind, client, pool_of};

use crate::arguments::{assign_dataset, bad_assignment};
use crate::grammar::Invocation;
use crate::output::Stop;

/// The daemon of the pool in which something is to be made.
pub(super) fn target(verb: &str, name: &str) -> Result<Connection, Failure> {
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

pub(super) fn properties(call: &Invocation, verb: &str, name: &str) -> Result<Assignments, Stop> {
    let mut found = Assignments::new();
    for text in call.values("o") {
        assign_dataset(&mut found, text, true)
            .map_err(|error| bad_assignment(verb, name, &error))?;
    }
    Ok(found)
}
