//! A crate depends on nothing that its sources do not name.

use crate::run::{TaskError, TaskResult};
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::path::{Path, PathBuf};

/// Faults of the manifests in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(TaskError::Metadata)?;
    let mut faults = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent();
        let folder = folder.and_then(|folder| folder.as_std_path().strip_prefix(root).ok());
        let Some(folder) = folder else { continue };
        let sources = sources(root, folder, files)?;
        for dependency in &package.dependencies {
            let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
            let of_tests = dependency.kind == DependencyKind::Development;
            let mut looked_at = sources
                .iter()
                .filter(|(file, _)| of_tests || file.starts_with("src"));
            if !looked_at.any(|(_, text)| is_named(name, text)) {
                faults.push(format!(
                    "{}/Cargo.toml: depends on `{name}`, which no source names",
                    folder.display()
                ));
            }
        }
    }
    Ok(faults)
}

/// The sources of a crate, by their paths in it, with those of others that its tests take in by their paths.
fn sources(root: &Path, folder: &Path, files: &[PathBuf]) -> TaskResult<Vec<(PathBuf, String)>> {
    let read = |file: &Path| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let mut found = Vec::new();
    for file in files {
        let Ok(inner) = file.strip_prefix(folder) else {
            continue;
        };
        if inner.extension().is_some_and(|kind| kind == "rs") {
            found.push((inner.to_owned(), read(file)?));
        }
    }
    let elsewhere: Vec<PathBuf> = found.iter().flat_map(|(_, text)| taken_in(text)).collect();
    for file in files {
        let is_taken = elsewhere.iter().any(|end| file.ends_with(end));
        if is_taken && !file.starts_with(folder) {
            found.push((file.clone(), read(file)?));
        }
    }
    Ok(found)
}

/// The ends of the paths of sources that others have: `#[path = "../../b/tests/c.rs"]`.
fn taken_in(text: &str) -> Vec<PathBuf> {
    let paths = text.split("#[path = \"../").skip(1);
    let paths = paths.filter_map(|rest| rest.split('"').next());
    paths
        .map(|path| path.trim_start_matches("../").into())
        .collect()
}

/// Whether a path in a line of code begins with the dependency.
fn is_named(dependency: &str, text: &str) -> bool {
    let path = format!("{}::", dependency.replace('-', "_"));
    let code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(code).any(|line| {
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_' && letter != ':')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_named_by_a_path_in_code() {
        for used in ["use sha2::Sha256;", "let a = &sha2::new();"] {
            assert!(is_named("sha2", used), "{used}");
        }
        assert!(is_named("proc-macro2", "proc_macro2::x()"));
        let other = "#[path = \"../../b/tests/c.rs\"]\nmod c;\n#[path = \"d.rs\"]\nmod d;";
        assert_eq!(taken_in(other), [Path::new("b/tests/c.rs")]);
        for unused in [
            "// sha2::x",
            "crate::sha2::x",
            "asha2::x",
            "sha2",
            "fn sha2() {}",
        ] {
            assert!(!is_named("sha2", unused), "{unused}");
        }
    }
}
