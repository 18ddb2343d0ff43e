//! The lists that are written from declarations: of layouts on disk, and of properties.
//!
//! The list of layouts on disk: written from the declarations, and none of them missing.
//!
//! Whether the list says what the declarations say is the test of the crate `format`, which knows them; here is only
//! seen from the source that each one is in it.

#[cfg(test)]
mod tests;

use crate::environment::root;
use crate::run::{TaskError, TaskResult, cargo, describe, say};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where the list is.
const LIST: &str = "docs/format-layouts.md";
/// What starts a declaration.
const MACROS: [&str; 3] = ["record! {", "areas! {", "bits! {"];

/// Where the list of properties is.
const PROPERTIES: &str = "docs/properties.md";

/// Where the list of features is.
const FEATURES: &str = "docs/feature_flags.md";

/// Writes the list of layouts.
pub(crate) fn run() -> TaskResult {
    write("millpond-format", "layouts", LIST)
}

/// Writes the list of properties. Whether it says what the rows say is a test of the crate `admin`.
pub(crate) fn properties() -> TaskResult {
    write("millpond-admin", "properties", PROPERTIES)
}

/// Writes the list of features. Whether it says what the table says is a test of the crate `format`.
pub(crate) fn features() -> TaskResult {
    write("millpond-format", "features", FEATURES)
}

/// Writes what an example of a crate prints.
fn write(package: &str, example: &str, list: &str) -> TaskResult {
    let root = root();
    let mut command = cargo();
    command
        .args(["run", "--quiet", "--package", package])
        .args(["--example", example])
        .current_dir(&root)
        .stderr(Stdio::inherit());
    let line = describe(&command);
    let output = command
        .output()
        .map_err(|error| TaskError::Start(line.clone(), error))?;
    if !output.status.success() {
        return Err(TaskError::Status(line, output.status));
    }
    let path = root.join(list);
    std::fs::write(&path, output.stdout).map_err(|error| TaskError::File(path, error))?;
    say(list);
    Ok(())
}

/// Declarations that are not in the list, and what it has besides, for `tidy`.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut declared = BTreeSet::new();
    for file in files.iter().filter(|file| is_source(file)) {
        declared.extend(declarations(&read(root.join(file))?));
    }
    Ok(differences(&declared, &read(root.join(LIST))?))
}

fn read(path: PathBuf) -> TaskResult<String> {
    std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
}

/// Tests declare what no disk holds.
fn is_source(file: &Path) -> bool {
    file.starts_with("crates")
        && file.extension().is_some_and(|kind| kind == "rs")
        && !file
            .iter()
            .any(|part| part == "tests" || part == "tests.rs")
}

/// The names that a source file declares.
fn declarations(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        if MACROS.contains(&line.trim()) {
            inside = true;
        } else if inside && let Some(rest) = line.trim().strip_prefix("pub struct ") {
            names.extend(rest.split(' ').next().map(str::to_owned));
            inside = false;
        }
    }
    names
}

/// The names of the list: what its third-level headings quote.
fn listed(list: &str) -> BTreeSet<String> {
    list.lines()
        .filter(|line| line.starts_with("### "))
        .filter_map(|line| line.split('`').nth(1))
        .map(str::to_owned)
        .collect()
}

fn differences(declared: &BTreeSet<String>, list: &str) -> Vec<String> {
    let listed = listed(list);
    let missing = declared.difference(&listed).map(|name| {
        format!(
            "{LIST}: no `{name}`: add it in crates/format/src/ledger.rs, then `cargo xtask layouts`"
        )
    });
    let besides = listed
        .difference(declared)
        .map(|name| format!("{LIST}: `{name}` is declared nowhere; `cargo xtask layouts`"));
    missing.chain(besides).collect()
}
