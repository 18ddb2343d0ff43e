//! `zstream`: send streams as such, in files and pipes. No pool and no daemon is asked.

mod dump;
mod list;
mod rewrite;

use std::fs::File;
use std::io::{self, BufReader, Read};

use admin::{Failure, FailureKind};
use stream::{ResumeToken, StreamError};

use crate::grammar::{Command, Invocation, Operands, Program, option, switch};
use crate::output::{Outcome, Stop, complain, print};

/// `zstream` and its commands.
pub(crate) static PROGRAM: Program = Program {
    name: "zstream",
    summary: "Look into send streams, and write them anew.",
    properties: &[],
    environment: &[],
    commands: &[DUMP, TOKEN, REDUP, DECOMPRESS, RECOMPRESS],
    others: &[],
    absent: &[],
};

const DUMP: Command = Command {
    name: "dump",
    aliases: &[],
    summary: "Print the records of a stream, and verify their checksums.",
    forms: &["[file]"],
    flags: &[
        switch("C", "do not verify checksums"),
        switch("d", "the contents of records as well; implies -v"),
        switch("v", "each record, not only heads, ends and a summary"),
    ],
    operands: Operands::between(0, 1, ""),
    run: dump::run,
};

const TOKEN: Command = Command {
    name: "token",
    aliases: &[],
    summary: "Print what a resume token says.",
    forms: &["resume_token"],
    flags: &[],
    operands: Operands::exactly(1, "Need to pass the resume token"),
    run: token,
};

const REDUP: Command = Command {
    name: "redup",
    aliases: &[],
    summary: "Write a deduplicated stream (zfs send -D of old) as an ordinary one.",
    forms: &["file"],
    flags: &[switch("v", "say what was done")],
    operands: Operands::exactly(1, "missing file argument"),
    run: rewrite::redup,
};

const DECOMPRESS: Command = Command {
    name: "decompress",
    aliases: &[],
    summary: "Decompress certain blocks of a stream, whose compression may be told wrong.",
    forms: &["object,offset[,type] ..."],
    flags: &[switch("v", "say what was done")],
    operands: Operands::at_least(1, "missing object and offset"),
    run: rewrite::decompress,
};

const RECOMPRESS: Command = Command {
    name: "recompress",
    aliases: &[],
    summary: "Compress all blocks of a stream another way.",
    forms: &["type"],
    flags: &[option("l", "level", "of a type whose name leaves it open")],
    operands: Operands::exactly(1, "missing compression type"),
    run: rewrite::recompress,
};

/// The stream in a file, or at the standard input.
fn input(file: Option<&str>) -> Result<Box<dyn Read>, Stop> {
    let Some(file) = file else {
        return Ok(Box::new(BufReader::new(io::stdin())));
    };
    match File::open(file) {
        Ok(open) => Ok(Box::new(BufReader::new(open))),
        Err(error) => Err(unopened(file, &error).into()),
    }
}

/// Why a file cannot be opened, in the system's words alone.
fn unopened(file: &str, error: &io::Error) -> Failure {
    let text = format!(
        "Error while opening file '{file}': {}",
        base::host_reason(error)
    );
    Failure::new(FailureKind::Missing, text)
}

/// Why a stream ends before its end. A reader that went away is told nothing.
fn broken(error: &StreamError) -> Stop {
    if let StreamError::Io(error) = error
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        return Stop::Quiet(1);
    }
    complain(error);
    Stop::Quiet(1)
}

fn token(call: &Invocation) -> Outcome {
    let token = ResumeToken::decode(call.operand(0));
    let token = token.map_err(|error| {
        let text = format!(
            "Unable to parse resume token '{}': {error}",
            call.operand(0)
        );
        Failure::new(FailureKind::Invalid, text)
    })?;
    print(&contents(&token))
}

/// What a resume token says, as `zstream token` and `zfs send -v -t` print it.
pub(crate) fn contents(token: &ResumeToken) -> String {
    format!("resume token contents:\n{}", list::text(&token.list(), 0))
}
