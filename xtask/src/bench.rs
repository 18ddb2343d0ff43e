//! What is measured, not tested: how a mount does where programs compute beside it, against a server that does nothing.

use crate::environment::{binary, root, target};
use crate::run::{TaskResult, cargo, step};
use std::process::Command;

/// Builds the release binary and the server that does nothing, and measures both in turns. `arguments` are the
/// script's: turns, and the numbers of programs.
pub(crate) fn run(arguments: &[&str]) -> TaskResult {
    crate::ci::release_binary()?;
    let floor = [
        "build",
        "--release",
        "-p",
        "millpond-fuse",
        "--example",
        "floor",
    ];
    step("server that does nothing", cargo().args(floor))?;
    let mut script = Command::new(root().join("scripts/beside.py"));
    script.env("MILLPOND_BIN", binary("release"));
    script.env("FLOOR_BIN", target().join("release/examples/floor"));
    step("beside programs", script.args(arguments))
}
