//! The library's public face as its users' compilers see it, by `cargo-semver-checks`: types, bounds and traits, which
//! the listing of `docs/api.txt` does not know.
//!
//! It compares with the newest release (`v…`), or where there is none with the commit that [`BASELINE`] names.

use crate::environment::root;
use crate::run::{TaskError, TaskResult, cargo, say, step};
use std::process::Command;

/// A commit, until there is a release.
const BASELINE: &str = "docs/api-baseline.txt";

/// Compares, or says why not.
pub(crate) fn run() -> TaskResult {
    let version = cargo().args(["semver-checks", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        say(
            "== public types: skipped: `cargo install cargo-semver-checks --locked` brings what checks them",
        );
        return Ok(());
    }
    let baseline = baseline()?;
    if git(&["cat-file", "-e", &format!("{baseline}^{{commit}}")]).is_none() {
        say(&format!(
            "== public types: skipped: {baseline} is not in this copy of the repository"
        ));
        return Ok(());
    }
    let mut check = cargo();
    check.args(["semver-checks", "check-release", "-p", "millpond"]);
    // The library is what is left without commands.
    check.args(["--only-explicit-features", "--baseline-rev", &baseline]);
    step(&format!("public types against {baseline}"), &mut check)
}

/// What git says, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("-C").arg(root()).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

fn baseline() -> TaskResult<String> {
    if let Some(tag) = git(&["describe", "--tags", "--abbrev=0", "--match", "v*"]) {
        return Ok(tag);
    }
    let path = root().join(BASELINE);
    let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
    Ok(text.trim().to_owned())
}
