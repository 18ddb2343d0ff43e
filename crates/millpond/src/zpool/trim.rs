//! `zpool trim`.

use admin::changes::{Trim, WaitTrim};
use admin::{Change, TrimAction};

use crate::daemons::{change, each};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, usage};

/// `zpool trim`.
pub(super) const COMMAND: Command = Command {
    name: "trim",
    aliases: &[],
    summary: "Discard free space on devices, in the background.",
    forms: &["pool [device] ...", "-a"],
    flags: &[
        switch("a", "all pools"),
        switch("d", "secure trim; no device supports it"),
        option(
            "r",
            "rate",
            "at most so many bytes a second for each device",
        ),
        switch("c", "cancel it"),
        switch("s", "suspend it"),
        switch("w", "wait until it has ended"),
    ],
    operands: Operands::ANY,
    run: trim,
};

fn trim(call: &Invocation) -> Outcome {
    let rate = call.value("r").map(admin::parse_size).transpose();
    let rate = rate.map_err(|error| usage(format!("invalid value for rate: {error}")))?;
    let secure = call.has("d");
    let action = match (call.has("c"), call.has("s")) {
        (true, true) => return Err(usage("-c cannot be combined with other options")),
        (true, _) | (_, true) if rate.is_some() || secure || call.has("w") => {
            return Err(usage("-c and -s cannot be combined with other options"));
        }
        (true, _) => TrimAction::Cancel,
        (_, true) => TrimAction::Suspend,
        _ => TrimAction::Start {
            rate: rate.unwrap_or(0),
            secure,
        },
    };
    // The first word is the pool, the others are devices of it.
    let (names, devices) = match call.operands() {
        words if call.has("a") && !words.is_empty() => return Err(usage("too many arguments")),
        [] if call.has("a") => (Vec::new(), Vec::new()),
        [] => return Err(usage("missing pool name argument")),
        [pool, devices @ ..] => (vec![pool.clone()], devices.to_vec()),
    };
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        change(
            &mut connection,
            Change::Trim(Trim { action, devices }),
            &call.line,
        )
    })?;
    if !call.has("w") {
        return Ok(());
    }
    each(&names, &mut |mut connection| {
        let devices = devices.clone();
        change(&mut connection, Change::WaitTrim(WaitTrim { devices }), "")
    })
}
