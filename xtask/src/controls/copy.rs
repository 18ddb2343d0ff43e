//! The copy of the tree in which cures are taken out. What did not change keeps its time, so that a build has little
//! to do.

use crate::run::{TaskError, TaskResult};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The copy, and where it comes from.
pub(super) struct Copy {
    from: PathBuf,
    to: PathBuf,
}

impl Copy {
    /// Makes the copy what the tree is now.
    pub(super) fn renew(from: &Path, to: &Path) -> TaskResult<Self> {
        let copy = Self {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let wanted: BTreeSet<PathBuf> = crate::tidy::tracked(from)?.into_iter().collect();
        for path in &wanted {
            copy.restore(path)?;
        }
        for path in crate::tidy::tracked(to)? {
            if !wanted.contains(&path) {
                let path = to.join(path);
                std::fs::remove_file(&path).map_err(|error| TaskError::File(path, error))?;
            }
        }
        Ok(copy)
    }

    pub(super) fn root(&self) -> &Path {
        &self.to
    }

    pub(super) fn read(&self, path: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.to.join(path))
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, text: &str) -> TaskResult {
        let path = self.to.join(path);
        std::fs::write(&path, text).map_err(|error| TaskError::File(path, error))
    }

    /// Makes a file what it is in the tree.
    pub(super) fn restore(&self, path: impl AsRef<Path>) -> TaskResult {
        let (from, to) = (self.from.join(path.as_ref()), self.to.join(path));
        let bytes = std::fs::read(&from).map_err(|error| TaskError::File(from.clone(), error))?;
        if std::fs::read(&to).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        let failed = |error| TaskError::File(to.clone(), error);
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        std::fs::copy(&from, &to).map_err(failed)?;
        Ok(())
    }
}
