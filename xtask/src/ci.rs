//! The levels of checking. The same on a laptop as in continuous integration.

use crate::environment::{target, variables};
use crate::run::{TaskError, TaskResult, cargo, say, step};
use crate::tally::Tally;
use crate::tidy;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The crates whose tests take seconds: what every commit runs.
const LOWER_CRATES: &[&str] = &[
    "base", "sys", "codec", "format", "device", "vdev", "space", "txg",
];

/// The crates that have models (`models.rs` beside the tests).
const MODELLED_CRATES: &[&str] = &["base", "txg", "intent"];

/// How the levels beyond `smoke` build their tests: optimised, with assertions. One build serves them all, and the
/// tests take a third of the time that they need unoptimised.
const PROFILE: &str = "fast";

/// Runs one level; the last line printed says how many tests passed, failed and were skipped.
pub(crate) fn run(level: &str) -> ExitCode {
    let begin = Instant::now();
    let mut tally = Tally::default();
    let outcome = run_level(level, &mut tally);
    let seconds = begin.elapsed().as_secs();
    match &outcome {
        Ok(()) => say(&format!("ci {level}: passed in {seconds} s")),
        Err(error) => say(&format!("ci {level}: failed after {seconds} s: {error}")),
    }
    say(&tally.to_string());
    outcome.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn run_level(level: &str, tally: &mut Tally) -> TaskResult {
    match level {
        "smoke" => smoke(tally),
        "test" => test(tally),
        "models" => models(tally),
        "sim" => sim(tally),
        "fuzz" => fuzz(5),
        "torture" => ignored(tally, "torture", &["millpond-torture", "millpond-inspect"]),
        "interop" => interop(tally),
        "all" => {
            // The tests of `interop` are among those of `test`.
            test(tally)?;
            models(tally)?;
            sim(tally)?;
            fuzz(5)
        }
        other => Err(TaskError::Level(other.to_owned())),
    }
}

fn smoke(tally: &mut Tally) -> TaskResult {
    checks()?;
    let mut tests = cargo();
    tests.args(["test", "--no-fail-fast"]);
    for name in LOWER_CRATES {
        tests.args(["-p", &format!("millpond-{name}")]);
    }
    tests.args(["--", "--show-output"]);
    tally.step("tests of the lower crates", &mut tests, false)
}

/// What needs no test run.
fn checks() -> TaskResult {
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
    // Programs that take the library only.
    step(
        "lints of the library without commands and FUSE",
        cargo().args([
            "clippy",
            "-p",
            "millpond",
            "--lib",
            "--no-default-features",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )
}

fn with_environment(mut command: Command) -> Command {
    for (name, value) in variables() {
        command.env(name, value);
    }
    // The release binary, once `release_binary` has built it: tests of the whole use it.
    command.env("MILLPOND_BIN", target().join("release/millpond"));
    command
}

fn test(tally: &mut Tally) -> TaskResult {
    checks()?;
    release_binary()?;
    let mut tests = cargo();
    tests.args([
        "test",
        "--profile",
        PROFILE,
        "--workspace",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    tally.step("tests", &mut with_environment(tests), false)?;
    crate::suites::installed_pjdfstest()
}

/// Protocols between threads under the model checker. Everything below them is built anew for that, so it has a
/// directory of its own.
fn models(tally: &mut Tally) -> TaskResult {
    let mut tests = cargo();
    tests.arg("test");
    for name in MODELLED_CRATES {
        tests.args(["-p", &format!("millpond-{name}")]);
    }
    tests.args(["--lib", "--", "models::"]);
    tests.env("RUSTFLAGS", "--cfg shuttle");
    tests.env("CARGO_TARGET_DIR", target().join("models"));
    tally.step("models", &mut tests, false)
}

fn sim(tally: &mut Tally) -> TaskResult {
    ignored(tally, "sim", &["millpond-torture"])
}

/// Long tests carry `#[ignore = "sim: …"]` or `#[ignore = "torture: …"]` and live in modules of that name.
fn ignored(tally: &mut Tally, level: &str, packages: &[&str]) -> TaskResult {
    let mut tests = cargo();
    tests.args(["test", "--profile", PROFILE, "--no-fail-fast"]);
    for package in packages {
        tests.args(["-p", package]);
    }
    let filter = format!("{level}::");
    tests.args(["--tests", "--", "--show-output", "--ignored", &filter]);
    tally.step(level, &mut with_environment(tests), true)
}

fn fuzz(seconds: u32) -> TaskResult {
    let mut fuzz = cargo();
    fuzz.args([
        "run",
        "--profile",
        PROFILE,
        "--quiet",
        "-p",
        "millpond-fuzz",
        "--",
        "--seconds",
    ]);
    fuzz.arg(seconds.to_string());
    step("fuzz", &mut with_environment(fuzz))
}

pub(crate) fn release_binary() -> TaskResult {
    step(
        "release binary",
        cargo().args(["build", "--release", "-p", "millpond"]),
    )
}

fn interop(tally: &mut Tally) -> TaskResult {
    release_binary()?;
    let mut tests = cargo();
    tests.args(["test", "-p", "millpond-torture", "--test", "binary"]);
    tests.args(["--", "--show-output"]);
    tally.step("interop", &mut with_environment(tests), false)
}
