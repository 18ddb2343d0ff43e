//! `millpond stream`: files in send streams, without a pool.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;

use inspect::{Audience, CopyOptions, KeyRing, ListOptions, VerifiedFile};

use crate::grammar::{Command, Invocation, Operands, Program, switch};
use crate::output::{Outcome, Stop, print, usage};
use crate::own::files::end;

/// `millpond stream` and its commands.
pub(crate) static PROGRAM: Program = Program {
    name: "stream",
    summary: "Look into send streams in files, without a pool: list and copy files, tell damage and changes.\n\n\
              Several files are a chain: full streams, and increments from their snapshots. FILE:/path is a path in \
              the newest snapshot, FILE:@snapshot/path and FILE:pool/dataset@snapshot/path one in another.",
    properties: &[],
    environment: &[],
    commands: &[LS, CP, VERIFY, DIFF],
    others: &[],
    absent: &[],
};

const MISSING: &str = "missing file argument";
const PLACES: &str = "file ... [file:[dataset][@snapshot][/path]] ...";

const LS: Command = Command {
    name: "ls",
    aliases: &[],
    summary: "List files of a stream, or of a chain of them.",
    forms: &[PLACES],
    flags: &[
        switch(
            "l",
            "mode, links, owner, size and time of each entry, and where links point",
        ),
        switch("a", ". and .. too"),
        switch("R", "directories below as well"),
        switch("h", "human-readable sizes"),
        switch("j", "JSON").or("json"),
    ],
    operands: Operands::at_least(1, MISSING),
    run: ls,
};

const CP: Command = Command {
    name: "cp",
    aliases: &[],
    summary: "Copy files, or a volume, out of a stream or a chain of them.",
    forms: &["file ... [file:[dataset][@snapshot][/path]] ... destination"],
    flags: &[
        switch("r", "directories with everything below"),
        switch("f", "replace what is there already"),
        switch(
            "trust",
            "as root: keep set-id bits, device nodes, capabilities and other attributes of the system",
        ),
    ],
    operands: Operands::at_least(2, "missing destination"),
    run: cp,
};

const VERIFY: Command = Command {
    name: "verify",
    aliases: &[],
    summary: "Tell whether streams are as they were sent, and what can still be had of those that are not.",
    forms: &["file ..."],
    flags: &[],
    operands: Operands::at_least(1, MISSING),
    run: verify,
};

const DIFF: Command = Command {
    name: "diff",
    aliases: &[],
    summary: "Show what an incremental stream changes: paths, if the streams before it are named too, else objects.",
    forms: &[PLACES],
    flags: &[],
    operands: Operands::at_least(1, MISSING),
    run: diff,
};

fn ls(call: &Invocation) -> Outcome {
    let options = ListOptions {
        long: call.has("l"),
        all: call.has("a"),
        recursive: call.has("R"),
        human: call.has("h"),
        json: call.has("j"),
        terminal: io::stdout().is_terminal(),
        keys: KeyRing::NONE,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    end(
        "ls",
        inspect::stream_ls(call.operands(), &options, &mut out),
    )
}

fn cp(call: &Invocation) -> Outcome {
    let Some((destination, words)) = call.operands().split_last() else {
        return Err(usage(MISSING));
    };
    let options = CopyOptions {
        recursive: call.has("r"),
        one_file_system: true,
        force: call.has("f"),
        trusted: call.has("trust"),
        audience: Audience::of(false),
        keys: KeyRing::NONE,
    };
    let copied = inspect::stream_cp(words, Path::new(destination), &options);
    end("cp", copied.map(|copied| copied.problems))
}

fn verify(call: &Invocation) -> Outcome {
    let files = match inspect::stream_verify(call.operands()) {
        Ok(files) => files,
        Err(error) => return end("verify", Err(error)),
    };
    for file in &files {
        print(&told(file))?;
    }
    let is_sound = |file: &VerifiedFile| {
        file.damage.is_none() && file.streams.iter().all(|stream| stream.is_whole)
    };
    if files.iter().all(is_sound) {
        Ok(())
    } else {
        Err(Stop::Quiet(1))
    }
}

/// What is to be said of a file.
fn told(file: &VerifiedFile) -> String {
    let path = file.path.display();
    let mut text = match &file.damage {
        None => format!(
            "{path}: sound, {} records, {} bytes\n",
            file.records, file.bytes
        ),
        Some(damage) => format!("{path}: {damage}\n"),
    };
    for stream in &file.streams {
        let kind = match stream.from {
            None => "full".to_owned(),
            Some(from) if stream.has_source => format!("from {from}"),
            Some(from) => format!("from {from}, which is not here"),
        };
        let (start, end) = stream.range;
        let state = if stream.is_whole {
            "whole"
        } else {
            "without its end; 'millpond stream ls' and 'cp' show what came before"
        };
        let _ = writeln!(
            text,
            "  {} (guid {}), {kind}: {} records, bytes {start} to {end}, {state}",
            inspect::printable(&stream.name),
            stream.guid,
            stream.records
        );
    }
    text
}

fn diff(call: &Invocation) -> Outcome {
    let mut out = BufWriter::new(io::stdout().lock());
    let terminal = io::stdout().is_terminal();
    end(
        "diff",
        inspect::stream_diff(call.operands(), terminal, &mut out),
    )
}
