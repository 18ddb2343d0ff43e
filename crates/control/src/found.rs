//! Pools that are not imported: finding them, wiping their labels; and the features known here.

use std::path::{Path, PathBuf};

use format::features::{self, Support};

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

/// The text of `zpool upgrade -v`: the features, and what is done with pools that use them.
#[must_use]
pub fn features_text() -> String {
    let mut out = "This system supports ZFS pool feature flags.\n\nThe following features are \
                   supported:\n\nFEAT DESCRIPTION\n"
        .to_owned();
    out += &"-".repeat(61);
    out.push('\n');
    for feature in features::ALL {
        let note = match (feature.support, feature.read_only_compatible) {
            (Support::Write, true) => "(read-only compatible)",
            (Support::Write, false) => "",
            (Support::ReadOnly, _) => "(pools that use it are read, not written)",
            (Support::None, _) => "(pools that use it are not opened)",
        };
        let line = format!("{:<37} {note}", feature.name);
        out += &format!("{}\n     {}\n", line.trim_end(), feature.description);
    }
    out += "\nLegacy pool versions 1 to 28 are read.\n";
    out
}

/// True if a feature of this name is known.
#[must_use]
pub fn is_feature(name: &str) -> bool {
    features::by_name(name).is_some()
}
