//! House rules that a tool can check: layering, circles of files, unused dependencies, file length, stray markers,
//! links, drawn limits, lints that crates ask for, who decodes what, names of properties and of types of
//! vdevs, tests of invariants, texts that negative controls take out.

mod circles;
mod decoders;
mod dependencies;
mod invariants;
mod layers;
mod links;
mod lints;
mod properties;
mod queues;
mod texts;
mod turns;
mod vdev_types;
mod words;

#[cfg(test)]
mod tests;

use crate::environment::root;
use crate::run::{TaskError, TaskResult, complain};
use std::path::{Path, PathBuf};

/// Checks everything and prints what is wrong.
pub(crate) fn run() -> TaskResult {
    let root = root();
    let mut faults = layers::check(&root)?;
    let files = tracked(&root)?;
    faults.extend(circles::check(&root, &files)?);
    faults.extend(texts::check(&root, &files)?);
    faults.extend(queues::check(&root, &files)?);
    faults.extend(decoders::check(&root, &files)?);
    faults.extend(dependencies::check(&root, &files)?);
    faults.extend(invariants::check(&root, &files)?);
    faults.extend(links::check(&root, &files)?);
    faults.extend(lints::check(&root, &files)?);
    faults.extend(properties::check(&root, &files)?);
    faults.extend(turns::check(&root, &files)?);
    faults.extend(vdev_types::check(&root, &files)?);
    faults.extend(words::check(&root, &files)?);
    faults.extend(crate::api::check(&root)?);
    faults.extend(crate::layouts::check(&root, &files)?);
    faults.extend(crate::controls::check(&root)?);
    for fault in &faults {
        complain(fault);
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(TaskError::Faults(faults.len()))
    }
}

/// Every file of the repository, relative to its root, without build output.
pub(crate) fn tracked(root: &Path) -> TaskResult<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let absolute = root.join(&folder);
        let failed = |error| TaskError::File(absolute.clone(), error);
        for entry in std::fs::read_dir(&absolute).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let path = folder.join(&name);
            let hidden = name.to_string_lossy().starts_with('.');
            if entry.file_type().map_err(failed)?.is_dir() {
                if name != "target" && (!hidden || name == ".ci") {
                    folders.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
