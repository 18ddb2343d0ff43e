//! `millpond serve`.

use admin::OpenRequest;

use crate::daemons::Pools;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::Outcome;
use crate::zpool::import::{as_before, choose, places, request, with_gone};

/// `millpond serve`.
pub(super) const COMMAND: Command = Command {
    name: "serve",
    aliases: &[],
    summary: "Import a pool and serve it in this process until it is exported or a signal arrives.",
    forms: &["pool|id"],
    flags: &[
        option("d", "dir|device", "where to look; may be repeated"),
        switch("f", "even if it was in use on another host"),
        switch("N", "mount nothing"),
        option(
            "o",
            "property=value|mntopts",
            "a pool property or mount options",
        ),
        option("R", "root", "mount everything below this directory"),
        option(
            "metrics",
            "[address:]port|path",
            "serve metrics to Prometheus on a port of this host, or on a socket",
        ),
    ],
    operands: Operands::exactly(1, "missing pool argument"),
    run: serve,
};

/// `millpond serve`: imports one pool and serves it in this process.
fn serve(call: &Invocation) -> Outcome {
    let absent = Pools::beside(call.operand(0))?.absent;
    let search = places(call, &absent)?;
    let found = control::discover(&search)?;
    let wanted = call.operand(0);
    let chosen = choose(&found, wanted, &search)
        .map_err(|failure| with_gone(call, failure, wanted, &absent))?;
    let mut request = request(call, chosen, None, &search)?;
    as_before(call, &mut request, &absent);
    crate::daemons::serve(&OpenRequest::Import(request), call.value("metrics"))
}
