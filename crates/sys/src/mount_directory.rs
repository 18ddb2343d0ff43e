//! The directory to mount on, found once and held.
//!
//! Names may mean something else a moment later, and those in a pool's file systems are whatever somebody wrote there.
//! Below a starting point no symbolic link is followed on the way, and what is mounted is mounted on the directory
//! that was found.

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::fs::ReadDir;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

#[cfg(test)]
mod tests;

/// With one name at a time, this neither follows a link nor leaves the directory that it starts in.
const STEP: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory that was found without following links.
#[derive(Debug)]
pub struct MountDirectory {
    found: OwnedFd,
    is_new: bool,
}

/// Why a directory cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum MountWayError {
    /// A symbolic link is on the way.
    #[error("mountpoint leads through a symbolic link: {}", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A part of the way cannot be looked up or made.
    #[error("failed to create mountpoint: {}: {}", path.display(), base::host_reason(&(*error).into()))]
    Part {
        /// Up to here.
        path: PathBuf,
        /// Why.
        error: Errno,
    },
}

impl MountDirectory {
    /// The directory `below` another one, which is reached by whatever links it has. What is absent is made (0755).
    ///
    /// # Errors
    /// See [`MountWayError`].
    pub fn below(root: &Path, below: &Path) -> Result<Self, MountWayError> {
        let part = |path: &Path, error| MountWayError::Part {
            path: path.to_owned(),
            error,
        };
        let open_root = STEP.difference(OFlags::NOFOLLOW);
        let mut found =
            openat(CWD, root, open_root, Mode::empty()).map_err(|error| part(root, error))?;
        let (mut path, mut is_new) = (root.to_owned(), false);
        for component in below.components() {
            let name = match component {
                Component::Normal(name) => name,
                Component::CurDir | Component::RootDir => continue,
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(part(below, Errno::INVAL));
                }
            };
            path.push(name);
            is_new = false;
            let mut next = openat(&found, name, STEP, Mode::empty());
            if matches!(next, Err(Errno::NOENT)) {
                is_new = match mkdirat(&found, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) => true,
                    Err(Errno::EXIST) => false,
                    Err(error) => return Err(part(&path, error)),
                };
                next = openat(&found, name, STEP, Mode::empty());
            }
            found = match next {
                Ok(next) => next,
                Err(Errno::NOTDIR | Errno::LOOP) if is_link(&found, name) => {
                    return Err(MountWayError::Link { path });
                }
                Err(error) => return Err(part(&path, error)),
            };
        }
        Ok(Self { found, is_new })
    }

    /// Whether it was made just now.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.is_new
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn entries(&self) -> std::io::Result<ReadDir> {
        std::fs::read_dir(self.by_number())
    }

    /// A path that leads to it for this process, whatever becomes of its names.
    #[must_use]
    pub fn by_number(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.found.as_raw_fd()).into()
    }
}

fn is_link(directory: &OwnedFd, name: &std::ffi::OsStr) -> bool {
    use rustix::fs::{AtFlags, FileType, statat};
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}
