//! Test suites that others wrote, on mounts of the release binary: scripts in `scripts/suites`.

use crate::environment::{binary, root, target};
use crate::run::{TaskError, TaskResult, step};
use std::path::Path;
use std::process::Command;

/// A suite: its name, and the script that runs it.
const SUITES: &[(&str, &str)] = &[
    ("pjdfstest", "pjdfstest.sh"),
    ("fsx", "fsx.sh"),
    ("stress", "stress.sh"),
    ("compile", "compile.sh"),
    ("xfstests", "xfstests.sh"),
    ("postgres", "postgres.py"),
];

/// Builds the release binary and runs the suite `name`, with further arguments for its script.
pub(crate) fn run(name: &str, arguments: &[&str]) -> TaskResult {
    let (name, script) = *SUITES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| TaskError::Level(name.to_owned()))?;
    crate::ci::release_binary()?;
    step(name, command(script, &binary("release")).args(arguments))
}

/// pjdfstest, as part of other checks: where it is installed, which takes longer than to run it.
pub(crate) fn installed_pjdfstest(binary: &Path) -> TaskResult {
    step(
        "pjdfstest",
        command("pjdfstest.sh", binary).args(["--installed"]),
    )
}

fn command(script: &str, binary: &Path) -> Command {
    let mut command = Command::new(root().join("scripts/suites").join(script));
    command.env("CARGO_TARGET_DIR", target());
    command.env("MILLPOND_BIN", binary);
    command
}
