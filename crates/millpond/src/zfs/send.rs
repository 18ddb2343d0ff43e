//! `zfs send`.

mod progress;

use std::io::IsTerminal;
use std::os::fd::AsFd;

use admin::queries::SizesOfSend;
use admin::{
    Failure, FailureKind, NameKind, Request, SendRequest, StreamRequest, StreamSize, human,
    human_bytes,
};

use crate::daemons::pool_of;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::zstream::contents;
use progress::{Progress, Told, make_room_for_title};
use stream::ResumeToken;

/// `zfs send`.
pub(super) const COMMAND: Command = Command {
    name: "send",
    aliases: &[],
    summary: "Write a snapshot, or the changes since another, to standard output.",
    forms: &[
        "[-i|-I snapshot] snapshot",
        "-R [-i|-I snapshot] snapshot",
        "-S filesystem|volume",
        "-t resume_token",
    ],
    flags: &[
        option(
            "i",
            "snapshot",
            "send only what changed since this snapshot or bookmark",
        ),
        option("I", "snapshot", "the same, with all snapshots between"),
        switch(
            "R",
            "a package: properties, all snapshots and all descendants",
        )
        .or("replicate"),
        switch("p", "a package with properties").or("props"),
        switch("b", "a package with received properties as received").or("backup"),
        switch("h", "a package with holds").or("holds"),
        option(
            "X",
            "dataset[,dataset]",
            "leave these and their descendants out of a package",
        )
        .or("exclude"),
        switch("s", "leave datasets without that snapshot out of a package").or("skip-missing"),
        switch("L", "send blocks larger than 128 KiB whole").or("large-block"),
        switch("e", "send embedded blocks as they are").or("embed"),
        switch("c", "send blocks compressed as they are stored").or("compressed"),
        switch(
            "w",
            "send blocks as they are stored, encrypted ones without their key",
        )
        .or("raw"),
        switch("D", "ignored: there are no deduplicated streams any more").or("dedup"),
        option(
            "d",
            "redaction_bookmark",
            "leave out the blocks that this bookmark of 'zfs redact' lists",
        )
        .or("redact"),
        switch("n", "send nothing").or("dryrun"),
        switch(
            "v",
            "show what is sent, with its size, and once a second how far it is",
        )
        .or("verbose"),
        switch("P", "the same, for programs").or("parsable"),
        switch("V", "show in the title of the process how far it is").or("proctitle"),
        switch(
            "S",
            "send what was received of a file system or volume when its receive broke off",
        )
        .or("saved"),
        option(
            "t",
            "resume_token",
            "resume a stream that was received in part",
        ),
    ],
    operands: Operands::between(0, 1, ""),
    run: send,
};

fn send(call: &Invocation) -> Outcome {
    let mut request = request(call)?;
    let dry = call.has("n");
    if !dry && std::io::stdout().is_terminal() {
        complain(
            &"Error: Stream can not be written to a terminal.\nYou must redirect standard output.",
        );
        return Err(Stop::Quiet(1));
    }
    let token = request.token.as_deref().map(decoded).transpose()?;
    let pool = match &token {
        Some(token) => String::from_utf8_lossy(&token.to_name).into_owned(),
        None => request.snapshot.clone(),
    };
    let mut daemon = pool_of(&pool)?;
    let (verbose, parsable) = (call.has("v"), call.has("P"));
    let told = Told {
        lines: verbose && !dry,
        parsable,
        title: call.has("V") && !dry,
    };
    if told.title {
        make_room_for_title();
    }
    let mut sizes = Vec::new();
    if dry || parsable || verbose || told.title {
        sizes = daemon.ask(SizesOfSend(request.clone()))?;
    }
    if parsable || verbose {
        let said = token.as_ref().map(contents).unwrap_or_default();
        let many = request.replicate || request.intermediate;
        let text = said + &told_sizes(&sizes, parsable, many);
        if dry {
            print(&text)?;
        } else {
            complain(&text.trim_end());
        }
    }
    if dry {
        return Ok(());
    }
    let progress = Progress::start(&pool, told, sizes);
    request.number = progress.number;
    let output = std::io::stdout();
    Ok(daemon.call_with(&stream(&request), output.as_fd(), &mut |_| Ok(()))?)
}

fn stream(request: &SendRequest) -> Request {
    Request::Stream(StreamRequest::Send(request.clone()))
}

