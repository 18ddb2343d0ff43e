//! Links between the documents must lead somewhere.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

/// Faults of the links in the documents.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "md"))
    {
        let path = root.join(file);
        let text =
            std::fs::read_to_string(&path).map_err(|error| TaskError::File(path.clone(), error))?;
        let folder = path.parent().unwrap_or(root);
        for link in targets(&text) {
            let place = link.split('#').next().unwrap_or_default();
            if !place.is_empty() && !place.contains("://") && !folder.join(place).exists() {
                faults.push(format!("{}: leads nowhere: {link}", file.display()));
            }
        }
    }
    Ok(faults)
}

fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}
