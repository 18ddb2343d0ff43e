//! The layering: a crate may depend only on crates of a lower level, or of its own where the table says so.

use crate::run::{TaskError, TaskResult};
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::path::Path;

/// Every crate's level. A crate depends on lower levels only.
const LEVELS: &[(&str, u32)] = &[
    ("golden", 0),
    ("base", 0),
    ("sys", 1),
    ("codec", 2),
    ("format", 3),
    ("crypto", 4),
    ("nbd", 2),
    ("program", 1),
    ("tls", 1),
    ("stream", 4),
    ("device", 4),
    ("layout", 4),
    ("sim", 5),
    ("vdev", 5),
    ("space", 5),
    ("cache", 5),
    ("l2arc", 5),
    ("txg", 5),
    ("pipeline", 6),
    ("dmu", 7),
    ("intent", 8),
    ("dsl", 8),
    ("pool", 9),
    ("admin", 9),
    ("posix", 10),
    ("volume", 10),
    ("replication", 10),
    ("fuse", 11),
    ("inspect", 11),
    ("control", 11),
    ("daemon", 12),
    ("millpond", 13),
    ("torture", 14),
    ("fuzz", 14),
];

/// Faults of the crate graph. Tests may look upward: what only they depend on does not count.
pub(super) fn check(root: &Path) -> TaskResult<Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(TaskError::Metadata)?;
    let crates = root.join("crates");
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        if !package.manifest_path.starts_with(&crates) {
            continue;
        }
        let name = short(&package.name);
        let Some(level) = level(name) else {
            faults.push(format!(
                "crates/{name}: has no level in xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let is_ours = dependency.path.is_some();
            if !is_ours || dependency.kind == DependencyKind::Development {
                continue;
            }
            let dependency = short(&dependency.name);
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

/// What a crate of ours is called here: its folder.
fn short(package: &str) -> &str {
    package.strip_prefix("millpond-").unwrap_or(package)
}

fn level(name: &str) -> Option<u32> {
    LEVELS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, level)| *level)
}
