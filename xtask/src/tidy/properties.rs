//! What asks for a property names its row's constant, so that the compiler knows its type and finds who reads it.
//!
//! A name as text stands in the tables of `dsl`, in what users type, and in tests.

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TABLES: &str = "crates/dsl/src/property/table";

/// What a property's name could follow as text.
const ASKING: [&str; 6] = [
    "user_property(",
    "find_dataset_property(",
    "find_pool_property(",
    "find_vdev_property(",
    ".name() == ",
    ".name() != ",
];

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let read = |file: &PathBuf| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.starts_with(TABLES)) {
        names.extend(rows(&read(file)?));
    }
    if names.is_empty() {
        return Ok(vec![format!("{TABLES}: no rows of properties found")]);
    }
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        faults.extend(asked(&file.to_string_lossy(), &read(file)?, &names));
    }
    Ok(faults)
}

/// Whether it is a crate's own code, without its tests and without the tables.
fn is_source(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let in_crate = matches!(&parts[..], [crates, _, src, ..] if crates == "crates" && src == "src");
    let is_test = parts
        .iter()
        .any(|part| part == "tests" || part == "tests.rs");
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    in_crate && is_rust && !is_test && !file.starts_with(TABLES)
}

/// The names in a table: `CONSTANT: Type = constructor("name", …`.
fn rows(text: &str) -> BTreeSet<String> {
    let constants = text.split(';').filter_map(|row| {
        let (constant, value) = row.split_once(": ")?;
        let constant = constant.split_whitespace().last()?;
        let is_constant = constant
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let (_, arguments) = value.split_once(" = ")?.1.split_once('(')?;
        is_constant.then(|| literal(arguments))?
    });
    constants.map(str::to_owned).collect()
}

/// The text at the front of some arguments.
fn literal(arguments: &str) -> Option<&str> {
    let inner = arguments.trim_start().strip_prefix('"')?;
    inner.split_once('"').map(|(text, _)| text)
}

fn asked(file: &str, text: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for asking in ASKING {
        for (at, _) in text.match_indices(asking) {
            let (before, rest) = text.split_at(at + asking.len());
            let Some(name) = literal(rest).filter(|name| names.contains(*name)) else {
                continue;
            };
            let line = before.lines().count();
            faults.push(format!(
                "{file}:{line}: the property `{name}` is asked for as text: use its constant of {TABLES}"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        const FV: Types = Types::HEADS;
        SYNC: SyncPolicy = index("sync", "SYNC", words::SYNC, 0).types(FV);
        /// Of it.
        RATIO: u64 = number(
            "ratio",
            "RATIO",
        ) => Ratio;
    "#;

    #[test]
    fn names_of_rows_are_found() {
        let found = rows(TABLE);
        assert_eq!(found.iter().collect::<Vec<_>>(), ["ratio", "sync"]);
    }

    #[test]
    fn a_property_is_not_asked_for_by_text() {
        let names = rows(TABLE);
        let file = "crates/a/src/b.rs";
        for bad in [
            "fn a() {\n    b.user_property(\"sync\")",
            "fn a() {\n    find_dataset_property(\n        \"ratio\",",
            "\ncolumn.name() == \"sync\"",
            "\ncolumn.name() != \"sync\"",
        ] {
            let faults = asked(file, bad, &names);
            assert_eq!(faults.len(), 1, "{bad}");
            assert!(faults[0].starts_with("crates/a/src/b.rs:2: "), "{faults:?}");
        }
        for good in [
            "b.user_property(name)",
            "b.user_property(\"com:note\")",
            "find_dataset_property(&name, \"sync\")",
            "SYNC.is(column.name())",
            "thread.name() == \"worker\"",
        ] {
            assert!(asked(file, good, &names).is_empty(), "{good}");
        }
    }

    #[test]
    fn tests_and_tables_name_them() {
        assert!(is_source(Path::new("crates/a/src/b.rs")));
        for other in [
            "crates/a/src/b/tests.rs",
            "crates/a/tests/b.rs",
            "crates/dsl/src/property/table/pool.rs",
            "xtask/src/tidy.rs",
            "crates/a/src/b.md",
        ] {
            assert!(!is_source(Path::new(other)), "{other}");
        }
    }
}
