//! The layering: a crate may depend only on crates of a lower level, or of its own where the table says so.

use crate::run::{TaskError, TaskResult};
use std::path::Path;

/// Every crate's level. A crate depends on lower levels only.
const LEVELS: &[(&str, u32)] = &[
    ("golden", 0),
    ("base", 0),
    ("sys", 1),
    ("codec", 2),
    ("format", 3),
    ("device", 4),
    ("layout", 4),
    ("sim", 5),
    ("vdev", 5),
    ("space", 5),
    ("cache", 5),
    ("txg", 5),
    ("pipeline", 6),
    ("dmu", 7),
    ("intent", 8),
    ("dsl", 8),
    ("pool", 9),
    ("admin", 9),
    ("posix", 10),
    ("fuse", 11),
    ("inspect", 11),
    ("control", 11),
    ("daemon", 12),
    ("millpond", 13),
    ("torture", 14),
    ("fuzz", 14),
];

/// Faults of the crate graph.
pub(super) fn check(root: &Path) -> TaskResult<Vec<String>> {
    let mut faults = Vec::new();
    let crates = root.join("crates");
    let failed = |error| TaskError::File(crates.clone(), error);
    for entry in std::fs::read_dir(&crates).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .map_err(|error| TaskError::File(manifest.clone(), error))?;
        let Some(level) = level(&name) else {
            faults.push(format!(
                "crates/{name}: has no level in xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for dependency in dependencies(&text) {
            if self::level(dependency).is_some_and(|below| below >= level) {
                faults.push(format!(
                    "crates/{name}: depends on `{dependency}`, which is not below it"
                ));
            }
        }
    }
    faults.sort();
    Ok(faults)
}

fn level(name: &str) -> Option<u32> {
    LEVELS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, level)| *level)
}

/// The names in `[dependencies]`; tests may look upward, so `[dev-dependencies]` do not count.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}
