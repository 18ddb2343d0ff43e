//! `millpond completions`.

use crate::grammar::{Command, Invocation, Operands, Shell};
use crate::output::{Outcome, print, usage};

/// `millpond completions`.
pub(super) const COMMAND: Command = Command {
    name: "completions",
    aliases: &[],
    summary: "Print completions for a shell; for bash if none is named.",
    forms: &["[bash | zsh | fish]"],
    flags: &[],
    operands: Operands::between(0, 1, ""),
    run: completions,
};

/// What a shell is to offer: commands, then flags and names, straight from the tables.
fn completions(call: &Invocation) -> Outcome {
    let shell = match call.operands().first() {
        None => Shell::Bash,
        Some(name) => Shell::named(name)
            .ok_or_else(|| usage(format!("no completions for the shell '{name}'")))?,
    };
    let mut out = shell.preamble().to_owned();
    for program in call.programs {
        out += &program.completion(shell);
    }
    print(&out)
}
