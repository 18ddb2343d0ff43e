//! `ls`, `cat`, `cp` and `tree`: files in pools that nobody imported.

mod copy_in;

use std::io::{self, BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;

use admin::{Failure, FailureKind};
use inspect::{
    Audience, Copied, CopyOptions, InspectError, KeyRing, ListOptions, Problems, TreeOptions,
};
use serde_json::json;

use crate::flags::PROGRESS_JSON;
use crate::grammar::{Command, Flag, Invocation, Operands, option, switch};
use crate::key_material;
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::render::{Json, JsonOptions};

/// Where keys of encrypted file systems come from.
const KEYS: Flag = option(
    "keys",
    "prompt|file:///path",
    "open encrypted file systems with the key that is typed, or in this file",
);
const PLACE: &str = "image ... image:[pool/dataset[@snapshot]][/path]";
const MISSING: &str = "missing place: image:[pool/dataset[@snapshot]][/path]";

pub(super) const LS: Command = Command {
    name: "ls",
    aliases: &[],
    summary: "List files of a pool on images or disks; nothing is imported, nothing is written.",
    forms: &[PLACE],
    flags: &[
        switch(
            "l",
            "mode, links, owner, size and time of each entry, and where links point",
        ),
        switch("a", ". and .. too"),
        switch("R", "directories below as well"),
        switch("1", "one name a line (always the case)"),
        switch("h", "human-readable sizes"),
        KEYS,
        switch("j", "JSON").or("json"),
    ],
    operands: Operands::at_least(1, MISSING),
    run: ls,
};

pub(super) const CAT: Command = Command {
    name: "cat",
    aliases: &[],
    summary: "Print files of a pool on images or disks; bytes that are lost are zeros.",
    forms: &[PLACE],
    flags: &[KEYS],
    operands: Operands::at_least(1, MISSING),
    run: cat,
};

pub(super) const CP: Command = Command {
    name: "cp",
    aliases: &[],
    summary: "Copy files out of a pool on images or disks, or into one, with everything about them.",
    forms: &[
        "image ... image:[pool/dataset[@snapshot]][/path] ... destination",
        "file ... image:[pool/dataset][/path]",
    ],
    flags: &[
        switch(
            "r",
            "directories with everything below, including child file systems",
        ),
        switch("x", "with -r: only the file system that is named"),
        switch("f", "replace what is there already"),
        switch(
            "trust",
            "as root: keep set-id bits, device nodes, capabilities and other attributes of the system",
        ),
        KEYS,
        PROGRESS_JSON,
    ],
    operands: Operands::at_least(2, "missing destination"),
    run: cp,
};

pub(super) const TREE: Command = Command {
    name: "tree",
    aliases: &[],
    summary: "Draw datasets, snapshots and files of a pool on images or disks.",
    forms: &[PLACE],
    flags: &[
        switch("d", "datasets and snapshots only"),
        option("L", "levels", "at most so many levels"),
        KEYS,
    ],
    operands: Operands::at_least(1, MISSING),
    run: tree,
};

/// Whoever a command line says has keys.
fn keys(call: &Invocation) -> KeyRing {
    let Some(location) = call.value("keys").map(str::to_owned) else {
        return KeyRing::NONE;
    };
    KeyRing::asking(move |question| {
        key_material::key(&question.name, question.material, &location)
            .map_err(|failure| failure.message)
    })
}

fn ls(call: &Invocation) -> Outcome {
    let options = ListOptions {
        long: call.has("l"),
        all: call.has("a"),
        recursive: call.has("R"),
        human: call.has("h"),
        json: call.has("j"),
        terminal: io::stdout().is_terminal(),
        keys: keys(call),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    end("ls", inspect::ls(call.operands(), &options, &mut out))
}

fn cat(call: &Invocation) -> Outcome {
    // Past the line buffer of the standard output: these are bytes.
    let out = io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| Failure::new(FailureKind::Medium, format!("cat: {error}")))?;
    end(
        "cat",
        inspect::cat(call.operands(), &keys(call), &mut std::fs::File::from(out)),
    )
}

fn cp(call: &Invocation) -> Outcome {
    let Some((destination, sources)) = call.operands().split_last() else {
        return Err(usage(MISSING));
    };
    if let Some(place) = copy_in::place(sources, destination) {
        return copy_in::run(call, sources, place);
    }
    let json = call.has("j");
    let options = CopyOptions {
        recursive: call.has("r"),
        one_file_system: call.has("x"),
        force: call.has("f"),
        trusted: call.has("trust"),
        audience: Audience::of(json),
        keys: keys(call),
    };
    let copied = inspect::cp(sources, Path::new(destination), &options);
    match copied {
        Ok(copied) if json => print_json(&copied),
        copied => end("cp", copied.map(|copied| copied.problems)),
    }
}

fn print_json(copied: &Copied) -> Outcome {
    let mut document = Json::new("cp", JsonOptions::default());
    document.member("entries", json!(copied.entries));
    document.member("bytes", json!(copied.bytes));
    document.member("problem_count", json!(copied.problems.count()));
    let lines: Vec<String> = copied.problems.lines().collect();
    document.member("problems", json!(lines));
    document.member("notes", json!(copied.problems.remarks()));
    print(&document.text())?;
    match copied.problems.is_empty() {
        true => Ok(()),
        false => Err(Stop::Quiet(1)),
    }
}

fn tree(call: &Invocation) -> Outcome {
    let depth = match call.value("L") {
        Some(text) => Some(
            text.parse()
                .map_err(|_| usage(format!("invalid levels '{text}'")))?,
        ),
        None => None,
    };
    let options = TreeOptions {
        datasets_only: call.has("d"),
        depth,
        terminal: io::stdout().is_terminal(),
        keys: keys(call),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    end("tree", inspect::tree(call.operands(), &options, &mut out))
}

/// Says what could not be done; that alone makes the status 1.
pub(crate) fn end(command: &str, result: Result<Problems, InspectError>) -> Outcome {
    let problems = match result {
        Ok(problems) => problems,
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => return Ok(()),
        Err(InspectError::Usage(message)) => return Err(usage(message)),
        Err(error) => {
            return Err(Failure::new(FailureKind::Medium, format!("{command}: {error}")).into());
        }
    };
    for remark in problems.remarks() {
        complain(&format_args!("{command}: note: {remark}"));
    }
    for line in problems.lines() {
        complain(&format_args!("{command}: {line}"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    if problems.count() > 1 {
        complain(&format_args!("{command}: {} problems", problems.count()));
    }
    Err(Stop::Quiet(1))
}
