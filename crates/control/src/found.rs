//! Pools that are not imported: finding them, wiping their labels; and the features known here.

use std::path::{Path, PathBuf};

use crate::{Failure, FailureKind, ImportCandidate};

/// A pool that could be imported, or why not.
#[derive(Debug, Clone)]
pub struct Found {
    /// What the list shows.
    pub candidate: ImportCandidate,
}

/// Looks for pools in directories and on devices.
pub fn discover(_search: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    Ok(Vec::new())
}

/// Wipes the labels of a device that no imported pool uses.
pub fn labelclear(path: &Path, _force: bool) -> Result<(), Failure> {
    let text = format!("failed to clear label for {}", path.display());
    Err(Failure::new(FailureKind::Unsupported, text))
}

/// The text of `zpool upgrade -v`.
#[must_use]
pub fn features_text() -> String {
    String::new()
}
