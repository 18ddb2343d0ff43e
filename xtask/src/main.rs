//! The project's one command: `cargo xtask ci [LEVEL]`, and its parts.

mod api;
mod bench;
mod ci;
mod controls;
mod environment;
mod fuzz;
mod layouts;
mod programs;
mod run;
mod semver;
mod suites;
mod tally;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  ci [LEVEL]      run the checks of a level (default: test)
                    smoke    format, lints, layering, unit tests of the lower crates
                    test     smoke, and every test of the workspace
                    models   protocols between threads, in many orders (also in all)
                    sim      crash points on the simulated disk
                    fuzz     every fuzz target for a short while, by coverage
                    torture  longer random runs
                    interop  golden pools and OpenZFS's zdb against the release binary (in test: against
                             one with assertions)
                    all      test, models, sim, fuzz, and the library's public types where that can be checked
  suites NAME     a suite that others wrote, on a mount of the release binary, as root
                    pjdfstest  POSIX, call by call; installed from crates.io
                    fsx        random changes of one file, each read back; installed from crates.io
                    stress     stress-ng, git, SQLite, a C compiler
                    xfstests   generic/quick; XFSTESTS names the folder in which it was built
                    postgres   PostgreSQL while the server is killed; a number: so many times
  bench beside [TURNS] [PROGRAMS,…]
                  a mount of the release binary where programs compute beside it, against a FUSE server that
                  does nothing, as root; fails when a rate is below its bar
  bench compare [--turns N] [--small] [--only SYSTEM,…] [--write]
                  such a mount beside ext4, btrfs and zfs-fuse as far as they are installed, in turns, as root; writes
                  the table and the chart of docs/performance.md, or prints the table
  controls [NAME…]
                  take cures out of a copy of the tree, one by one: the test that tests/controls names must fail
  fuzz [TARGET] [--seconds N]
                  a target, or each, under libFuzzer for so long (default: 60); inputs that reach something new are
                  kept in target/fuzz/found
  fuzz TARGET --input FILE
                  one input, as a failure says
  fuzz --minimize [TARGET]
                  the smallest inputs that reach what all found do become those of the repository
  tidy            layering, file length, stray markers, links in the documents
  api [--accept]  what changed of the library's public face, breaking or additive; accept it
  semver          the library's public types against the last release, by cargo-semver-checks where it is installed
  layouts         write docs/format-layouts.md from the declarations of the format
  properties      write docs/properties.md from the rows of properties
  features        write docs/feature_flags.md from the table of features
  golden          unpack the golden pools into target/golden
  openzfs         unpack OpenZFS's zdb into target/openzfs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["ci"] => return ci::run("test"),
        ["ci", level] => return ci::run(level),
        ["suites", name, rest @ ..] => suites::run(name, rest),
        ["bench", "beside", rest @ ..] => bench::run("scripts/beside.py", rest),
        ["bench", "compare", rest @ ..] => bench::run("scripts/compare.py", rest),
        ["controls", names @ ..] => controls::run(names),
        ["fuzz", "--minimize"] => fuzz::minimize(None),
        ["fuzz", "--minimize", target] => fuzz::minimize(Some(target)),
        ["fuzz", target, "--input", file] => fuzz::input(target, file),
        ["fuzz", rest @ ..] => match fuzz::plan(rest) {
            Some((target, seconds)) => fuzz::run(target, seconds),
            None => return usage(),
        },
        ["tidy"] => tidy::run(),
        ["api"] => api::run(false),
        ["api", "--accept"] => api::run(true),
        ["semver"] => semver::run(),
        ["layouts"] => layouts::run(),
        ["properties"] => layouts::properties(),
        ["features"] => layouts::features(),
        ["golden"] => environment::golden().map(|path| run::say(&path.display().to_string())),
        ["openzfs"] => environment::openzfs().map(|path| run::say(&path.display().to_string())),
        _ => return usage(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::complain(&format!("xtask: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    run::complain(USAGE);
    ExitCode::from(2)
}
