//! Millpond's own commands: looking into images without importing them, serving, measuring.

mod completions;
pub(crate) mod files;
pub(crate) mod inspect;
mod man;
mod mkimage;
mod nbd;
mod serve;
mod stat;

use crate::grammar::{Command, Program};

/// `millpond` and its own commands.
pub(crate) static PROGRAM: Program = Program {
    name: "millpond",
    summary: "OpenZFS pools without the kernel module.\n\nLinks named zpool, zfs and zstream are those programs.",
    properties: &[],
    environment: &[],
    commands: COMMANDS,
    others: &[
        &crate::zpool::PROGRAM,
        &crate::zfs::PROGRAM,
        &crate::streams::PROGRAM,
        &crate::zstream::PROGRAM,
    ],
    absent: &[],
};

static COMMANDS: &[Command] = &[
    files::LS,
    files::CAT,
    files::CP,
    files::TREE,
    mkimage::COMMAND,
    nbd::COMMAND,
    serve::COMMAND,
    inspect::COMMAND,
    stat::COMMAND,
    crate::bench::COMMAND,
    completions::COMMAND,
    man::COMMAND,
];
