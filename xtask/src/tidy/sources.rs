//! Time, threads and chance come from a few places (`clippy.toml` names the functions that only those call).
//!
//! The lint is off by default, for tests, and on in each crate's own code. That it is, and that nobody else excuses
//! himself, is seen to here.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

/// Crates that are tests themselves.
const TESTS: [&str; 3] = ["golden", "torture", "fuzz"];

/// Who calls those functions for all others.
const AUTHORISED: [&str; 3] = [
    "crates/base/src/clock.rs",
    "crates/base/src/thread.rs",
    "crates/sys/src/random.rs",
];

const LINT: &str = "clippy::disallowed_methods";
const ASKED_FOR: &str = "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]";

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    for file in files {
        let Some(place) = place(file) else { continue };
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        faults.extend(fault(&file.to_string_lossy(), place, &text));
    }
    Ok(faults)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where a library or a program begins.
    Root,
    Other,
}

/// None: no source of a crate's own code.
fn place(file: &Path) -> Option<Place> {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let [crates, name, folder, .., last] = &parts[..] else {
        return None;
    };
    if crates != "crates" || folder != "src" || !last.ends_with(".rs") {
        return None;
    }
    if TESTS.contains(&name.as_ref()) {
        return None;
    }
    let is_root = match &parts[3..] {
        [file] => file == "lib.rs" || file == "main.rs",
        [folder, ..] => folder == "bin",
        [] => false,
    };
    Some(if is_root { Place::Root } else { Place::Other })
}

fn fault(name: &str, place: Place, text: &str) -> Option<String> {
    let mentions = text.matches(LINT).count();
    match place {
        Place::Root if !text.contains(ASKED_FOR) => {
            Some(format!("{name}: `{ASKED_FOR}` is missing"))
        }
        Place::Root if mentions == 1 => None,
        Place::Other if mentions == 0 || AUTHORISED.contains(&name) => None,
        Place::Root | Place::Other => Some(format!(
            "{name}: `{LINT}` is for {} to say",
            AUTHORISED.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Option<String> {
        fault(name, place(Path::new(name))?, text)
    }

    #[test]
    fn each_crate_asks_for_the_lint_and_few_are_excused() {
        let excuse = format!("#[expect({LINT}, reason = \"…\")]");
        for root in ["lib.rs", "main.rs", "bin/other.rs"] {
            let name = format!("crates/a/src/{root}");
            assert!(of(&name, "mod b;").is_some());
            assert_eq!(of(&name, ASKED_FOR), None);
            assert!(of(&name, &format!("{ASKED_FOR}\n{excuse}")).is_some());
        }
        assert_eq!(of("crates/a/src/b.rs", "fn b() {}"), None);
        assert!(of("crates/a/src/b/main.rs", &excuse).is_some());
        assert_eq!(of(AUTHORISED[0], &excuse), None);
        assert_eq!(of("crates/a/tests/b.rs", &excuse), None);
        assert_eq!(of("crates/torture/src/lib.rs", "mod b;"), None);
    }
}
