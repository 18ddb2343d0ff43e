//! Bytes of the pool's trees are decoded by the layer that they belong to: who is above asks it for what they say.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

/// Crates above `dsl`. `inspect` is none of them: it reads pools without trusting any of the others.
const ABOVE: [&str; 9] = [
    "admin",
    "control",
    "daemon",
    "fuse",
    "millpond",
    "pool",
    "posix",
    "replication",
    "volume",
];

/// What is decoded below, and what is asked instead.
const OWNED: [(&str, &str); 8] = [
    ("BlockPointer", "dmu::raw"),
    ("DnodePhys", "dmu::raw"),
    ("ObjectSetPhys", "dmu::raw"),
    ("BookmarkPhys", "dsl"),
    ("BpobjPhys", "dsl"),
    ("DatasetPhys", "dsl::records"),
    ("DeadlistPhys", "dsl"),
    ("DirectoryPhys", "dsl::records"),
];

/// Of these crates those that have bytes of their own in the pool.
const OWNERS: [&str; 2] = ["pool", "posix"];
/// How a field is read that has no type of its own.
const FIELD: &str = "get_at(";

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_above(file)) {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        faults.extend(faults_of(&file.to_string_lossy(), &text));
    }
    Ok(faults)
}

/// Whether it is the code of a crate above, without its tests.
fn is_above(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let [first, name, src, rest @ ..] = &parts[..] else {
        return false;
    };
    let is_test = rest
        .iter()
        .any(|part| part == "tests" || part == "tests.rs");
    first == "crates"
        && src == "src"
        && !is_test
        && ABOVE.iter().any(|above| name == above)
        && file.extension().is_some_and(|kind| kind == "rs")
}

pub(super) fn faults_of(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let is_owner = OWNERS
        .iter()
        .any(|owner| file.starts_with(&format!("crates/{owner}/")));
    for (line, number) in text.lines().zip(1..) {
        if !is_owner && line.contains(FIELD) {
            faults.push(format!(
                "{file}:{number}: a field is decoded here; dmu::raw or dsl::records is asked for what it says"
            ));
        }
        for (name, instead) in OWNED {
            if line.contains(&format!("{name}::decode")) {
                faults.push(format!(
                    "{file}:{number}: {name} is decoded here; {instead} is asked for what it says"
                ));
            }
        }
    }
    faults
}
