//! What asks for a property names its row's constant, so that the compiler knows its type and finds who reads it; what
//! users may set is read by somebody, or its row says that it is only stored.
//!
//! A name as text stands in the tables of `dsl`, in what users type, and in tests.

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TABLES: &str = "crates/dsl/src/property/table";
/// The tables, by their modules.
const MODULES: [&str; 3] = ["dataset", "pool", "vdev"];

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
    let (mut names, mut unread) = (BTreeSet::new(), BTreeSet::new());
    for module in MODULES {
        let text = read(&PathBuf::from(format!("{TABLES}/{module}.rs")))?;
        let found = rows(&text);
        if found.is_empty() {
            return Ok(vec![format!("{TABLES}/{module}.rs: no rows found")]);
        }
        names.extend(found);
        unread.extend(set_by_users(&text).map(|constant| (module, constant.to_owned())));
    }
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        let text = read(file)?;
        faults.extend(asked(&file.to_string_lossy(), &text, &names));
        unread.retain(|(module, constant)| !is_read(&text, module, constant));
    }
    faults.extend(unread.iter().map(|(module, constant)| {
        format!(
            "{TABLES}/{module}.rs: nothing reads {constant}: carry it out, or have the row say `.stored()`"
        )
    }));
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

/// The rows of a table, `CONSTANT: Type = constructor("name", …`: the constant, and all after the sign.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').filter_map(|row| {
        let (constant, value) = row.split_once(": ")?;
        let constant = constant.split_whitespace().last()?;
        let is_constant = constant
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let (_, made) = value.split_once(" = ")?;
        (is_constant && made.contains('(')).then_some((constant, made))
    })
}

/// The names in a table.
fn rows(text: &str) -> BTreeSet<String> {
    let names = lines(text).filter_map(|(_, made)| literal(made.split_once('(')?.1));
    names.map(str::to_owned).collect()
}

/// The constants of rows whose values come from users and are to mean something: not such of which a figure is taken,
/// nor those of which the row says how far they are carried out.
fn set_by_users(text: &str) -> impl Iterator<Item = &str> {
    const BY_USERS: [&str; 3] = [".settable(", ".set()", ".at_creation()"];
    const OTHERS: [&str; 4] = [".read_only()", ".stored()", ".support(", " => "];
    lines(text).filter_map(|(constant, made)| {
        let has = |signs: &[&str]| signs.iter().any(|sign| made.contains(sign));
        // Words are chosen by users unless the row says otherwise.
        let constructor = made.split('(').next().unwrap_or(made);
        let has_words =
            ["index", "switch"].contains(&constructor) || constructor.ends_with("::row");
        let is_set = has_words || has(&BY_USERS);
        (is_set && !has(&OTHERS)).then_some(constant)
    })
}

/// Whether a source reads a row: it names the constant, and the table that this is of.
fn is_read(text: &str, module: &str, constant: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_whole = |(at, _): (usize, &str)| {
        let (before, rest) = (&text[..at], &text[at + constant.len()..]);
        !before.ends_with(is_part) && !rest.starts_with(is_part)
    };
    let from = ["property::", "rows::"].map(|path| format!("{path}{module}::"));
    let is_used = from.iter().any(|path| text.contains(path.as_str()))
        || text.contains(&format!("{module}::{constant}"))
        || text.contains(&format!("{module} as "));
    is_used && text.match_indices(constant).any(is_whole)
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
    fn what_users_set_is_read() {
        const TABLE: &str = r#"
            SYNC: SyncPolicy = SyncPolicy::row("sync", "SYNC", SyncPolicy::Standard).types(FV);
            QUOTA: u64 = number(
                "quota",
                "QUOTA",
            )
                .settable(NONE);
            USED: u64 = number("used", "USED", Number::Bytes);
            MOUNTED: bool = index("mounted", "MOUNTED", SWITCH, 0).read_only() => Mounted;
            VERSION: u64 = number("version", "VERSION").settable(NONE) => Version;
            SNAPDEV: u64 = index("snapdev", "SNAPDEV", words::SNAPDEV, 0).stored();
        "#;
        assert_eq!(set_by_users(TABLE).collect::<Vec<_>>(), ["SYNC", "QUOTA"]);
        for reads in [
            "use dsl::property::dataset::{ATIME, SYNC};\n",
            "use admin::rows::dataset::SYNC;",
            "head.get(dataset::SYNC)",
            "use dsl::property::{dataset as rows};\nrows::SYNC",
        ] {
            assert!(is_read(reads, "dataset", "SYNC"), "{reads}");
        }
        for other in [
            "use dsl::property::dataset::{ATIME, SYNC_MAX};",
            "use dsl::property::pool::SYNC;",
            "const SYNC: u32 = 1;",
        ] {
            assert!(!is_read(other, "dataset", "SYNC"), "{other}");
        }
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
