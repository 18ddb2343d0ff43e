//! `zpool history`.

use admin::queries::History;

use crate::daemons::{administered, ended};
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, complain, print};

/// `zpool history`.
pub(super) const COMMAND: Command = Command {
    name: "history",
    aliases: &[],
    summary: "Show the commands that changed pools.",
    forms: &["[pool] ..."],
    flags: &[
        switch("i", "internal events, too"),
        switch("l", "user, host and zone"),
    ],
    operands: Operands::ANY,
    run: history,
};

fn history(call: &Invocation) -> Outcome {
    let (connections, complete) = administered(call.operands())?;
    if connections.is_empty() && complete {
        complain(&match rustix::process::getuid().is_root() {
            true => "no pools available",
            false => "no pools of your own available",
        });
    }
    for mut connection in connections {
        let records = connection.ask_all(History {
            internal: call.has("i"),
        })?;
        print(&crate::render::history(
            connection.pool(),
            &records,
            call.has("i"),
            call.has("l"),
        ))?;
    }
    ended(complete)
}
