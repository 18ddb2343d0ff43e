//! What is measured, not tested: mounts beside other file systems, and beside programs that compute.

use crate::environment::{binary, root, target};
use crate::run::{TaskResult, cargo, step};
use std::process::Command;

/// Builds the release binary and the server that does nothing, and runs a script that measures both in turns.
pub(crate) fn run(script: &str, arguments: &[&str]) -> TaskResult {
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
    let mut command = Command::new(root().join(script));
    command.env("MILLPOND_BIN", binary("release"));
    command.env("FLOOR_BIN", target().join("release/examples/floor"));
    step(script, command.args(arguments))
}
