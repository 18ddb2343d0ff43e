//! What goes by the type of a vdev matches over `VdevType`, so that the compiler asks what a new type means.
//!
//! A type's name as text stands in configurations, in what users type, and in tests.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

const TYPES: &str = "crates/format/src/config.rs";

/// The crates that read configurations, and those that go by what is reported of them.
const READERS: [&str; 6] = ["admin", "control", "inspect", "millpond", "pool", "vdev"];

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let read = |file: &Path| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let table = read(Path::new(TYPES))?;
    let names = names(&table);
    if names.is_empty() {
        return Ok(vec![format!("{TYPES}: no types of vdevs found")]);
    }
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_reader(file)) {
        faults.extend(asked(&file.to_string_lossy(), &read(file)?, &names));
    }
    Ok(faults)
}

/// Whether it is such a crate's own code, without its tests.
fn is_reader(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let in_crate = match &parts[..] {
        [crates, name, src, ..] => crates == "crates" && READERS.contains(&&**name) && src == "src",
        _ => false,
    };
    let is_test = parts
        .iter()
        .any(|part| part == "tests" || part == "tests.rs");
    in_crate && !is_test && file.extension().is_some_and(|extension| extension == "rs")
}

/// The names in the list of types: `Name = "name",`.
fn names(table: &str) -> Vec<&str> {
    let list = table.split_once("\nvdev_types! {").map(|(_, list)| list);
    let list = list.and_then(|list| list.split_once("\n}"));
    let lines = list.map_or("", |(list, _)| list).lines();
    let rows = lines.filter_map(|line| line.split_once(" = \"")?.1.strip_suffix("\","));
    rows.collect()
}

/// Where a name is compared with, or is an arm of a match, by itself or in a `Some`.
fn asked(file: &str, text: &str, names: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for name in names {
        let literal = format!("\"{name}\"");
        for (at, _) in text.match_indices(&literal) {
            let (before, rest) = (&text[..at], text[at + literal.len()..].trim_start());
            let is_compared = before.ends_with("== ") || before.ends_with("!= ");
            let is_in_some = before.ends_with("Some(") && rest.starts_with(')');
            if is_compared || is_in_some || rest.starts_with("=>") || rest.starts_with("| ") {
                let line = before.lines().count().max(1);
                faults.push(format!(
                    "{file}:{line}: the vdev type `{name}` is asked for as text: match over `VdevType` of {TYPES}"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
macro_rules! vdev_types {
    (a) => { "no" };
}

vdev_types! {
    /// One.
    Mirror = "mirror",
    Hole = "hole",
}

const OTHER: &str = "other";
"#;

    #[test]
    fn names_of_types_are_found() {
        assert_eq!(names(TABLE), ["mirror", "hole"]);
    }

    #[test]
    fn a_type_is_not_asked_for_by_text() {
        let names = names(TABLE);
        for bad in [
            "fn a() {\n    vdev.kind == \"mirror\"",
            "fn a() {\n    vdev.kind() != \"hole\"",
            "fn a() {\n    \"mirror\" => 1,",
            "fn a() {\n    matches!(kind, \"hole\" | x)",
            "fn a() {\n    vdev.kind() == Some(\"hole\")",
        ] {
            let faults = asked("crates/pool/src/b.rs", bad, &names);
            assert_eq!(faults.len(), 1, "{bad}");
            assert!(
                faults[0].starts_with("crates/pool/src/b.rs:2: "),
                "{faults:?}"
            );
        }
        for good in [
            "(\"mirror\".to_owned(), 2)",
            "VdevType::Mirror.name()",
            "kind == \"other\"",
            "Some((\"hole\", path)) => path",
        ] {
            assert!(
                asked("crates/pool/src/b.rs", good, &names).is_empty(),
                "{good}"
            );
        }
    }

    #[test]
    fn readers_are_crates_that_go_by_types() {
        for reader in [
            "crates/pool/src/config.rs",
            "crates/admin/src/report.rs",
            "crates/millpond/src/zpool/vdev_specs.rs",
        ] {
            assert!(is_reader(Path::new(reader)), "{reader}");
        }
        for other in [
            "crates/pool/src/config/tests.rs",
            "crates/pool/tests/b.rs",
            "crates/millpond/src/zpool/tests.rs",
            "crates/dsl/src/name.rs",
            "xtask/src/tidy.rs",
        ] {
            assert!(!is_reader(Path::new(other)), "{other}");
        }
    }
}
