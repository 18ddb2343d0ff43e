//! The levels of checking. The same on a laptop as in continuous integration.

use crate::environment::{Environment, binary, target, variables};
use crate::programs::{self, How};
use crate::run::{TaskError, TaskResult, cargo, say, step};
use crate::tally::Tally;
use crate::tidy;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The crates whose tests take seconds: what every commit runs.
const LOWER_CRATES: &[&str] = &[
    "base", "sys", "codec", "format", "crypto", "device", "vdev", "space", "txg",
];

/// The crates that have models (`models.rs` beside the tests).
const MODELLED_CRATES: &[&str] = &["base", "txg", "intent", "dmu"];

/// How the levels beyond `smoke` build their tests and the real binary: optimised, with assertions. One build serves
/// them all, and the tests take a third of the time that they need unoptimised.
pub(crate) const PROFILE: &str = "fast";

/// What tests have built in that a release has not, so that it is tested.
pub(crate) const FEATURES: &str = "--features=millpond/https";

/// How long each target is fuzzed.
const FUZZ_SECONDS: u32 = 2;

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
        "fuzz" => crate::fuzz::run(None, FUZZ_SECONDS),
        "torture" => ignored(tally, "torture", None),
        "interop" => interop(tally),
        "all" => {
            // The tests of `interop` are among those of `test`.
            test(tally)?;
            models(tally)?;
            sim(tally)?;
            crate::fuzz::run(None, FUZZ_SECONDS)?;
            crate::semver::run()
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
    tally.step("tests of the lower crates", &mut tests)
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
            FEATURES,
            "--all-targets",
            "--profile",
            PROFILE,
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
            "--profile",
            PROFILE,
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )
}

/// What tests find in their environment; the real binary that tests of the whole use is the one of `profile`.
fn environment(profile: &str) -> Environment {
    let mut environment = variables();
    environment.push(("MILLPOND_BIN", binary(profile).into_os_string()));
    environment
}

fn test(tally: &mut Tally) -> TaskResult {
    checks()?;
    let environment = environment(PROFILE);
    let how = How {
        options: &["--show-output"],
        environment: &environment,
        limit: Some(programs::LIMIT),
    };
    let outcome = programs::run("tests", |_| true, how, (tally, false));
    let mut examples = cargo();
    examples.args([
        "test",
        "--profile",
        PROFILE,
        "--workspace",
        FEATURES,
        "--doc",
    ]);
    examples.args(["--", "--show-output"]);
    let examples = tally.step("examples in documentation", &mut examples);
    outcome.and(examples)?;
    crate::suites::installed_pjdfstest(&binary(PROFILE))
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
    tally.step("models", &mut tests)
}

fn sim(tally: &mut Tally) -> TaskResult {
    ignored(tally, "sim", Some(programs::LIMIT))
}

/// Long tests carry `#[ignore = "sim: …"]` or `#[ignore = "torture: …"]` and live in modules of that name.
fn ignored(tally: &mut Tally, level: &str, limit: Option<Duration>) -> TaskResult {
    let filter = format!("{level}::");
    let how = How {
        options: &["--show-output", "--ignored", &filter],
        environment: &environment(PROFILE),
        limit,
    };
    programs::run(level, |_| true, how, (tally, true))
}

pub(crate) fn release_binary() -> TaskResult {
    step(
        "release binary",
        cargo().args(["build", "--release", "-p", "millpond"]),
    )
}

/// The only level whose real binary is the one that people get.
fn interop(tally: &mut Tally) -> TaskResult {
    release_binary()?;
    let wanted = |name: &str| name == "torture::binary";
    let how = How {
        options: &["--show-output"],
        environment: &environment("release"),
        limit: Some(programs::LIMIT),
    };
    programs::run("interop", wanted, how, (tally, false))
}
