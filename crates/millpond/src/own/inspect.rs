//! `millpond inspect`, which is `zdb`.

mod words;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::grammar::{Command, Operands, option, switch};
use crate::output::{Output, complain, print};

/// `millpond inspect`.
pub(super) const COMMAND: Command = Command {
    name: "inspect",
    aliases: &["zdb"],
    summary: "Inspect a pool on images or disks without importing it (like zdb); nothing is written.",
    forms: &["image|directory ... [pool[/dataset][@snapshot] [object|first:last] ...]"],
    // What `words` takes and heeds.
    flags: &[
        switch(
            "verify",
            "read every block, compare it with its checksum, and what is allocated with the space maps",
        ),
        switch(
            "b",
            "walk all blocks, without reading data: what takes the space, and leaks",
        )
        .or("block-stats"),
        switch("c", "with checksums of metadata; twice: of data, too").or("checksum"),
        switch("C", "the configuration in the pool").or("config"),
        switch("d", "datasets; repeated: their objects, and more of each").or("datasets"),
        switch("h", "the commands that changed the pool").or("history"),
        switch("i", "intent logs").or("intent-logs"),
        switch("j", "with --verify, -b and -c: the result as JSON").or("json"),
        switch("l", "the labels of each device").or("label"),
        switch("m", "metaslabs and their space maps").or("metaslabs"),
        switch("u", "the uberblock; with -l: those of the labels").or("uberblock"),
        switch("L", "with -b and -c: do not compare with the space maps")
            .or("disable-leak-tracking"),
        switch("P", "exact numbers").or("parseable"),
        switch("v", "more of it").or("verbose"),
        option("t", "txg", "as of this txg or the last one before it"),
        option("p", "directory", "look for devices there; may be repeated"),
        switch("e", "ignored: every pool is looked at as an exported one").or("exported"),
    ],
    operands: Operands::ANY,
    // The line never comes here: it is taken before it is parsed.
    run: |_| Ok(()),
};

/// `millpond inspect` and `zdb`: everything from the given word on is the inspector's.
pub(crate) fn run(first: usize) -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(first).collect();
    let mut options = words.iter().take_while(|word| *word != "--");
    if options.any(|word| word == "--help" || word == "-?") {
        return ExitCode::from(u8::from(print(&COMMAND.help()).is_err()));
    }
    let mut out = Output::standard();
    ExitCode::from(inspected(&words, &mut out))
}

/// The exit status: 0 fine, 1 failed, 2 wrong command line, 3 damage found.
fn inspected(words: &[OsString], out: &mut dyn Write) -> u8 {
    match words::parse(words).and_then(|inspection| inspection.print(out)) {
        Ok(status) => status,
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            complain(&format_args!("inspect: {error}"));
            error.exit_status()
        }
    }
}

#[cfg(test)]
mod tests;
