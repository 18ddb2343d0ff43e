//! The levels of checking. The same on a laptop as in continuous integration.

use crate::environment::{target, variables};
use crate::run::{TaskError, TaskResult, cargo, say, step};
use crate::tidy;
use std::process::Command;
use std::time::Instant;

/// The crates whose tests take seconds: what every commit runs.
const LOWER_CRATES: &[&str] = &[
    "base", "sys", "codec", "format", "device", "vdev", "space", "txg",
];

/// Runs one level.
pub(crate) fn run(level: &str) -> TaskResult {
    let begin = Instant::now();
    match level {
        "smoke" => smoke()?,
        "test" => test()?,
        "sim" => ignored("sim", &["millpond-torture"])?,
        "fuzz" => fuzz(5)?,
        "torture" => ignored("torture", &["millpond-torture", "millpond-inspect"])?,
        "interop" => interop()?,
        "all" => {
            // The tests of `interop` are among those of `test`.
            test()?;
            ignored("sim", &["millpond-torture"])?;
            fuzz(5)?;
        }
        other => return Err(TaskError::Level(other.to_owned())),
    }
    say(&format!(
        "ci {level}: passed in {} s",
        begin.elapsed().as_secs()
    ));
    Ok(())
}

fn smoke() -> TaskResult {
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    say("== tidy");
    tidy::run()?;
    step(
        "lints",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    let mut tests = cargo();
    tests.args(["test", "--quiet"]);
    for name in LOWER_CRATES {
        tests.args(["-p", &format!("millpond-{name}")]);
    }
    step("tests of the lower crates", &mut tests)
}

fn with_environment(mut command: Command) -> Command {
    for (name, value) in variables() {
        command.env(name, value);
    }
    // The release binary, once `release_binary` has built it: tests of the whole use it.
    command.env("MILLPOND_BIN", target().join("release/millpond"));
    command
}

fn test() -> TaskResult {
    smoke()?;
    release_binary()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace"]);
    step("tests", &mut with_environment(tests))
}

/// Long tests carry `#[ignore = "sim: …"]` or `#[ignore = "torture: …"]` and live in modules of that name.
fn ignored(level: &str, packages: &[&str]) -> TaskResult {
    let mut tests = cargo();
    tests.args(["test", "--profile", "fast"]);
    for package in packages {
        tests.args(["-p", package]);
    }
    tests.args(["--tests", "--", "--ignored", &format!("{level}::")]);
    step(level, &mut with_environment(tests))
}

fn fuzz(seconds: u32) -> TaskResult {
    let mut fuzz = cargo();
    fuzz.args([
        "run",
        "--release",
        "--quiet",
        "-p",
        "millpond-fuzz",
        "--",
        "--seconds",
    ]);
    fuzz.arg(seconds.to_string());
    step("fuzz", &mut with_environment(fuzz))
}

fn release_binary() -> TaskResult {
    step(
        "release binary",
        cargo().args(["build", "--release", "-p", "millpond"]),
    )
}

fn interop() -> TaskResult {
    release_binary()?;
    let mut tests = cargo();
    tests.args(["test", "-p", "millpond-torture", "--test", "binary"]);
    step("interop", &mut with_environment(tests))
}
