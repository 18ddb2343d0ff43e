//! `zfs receive`.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use admin::changes::AbortReceive;
use admin::{
    Assignments, Change, Failure, FailureKind, NameKind, PropertyName, ReceiveNaming,
    ReceiveRequest, Request, StreamRequest,
};

use crate::arguments::{assign_dataset, bad_assignment, split_assignment};
use crate::daemons::{change, pool_of, stream};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, usage};

/// `zfs receive`.
pub(super) const COMMAND: Command = Command {
    name: "receive",
    aliases: &["recv"],
    summary: "Create snapshots from a stream on standard input.",
    forms: &[
        "filesystem|volume|snapshot",
        "-d|-e filesystem",
        "-c filesystem|snapshot",
        "-A filesystem|volume",
    ],
    flags: &[
        switch("A", "discard the state that an interrupted receive -s left"),
        switch(
            "c",
            "corrective: write what cannot be read of a snapshot that is there again from its stream",
        ),
        switch(
            "d",
            "below the given file system, under the sent name without its pool",
        ),
        switch(
            "e",
            "below the given file system, under the last part of the sent name",
        ),
        switch(
            "F",
            "roll back to the last common snapshot first; for a package, also destroy what is not in it",
        ),
        switch("h", "leave out the holds of a package"),
        switch(
            "M",
            "ignored: mounted file systems stay mounted and show what was received",
        ),
        switch("n", "receive nothing; with -v, show what would be received"),
        option(
            "o",
            "property=value",
            "set this instead of the received value; 'origin=snapshot': receive as a clone of that; may be repeated",
        ),
        switch(
            "s",
            "if the stream is interrupted, keep what was received, to be resumed by 'zfs send -t'",
        ),
        switch("u", "mount nothing"),
        switch("v", "show what is received"),
        option(
            "x",
            "property",
            "inherit this property instead of setting the received value; may be repeated",
        ),
    ],
    operands: Operands::between(0, 1, ""),
    run: receive,
};

fn receive(call: &Invocation) -> Outcome {
    let Some(target) = call.operands().first() else {
        return Err(usage("missing snapshot argument"));
    };
    if call.has("A") {
        return abort(call, target);
    }
    if call.has("c") && (has_values(call) || ["F", "h", "s"].iter().any(|flag| call.has(flag))) {
        return Err(usage("-c goes with none of -F, -h, -o, -s and -x"));
    }
    let request = request(call, target)?;
    if std::io::stdin().is_terminal() {
        complain(
            &"Error: Backup stream can not be read from a terminal.\nYou must redirect standard input.",
        );
        return Err(Stop::Quiet(1));
    }
    let mut daemon = pool_of(target).map_err(|failure| missing(failure, target))?;
    let request = Request::Stream(StreamRequest::Receive(request));
    stream(&mut daemon, &request, std::io::stdin().as_fd())
}

/// No daemon has such a pool: said of what was to be received.
fn missing(failure: Failure, target: &str) -> Failure {
    if failure.kind != FailureKind::Missing {
        return failure;
    }
    let text = format!("cannot receive: destination '{target}' does not exist");
    Failure {
        advice: failure.advice,
        reasons: failure.reasons,
        ..Failure::new(FailureKind::Missing, text)
    }
}

fn request(call: &Invocation, target: &str) -> Result<ReceiveRequest, Stop> {
    let naming = match (call.has("d"), call.has("e")) {
        (true, true) => return Err(usage("-d and -e exclude each other")),
        (true, false) => ReceiveNaming::WithoutPool,
        (false, true) => ReceiveNaming::LastPart,
        (false, false) => ReceiveNaming::Target,
    };
    let refuse = |text: &dyn std::fmt::Display| {
        Stop::from(Failure::cannot(
            FailureKind::Invalid,
            "receive",
            target,
            text,
        ))
    };
    match admin::check_name(target) {
        Err(error) => return Err(refuse(&error)),
        Ok(NameKind::Snapshot) if naming != ReceiveNaming::Target => {
            return Err(refuse(&"a snapshot cannot be named with -d or -e"));
        }
        Ok(NameKind::Dataset | NameKind::Snapshot) => {}
        Ok(NameKind::Bookmark) => {
            return Err(refuse(&"operation not applicable to datasets of this type"));
        }
    }
    let (properties, origin) = properties(call, target)?;
    Ok(ReceiveRequest {
        target: target.to_owned(),
        naming,
        origin,
        excluded: excluded(call, &properties)?,
        properties,
        force: call.has("F"),
        dry_run: call.has("n"),
        verbose: call.has("v"),
        unmounted: call.has("u"),
        resumable: call.has("s"),
        skip_holds: call.has("h"),
        corrective: call.has("c"),
        command: call.line.clone(),
    })
}

/// What is set at the dataset, and the snapshot that it is to be a clone of.
fn properties(call: &Invocation, target: &str) -> Result<(Assignments, Option<String>), Stop> {
    let mut found = Assignments::new();
    let mut origin = None;
    for text in call.values("o") {
        if let Ok(("origin", snapshot)) = split_assignment(text) {
            admin::check_snapshot(snapshot).map_err(|error| {
                Failure::cannot(FailureKind::Invalid, "receive", snapshot, error)
            })?;
            origin = Some(snapshot.to_owned());
            continue;
        }
        assign_dataset(&mut found, text, false)
            .map_err(|error| bad_assignment("receive", target, &error))?;
    }
    Ok((found, origin))
}

/// The properties of which no received value is to count.
fn excluded(call: &Invocation, properties: &Assignments) -> Result<Vec<String>, Stop> {
    let mut found = Vec::new();
    for word in call.values("x") {
        let property = admin::find_dataset_property(word)
            .filter(|found| !matches!(found, PropertyName::Computed(_)))
            .ok_or_else(|| usage(format!("invalid property '{word}'")))?;
        let name = property.name().to_owned();
        if properties.iter().any(|(set, _)| *set == name) {
            return Err(usage(format!(
                "property '{name}' cannot be both set and excluded"
            )));
        }
        found.push(name);
    }
    Ok(found)
}

/// Whether properties are set or left out.
fn has_values(call: &Invocation) -> bool {
    call.values("o").next().is_some() || call.values("x").next().is_some()
}

/// Destroys what a receive that broke off has left.
fn abort(call: &Invocation, target: &str) -> Outcome {
    let others = ["c", "d", "e", "F", "h", "M", "n", "s", "u", "v"];
    if has_values(call) || others.iter().any(|flag| call.has(flag)) {
        return Err(usage("-A goes with no other flag"));
    }
    admin::check_dataset(target).map_err(|error| {
        Failure::cannot(FailureKind::Invalid, "abort receive of", target, error)
    })?;
    let mut daemon = pool_of(target)?;
    let request = Change::AbortReceive(AbortReceive {
        dataset: target.to_owned(),
    });
    change(&mut daemon, request, &call.line)
}
