//! What is measured, not tested: mounts beside other file systems, and beside programs that compute.

use crate::environment::{binary, root, target};
use crate::run::{TaskError, TaskResult, cargo, step};
use std::process::Command;

/// Builds the release binary and the server that does nothing, and runs one of the scripts with both, in turns.
pub(crate) fn run(arguments: &[&str]) -> TaskResult {
    let (script, rest) = match arguments {
        ["compare", rest @ ..] => ("scripts/compare.py", rest),
        ["beside", rest @ ..] => ("scripts/beside.py", rest),
        rest => return Err(TaskError::Level(format!("bench {}", rest.join(" ")))),
    };
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
    step(script, command.args(rest))
}
