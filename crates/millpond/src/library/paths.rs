//! From paths to objects, within one file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use base::ObjectId;
use posix::{Attributes, Credentials, FileSystem, FileType, PosixError};

/// More symbolic links on the way than any path needs.
const LINKS_MAX: u32 = 40;

/// Why a path leads nowhere.
pub(super) enum Lost {
    /// A step could not be taken.
    Posix(PosixError),
    /// Links without end.
    Links,
}

impl From<PosixError> for Lost {
    fn from(error: PosixError) -> Self {
        Self::Posix(error)
    }
}

/// A walk along a path. `..` stops at the root, and links are followed within the file system: their absolute paths
/// begin at its root.
pub(super) struct Walk<'a> {
    pub(super) files: &'a FileSystem,
    pub(super) who: &'a Credentials,
}

impl Walk<'_> {
    /// What is at the end of a path. `follow`: if that is a link, what it leads to.
    pub(super) fn find(&self, path: &Path, follow: bool) -> Result<Attributes, Lost> {
        let mut at = vec![self.files.getattr(self.files.root())?];
        let mut rest: Vec<PathBuf> = vec![path.to_owned()];
        let mut links = 0;
        while let Some(path) = rest.pop() {
            let mut parts = path.components();
            let Some(part) = parts.next() else { continue };
            let left = parts.as_path();
            if !left.as_os_str().is_empty() {
                rest.push(left.to_owned());
            }
            match part {
                Component::RootDir | Component::Prefix(_) => at.truncate(1),
                Component::CurDir => {}
                Component::ParentDir => at.truncate(at.len().saturating_sub(1).max(1)),
                Component::Normal(name) => {
                    let found = self.step(&at, name)?;
                    if found.file_type != FileType::Symlink || (rest.is_empty() && !follow) {
                        at.push(found);
                        continue;
                    }
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Lost::Links);
                    }
                    let target = self.files.readlink(found.object)?;
                    rest.push(PathBuf::from(OsStr::from_bytes(&target)));
                }
            }
        }
        at.pop().ok_or(Lost::Posix(PosixError::NotFound))
    }

    fn step(&self, at: &[Attributes], name: &OsStr) -> Result<Attributes, Lost> {
        let directory = at.last().ok_or(PosixError::NotFound)?;
        if directory.file_type != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
        Ok(self
            .files
            .lookup(self.who, directory.object, name.as_bytes())?)
    }

    /// The directory that a path's last name is in, and that name.
    pub(super) fn parent<'p>(&self, path: &'p Path) -> Result<(ObjectId, &'p [u8]), Lost> {
        let name = path
            .file_name()
            .ok_or(PosixError::Invalid("the path has no last name"))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let directory = self.find(folder, true)?;
        if directory.file_type != FileType::Directory {
            return Err(PosixError::NotDirectory.into());
        }
        Ok((directory.object, name.as_bytes()))
    }
}
