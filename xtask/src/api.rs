//! The public face of the library `millpond`, as lines of text: what a program can name, call and match on.
//!
//! It is read from the source as `cargo fmt` leaves it, so that the check takes no build and no network. That handles
//! go between threads is the library's own test.

mod listing;

#[cfg(test)]
mod tests;

use crate::environment::root;
use crate::run::{TaskError, TaskResult, say};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the accepted listing is.
const LISTING: &str = "docs/api.txt";
/// Where the library is.
const SOURCE: &str = "crates/millpond/src";

/// A difference from the accepted listing.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    line: String,
    /// Programs that compile today may not compile with it.
    breaks: bool,
}

/// Compares, or accepts what there is.
pub(crate) fn run(accept: bool) -> TaskResult {
    let root = root();
    let now = current(&root)?;
    let changes = compare(&accepted(&root)?, &now);
    for change in &changes {
        let kind = if change.breaks {
            "breaking"
        } else {
            "additive"
        };
        say(&format!("{kind}: {}", change.line));
    }
    let breaking = changes.iter().filter(|change| change.breaks).count();
    say(&format!(
        "{} lines, {breaking} breaking changes, {} additive",
        now.len(),
        changes.len() - breaking
    ));
    if accept {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        let path = root.join(LISTING);
        return std::fs::write(&path, text).map_err(|error| TaskError::File(path, error));
    }
    match changes.len() {
        0 => Ok(()),
        count => Err(TaskError::Faults(count)),
    }
}

/// What differs, for `tidy`.
pub(crate) fn check(root: &Path) -> TaskResult<Vec<String>> {
    let changes = compare(&accepted(root)?, &current(root)?);
    let fault = |change: Change| {
        let kind = if change.breaks {
            "breaking"
        } else {
            "additive"
        };
        let line = change.line;
        format!("{LISTING}: {kind} change: {line}; `cargo xtask api --accept` accepts it")
    };
    Ok(changes.into_iter().map(fault).collect())
}

fn read(path: PathBuf) -> TaskResult<String> {
    std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
}

fn accepted(root: &Path) -> TaskResult<BTreeSet<String>> {
    let path = root.join(LISTING);
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    Ok(read(path)?.lines().map(str::to_owned).collect())
}

fn current(root: &Path) -> TaskResult<BTreeSet<String>> {
    let folder = root.join(SOURCE).join("library");
    let failed = |error| TaskError::File(folder.clone(), error);
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|kind| kind == "rs") {
            sources.push(read(path)?);
        }
    }
    let names = listing::exported(&read(root.join(SOURCE).join("lib.rs"))?);
    Ok(listing::lines(&names, &sources))
}

/// What was removed breaks programs; so do new parts of what programs may take apart or put together themselves.
fn compare(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Vec<Change> {
    let removed = before.difference(now).map(|line| Change {
        line: format!("- {line}"),
        breaks: true,
    });
    let is_open = |line: &str| {
        let mut words = line.split(' ');
        let part = words.next().unwrap_or_default();
        let owner = words.next().and_then(|name| name.split("::").next());
        let whole = match part {
            "variant" => "enum",
            "field" => "struct",
            _ => return true,
        };
        let header = format!("{whole} {}", owner.unwrap_or_default());
        // A type that is new as a whole breaks nothing.
        !before.contains(&header)
    };
    let added = now.difference(before).map(|line| Change {
        line: format!("+ {line}"),
        breaks: !is_open(line),
    });
    removed.chain(added).collect()
}
