//! Millpond's own commands: looking into images without importing them, serving, measuring.

mod files;
mod mkimage;
mod stat;

use std::io;
use std::process::ExitCode;

use crate::Outcome;
use crate::grammar::{Command, Flag, Invocation, Operands, Program, Shell, option, switch};
use crate::output::{print, usage};

/// What long work of its own tells a program.
const PROGRESS_JSON: Flag = switch(
    "j",
    "JSON: on standard error how far it is, once a second; at its end what was done",
)
.or("json");

/// `millpond` and its own commands.
pub(crate) static PROGRAM: Program = Program {
    name: "millpond",
    summary: "OpenZFS pools without the kernel module.\n\nAlso: millpond zpool ..., millpond zfs \
              ..., or links named zpool and zfs.",
    properties: &[],
    commands: COMMANDS,
};

/// `millpond inspect` and `zdb`: everything from the given word on is the inspector's.
pub(crate) fn inspect(first: usize) -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(first).collect();
    let mut out = io::stdout().lock();
    ExitCode::from(inspect::run(&words, &mut out))
}

static COMMANDS: &[Command] = &[
    files::LS,
    files::CAT,
    files::CP,
    files::TREE,
    mkimage::MKIMAGE,
    Command {
        name: "serve",
        aliases: &[],
        summary: "Import a pool and serve it in this process, until it is exported or a signal comes.",
        forms: &["pool|id"],
        flags: &[
            option("d", "dir|device", "where to look; may be repeated"),
            switch("f", "even if it was in use elsewhere"),
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
                "offer the instruments to Prometheus: on a port of this host, or on a socket",
            ),
        ],
        operands: Operands::exactly(1, "missing pool argument"),
        run: crate::zpool::serve,
    },
    Command {
        name: "inspect",
        aliases: &["zdb"],
        summary: "Look into a pool without importing it (zdb); has its own flags.",
        forms: &["..."],
        flags: &[],
        operands: Operands::ANY,
        // The line never comes here: it is taken before it is parsed.
        run: |_| Ok(()),
    },
    Command {
        name: "stat",
        aliases: &[],
        summary: "Show locks, queues, latencies and counters of running pools.",
        forms: &["[pool] ... [interval [count]]"],
        flags: &[
            option("m", "text[,...]", "only what has one of these in its name"),
            switch("a", "what never moved, too"),
            switch("y", "without the figures since the import"),
            switch("j", "JSON").or("json"),
            switch("prometheus", "the text format of Prometheus"),
        ],
        operands: Operands::ANY,
        run: stat::stat,
    },
    crate::bench::COMMAND,
    Command {
        name: "completions",
        aliases: &[],
        summary: "Print completions for a shell; for bash if none is named.",
        forms: &["[bash | zsh | fish]"],
        flags: &[],
        operands: Operands::between(0, 1, ""),
        run: completions,
    },
    Command {
        name: "man",
        aliases: &[],
        summary: "Write the manual pages into a directory.",
        forms: &["directory"],
        flags: &[],
        operands: Operands::exactly(1, "missing directory argument"),
        run: crate::manual::man,
    },
];

/// What a shell is to offer: commands, then flags and names, straight from the tables.
fn completions(call: &Invocation) -> Outcome {
    let shell = match call.operands().first() {
        None => Shell::Bash,
        Some(name) => Shell::named(name)
            .ok_or_else(|| usage(format!("no completions for the shell '{name}'")))?,
    };
    let mut out = shell.preamble().to_owned();
    for program in [&crate::zpool::PROGRAM, &crate::zfs::PROGRAM, &PROGRAM] {
        out += &program.completion(shell);
    }
    print(&out)
}
