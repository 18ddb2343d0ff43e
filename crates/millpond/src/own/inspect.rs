//! `millpond inspect`, which is `zdb`.

use std::process::ExitCode;

use crate::grammar::{Command, Operands};
use crate::output::Output;

/// `millpond inspect`.
pub(super) const COMMAND: Command = Command {
    name: "inspect",
    aliases: &["zdb"],
    summary: "Inspect a pool without importing it (like zdb); has its own flags.",
    forms: &["..."],
    flags: &[],
    operands: Operands::ANY,
    // The line never comes here: it is taken before it is parsed.
    run: |_| Ok(()),
};

/// `millpond inspect` and `zdb`: everything from the given word on is the inspector's.
pub(crate) fn run(first: usize) -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(first).collect();
    let mut out = Output::standard();
    ExitCode::from(inspect::run(&words, &mut out))
}
