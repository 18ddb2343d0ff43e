//! Limits are the process's: in a test program that draws some, every pool is made by a `TestPool`, which keeps the
//! usual limits for tests that do not draw (`millpond_torture::tunables`).

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DRAW: [&str; 2] = ["drawn(", "drawn_but("];
const PAST_THE_TEST_POOL: [&str; 2] = ["Pool::create(", "Pool::import("];

/// Faults of the test programs in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut programs: BTreeMap<PathBuf, Vec<(String, String)>> = BTreeMap::new();
    for file in files {
        let Some(program) = program(file) else {
            continue;
        };
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        let sources = programs.entry(program).or_default();
        sources.push((file.display().to_string(), text));
    }
    Ok(programs
        .values()
        .flat_map(|sources| faults(sources))
        .collect())
}

/// The test program that a source belongs to: `crates/a/tests/b` for `b.rs` and for all that is in the folder `b`.
fn program(file: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = file.components().take(4).collect();
    let is_source = file.extension().is_some_and(|kind| kind == "rs");
    let is_test =
        parts.len() == 4 && parts[0].as_os_str() == "crates" && parts[2].as_os_str() == "tests";
    let program: PathBuf = parts.into_iter().collect();
    (is_source && is_test).then(|| program.with_extension(""))
}

/// Whether the text has the call, and not that of a type whose name only ends so.
fn calls(text: &str, call: &str) -> bool {
    text.match_indices(call)
        .any(|(at, _)| !text[..at].ends_with(|letter: char| letter.is_alphanumeric()))
}

fn faults(sources: &[(String, String)]) -> Vec<String> {
    let has =
        |text: &str, words: &[&'static str]| words.iter().copied().find(|word| calls(text, word));
    let mut found = Vec::new();
    if sources.iter().any(|(_, text)| has(text, &DRAW).is_some()) {
        for (name, text) in sources {
            if let Some(word) = has(text, &PAST_THE_TEST_POOL) {
                found.push(format!(
                    "{name}: `{word}` in a program that draws limits: TestPool::create_as and import_as keep the \
                     usual ones for those that do not draw"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_beside_drawn_limits_are_found() {
        let source = |text: &str| ("a.rs".to_owned(), text.to_owned());
        let (draws, makes) = (
            source("tunables::drawn(seed)"),
            source("Pool::create(options)"),
        );
        assert_eq!(faults(&[draws.clone(), makes.clone()]).len(), 1);
        assert_eq!(faults(&[makes]).len(), 0);
        assert_eq!(
            faults(&[draws, source("TestPool::create(devices)")]).len(),
            0
        );
        let of = |path: &str| program(Path::new(path)).map(|found| found.display().to_string());
        let expected = Some("crates/a/tests/b".to_owned());
        assert_eq!(of("crates/a/tests/b.rs"), expected);
        assert_eq!(of("crates/a/tests/b/c.rs"), expected);
        assert_eq!(of("crates/a/src/tests/b.rs"), None);
    }
}