fn request(call: &Invocation) -> Result<SendRequest, Stop> {
    let mut request = SendRequest {
        large_blocks: call.has("L"),
        embedded: call.has("e"),
        compressed: call.has("c"),
        raw: call.has("w"),
        replicate: call.has("R"),
        properties: call.has("p"),
        holds: call.has("h"),
        backup: call.has("b"),
        excluded: excluded(call),
        skip_missing: call.has("s"),
        redact: call.value("d").map(str::to_owned),
        saved: call.has("S"),
        ..SendRequest::default()
    };
    if let Some(token) = call.value("t") {
        let has_source = call.has("i") || call.has("I") || call.has("d");
        if !call.operands().is_empty() || has_source {
            return Err(usage("invalid flags combined with -t"));
        }
        request.token = Some(token.to_owned());
        return Ok(request);
    }
    let Some(snapshot) = call.operands().first() else {
        return Err(usage("missing snapshot argument"));
    };
    let (step, all) = (call.value("i"), call.value("I"));
    let in_package = is_package(&request);
    if request.redact.is_some() && (in_package || all.is_some() || request.raw) {
        return Err(usage(
            "--redact goes with none of -R, -I, -p, -b, -h and -w",
        ));
    }
    if step.is_some() && all.is_some() {
        return Err(usage("-i and -I exclude each other"));
    }
    if request.saved {
        check_saved(call, &request, in_package)?;
        check(snapshot, &[NameKind::Dataset])?;
    } else if !in_package {
        check(snapshot, &[NameKind::Snapshot, NameKind::Dataset])?;
    } else {
        check(snapshot, &[NameKind::Snapshot])?;
    }
    let kinds: &[NameKind] = match all {
        Some(_) => &[NameKind::Snapshot],
        None if request.replicate => &[NameKind::Snapshot],
        None => &[NameKind::Snapshot, NameKind::Bookmark],
    };
    if let Some(from) = step.or(all) {
        let from = source(from, snapshot, step.is_some());
        check(&from, kinds)?;
        if admin::pool_of(&from) != admin::pool_of(snapshot) {
            let text = "not an earlier snapshot from the same fs";
            return Err(Failure::cannot(FailureKind::Invalid, "send", snapshot, text).into());
        }
        request.from = Some(from);
    }
    request.intermediate = all.is_some();
    request.snapshot.clone_from(snapshot);
    Ok(request)
}

/// The whole name of what `-i` or `-I` names; of `-i` OpenZFS wants to know its kind.
fn source(from: &str, snapshot: &str, is_step: bool) -> String {
    let head = admin::dataset_of(snapshot);
    if from.starts_with(['@', '#']) {
        return format!("{head}{from}");
    }
    if from.contains(['@', '#']) {
        return from.to_owned();
    }
    if is_step {
        complain(
            &"Warning: incremental source didn't specify type, assuming snapshot. Use '@' or '#' prefix to avoid \
              ambiguity.",
        );
    }
    format!("{head}@{from}")
}

/// What was received in part is sent as it was received.
fn check_saved(call: &Invocation, request: &SendRequest, in_package: bool) -> Outcome {
    let has_others = in_package || request.raw || request.redact.is_some();
    if has_others || call.has("i") || call.has("I") {
        return Err(usage(
            "--saved goes with none of -R, -i, -I, -p, -b, -h, -w and --redact",
        ));
    }
    Ok(())
}

/// The datasets that a package goes without.
fn excluded(call: &Invocation) -> Vec<String> {
    let lists = call.values("X").flat_map(|list| list.split(','));
    lists
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn check(name: &str, kinds: &[NameKind]) -> Outcome {
    let refuse = |text: &dyn std::fmt::Display| {
        Stop::from(Failure::cannot(FailureKind::Invalid, "send", name, text))
    };
    match admin::check_name(name) {
        Err(error) => Err(refuse(&error)),
        Ok(kind) if kinds.contains(&kind) => Ok(()),
        Ok(_) => Err(refuse(&"operation not applicable to datasets of this type")),
    }
}

fn decoded(token: &str) -> Result<ResumeToken, Failure> {
    ResumeToken::decode(token)
        .map_err(|error| Failure::new(FailureKind::Invalid, format!("cannot resume send: {error}")))
}

/// Whether more than one stream may come.
fn is_package(request: &SendRequest) -> bool {
    let has_extras = request.properties || request.holds || request.backup;
    request.replicate || request.intermediate || has_extras
}

/// What is sent, and how much that is. As with OpenZFS the source of a stream has its dataset's name, but where many
/// are sent, only its own, which programs get without the `@`.
fn told_sizes(sizes: &[StreamSize], parsable: bool, many: bool) -> String {
    let mut text = String::new();
    let mut total = 0_u64;
    for size in sizes {
        total = total.saturating_add(size.bytes);
        let (name, bytes) = (&size.name, size.bytes);
        let from = size.from.as_deref();
        let from = from.map(|from| if many { short(from, parsable) } else { from });
        text += &match (from, parsable) {
            (None, true) => format!("full\t{name}\t{bytes}\n"),
            (Some(from), true) => format!("incremental\t{from}\t{name}\t{bytes}\n"),
            (None, false) => {
                format!(
                    "full send of {name} estimated size is {}\n",
                    human_bytes(bytes)
                )
            }
            (Some(from), false) => format!(
                "send from {from} to {name} estimated size is {}\n",
                human_bytes(bytes)
            ),
        };
    }
    text += &if parsable {
        format!("size\t{total}\n")
    } else {
        format!("total estimated size is {}\n", human(total))
    };
    text
}

/// The name of a snapshot without its dataset's; `bare`: without the `@` as well.
fn short(name: &str, bare: bool) -> &str {
    name.find('@')
        .and_then(|at| name.get(at + usize::from(bare)..))
        .unwrap_or(name)
}
