//! Length of files, and markers and paths that do not belong in the tree.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 1_000;
const COLUMNS_MAX: usize = 120;

/// Faults of the texts in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "rs"))
    {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        check_source(file, &text, &mut faults);
    }
    Ok(faults)
}

fn check_source(file: &Path, text: &str, faults: &mut Vec<String>) {
    let name = file.display();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines, at most {LINES_MAX}"));
    }
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        // A text that a program stores or prints is one line here as well.
        let is_text = line.contains("description: \"") || line.contains("#[error(");
        if line.chars().count() > COLUMNS_MAX && !is_text {
            faults.push(format!("{name}:{number}: over {COLUMNS_MAX} columns"));
        }
        for marker in markers() {
            if line.contains(&marker) {
                faults.push(format!("{name}:{number}: `{marker}` does not belong here"));
            }
        }
    }
}

/// Put together at run time, so that this file does not hold them itself.
fn markers() -> [String; 5] {
    ["TO", "FIX", "XX", "unimplemented", "to"].map(|start| match start {
        "TO" => format!("{start}DO"),
        "FIX" => format!("{start}ME"),
        "XX" => format!("{start}X:"),
        "to" => format!("{start}do!("),
        _ => format!("{start}!("),
    })
}
