//! Every invariant has a test that trips it, by name, and a row in the list of them.

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LIST: &str = "docs/internals/invariants.md";
/// How code checks one.
const CHECK: &str = "invariant!(";

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let read = |file: &Path| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let list = read(Path::new(LIST))?;
    let (mut code, mut tests) = (Vec::new(), String::new());
    for file in files {
        let name = file.to_string_lossy();
        if !name.starts_with("crates/")
            || !name.ends_with(".rs")
            || name.starts_with("crates/base/")
        {
            continue;
        }
        let text = read(file)?;
        if name.contains("/tests") {
            tests += &text;
        } else {
            code.push((name.into_owned(), text));
        }
    }
    Ok(faults(&code, &tests, &list))
}

fn faults(code: &[(String, String)], tests: &str, list: &str) -> Vec<String> {
    let mut checked: BTreeMap<&str, &str> = BTreeMap::new();
    let mut faults = Vec::new();
    for (file, text) in code {
        for (at, _) in text.match_indices(CHECK) {
            match name(&text[at..]) {
                Some(name) => {
                    checked.insert(name, file);
                }
                None => faults.push(format!("{file}: an invariant has no name `crate.subject`")),
            }
        }
    }
    for (name, file) in checked {
        if !tests.contains(&format!("\"{name}\"")) {
            faults.push(format!("{file}: no test trips the invariant `{name}`"));
        }
        if !list.contains(&format!("| `{name}` |")) {
            faults.push(format!("{LIST}: `{name}` is missing, which {file} checks"));
        }
    }
    faults
}

/// The first text of a check that is a name: `crate.subject`.
fn name(check: &str) -> Option<&str> {
    let end = check.find(';').unwrap_or(check.len());
    let texts = check[..end].split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        let letters = text
            .bytes()
            .all(|byte| byte == b'.' || byte == b'_' || byte.is_ascii_lowercase());
        letters && text.matches('.').count() == 1
    };
    texts.into_iter().find(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_test_trips_or_no_list_has_is_told() {
        let check = "invariant!(\n    findings,\n    ok(),\n    \"a.rule\",\n    \"{x}; {y}\"\n);";
        let code = [("crates/a/src/b.rs".to_owned(), check.to_owned())];
        let list = "| `a.rule` | what | when |";
        let test = "assert_eq!(found, \"a.rule\")";
        assert!(faults(&code, test, list).is_empty());
        assert_eq!(faults(&code, "a.rule", list).len(), 1);
        assert_eq!(faults(&code, test, "a.rule").len(), 1);
        let nameless = [(
            "crates/a/src/b.rs".to_owned(),
            "invariant!(f, x, NAME, \"no\");".to_owned(),
        )];
        assert_eq!(faults(&nameless, test, list).len(), 1);
    }
}
