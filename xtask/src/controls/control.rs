//! A control as a file says it.
//!
//! ```text
//! title: what is taken out
//! test: -p millpond-space --lib a_test        (arguments of `cargo test`)
//! arguments: --ignored                        (of the test program; may be left out)
//! binary: yes                                 (the test needs the program itself; may be left out)
//! === crates/space/src/lib.rs
//! what is there, exactly once
//! --- instead
//! what is put there
//! ```
//!
//! There may be several changes, also of one file.

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeMap;
use std::path::Path;

const FILE: &str = "=== ";
const INSTEAD: &str = "--- instead";

/// What is done to a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) find: String,
    pub(super) replace: String,
}

/// A control.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) test: String,
    pub(super) arguments: String,
    pub(super) binary: bool,
    pub(super) changes: Vec<Change>,
}

impl Control {
    /// All of a folder, by name.
    pub(super) fn all(folder: &Path) -> TaskResult<Vec<Self>> {
        let failed = |error| TaskError::File(folder.to_owned(), error);
        let mut controls = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let text = std::fs::read_to_string(&path)
                .map_err(|error| TaskError::File(path.clone(), error))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let control = Self::parse(&name, &text)
                .map_err(|why| TaskError::File(path.clone(), std::io::Error::other(why)))?;
            controls.push(control);
        }
        controls.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(controls)
    }

    /// Reads a control.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut control = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut replaces = false;
        for line in text.lines() {
            if let Some(path) = line.strip_prefix(FILE) {
                replaces = false;
                control.changes.push(Change {
                    path: path.to_owned(),
                    ..Change::default()
                });
            } else if let Some(change) = control.changes.last_mut() {
                if line == INSTEAD && !replaces {
                    replaces = true;
                    continue;
                }
                let part = if replaces {
                    &mut change.replace
                } else {
                    &mut change.find
                };
                part.push_str(line);
                part.push('\n');
            } else {
                control.note(line)?;
            }
        }
        if control.title.is_empty() || control.test.is_empty() || control.changes.is_empty() {
            return Err("a title, a test and a change are needed".to_owned());
        }
        Ok(control)
    }

    fn note(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(": ").ok_or_else(|| line.to_owned())?;
        match key {
            "title" => value.clone_into(&mut self.title),
            "test" => value.clone_into(&mut self.test),
            "arguments" => value.clone_into(&mut self.arguments),
            "binary" => self.binary = value == "yes",
            unknown => return Err(format!("what is `{unknown}`?")),
        }
        Ok(())
    }

    /// The changed files with their contents.
    pub(super) fn applied(
        &self,
        read: impl Fn(&str) -> std::io::Result<String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut changed: BTreeMap<String, String> = BTreeMap::new();
        for change in &self.changes {
            let path = &change.path;
            let text = match changed.remove(path) {
                Some(text) => text,
                None => read(path).map_err(|error| format!("{path}: {error}"))?,
            };
            let count = text.matches(&change.find).count();
            if count != 1 || change.find.is_empty() {
                let first = change.find.lines().next().unwrap_or_default();
                return Err(format!("{path} has `{}` {count} times", first.trim()));
            }
            let text = text.replace(&change.find, &change.replace);
            changed.insert(path.clone(), text);
        }
        Ok(changed)
    }
}
