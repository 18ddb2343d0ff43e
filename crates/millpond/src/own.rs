//! Millpond's own commands: looking into images without importing them, serving, measuring.

mod stat;

use crate::Outcome;
use crate::grammar::{Command, Invocation, Operands, Program};
use crate::output::print;

/// `millpond` and its own commands.
pub(crate) static PROGRAM: Program = Program {
    name: "millpond",
    summary: "OpenZFS pools without the kernel module.\n\nAlso: millpond zpool ..., millpond zfs \
              ..., or links named zpool and zfs.",
    commands: COMMANDS,
};

/// `zdb` and its one command.
pub(crate) static ZDB: Program = Program {
    name: "zdb",
    summary: "Look into a pool without importing it.",
    commands: &[],
};

static COMMANDS: &[Command] = &[
    Command {
        name: "stat",
        aliases: &[],
        summary: "Show locks, queues, latencies and counters of running pools.",
        forms: &["[pool] ..."],
        flags: &[],
        operands: Operands::ANY,
        run: stat::stat,
    },
    Command {
        name: "completions",
        aliases: &[],
        summary: "Print completions for bash.",
        forms: &[""],
        flags: &[],
        operands: Operands::NONE,
        run: completions,
    },
];

/// One function that offers commands, then flags, straight from the tables.
fn completions(_call: &Invocation) -> Outcome {
    let mut out = String::new();
    for program in [&crate::zpool::PROGRAM, &crate::zfs::PROGRAM, &PROGRAM] {
        out += &program.bash_completion();
    }
    print(&out)
}
