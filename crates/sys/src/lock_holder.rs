//! Who has a file locked, as far as /proc shows it to us. An answer is a moment's; it is for people to read.

use crate::file::{FileKind, file_kind};
use crate::mount_users::{name_of, processes};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// A process that has a file locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its number.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// Whether another open file has the exclusive lock of a file or disk. Who wants the lock in this moment has to try
/// again.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    match file_kind(path) {
        Ok(FileKind::Regular | FileKind::BlockDevice) => {}
        // To open a pipe would wait for its other end.
        Ok(FileKind::Other) | Err(_) => return false,
    }
    let tried = File::open(path).map(|file| file.try_lock_shared());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// The process that has the exclusive lock of a file or disk; none if it is another user's, to all but root.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<LockHolder> {
    let file = identity(path)?;
    let pid = processes().find(|pid| locks(*pid, file))?;
    let name = name_of(pid);
    Some(LockHolder { pid, name })
}

/// A file: device number and inode. No file system is asked that another process serves.
fn identity(path: &Path) -> Option<(u32, u32, u64)> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::INO).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

/// Processes come and go: what cannot be read of one is not there.
fn locks(pid: u32, file: (u32, u32, u64)) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let opened = std::fs::read_dir(process.join("fd"));
    let mut opened = opened.into_iter().flatten().flatten();
    opened.any(|one| {
        let about = || std::fs::read_to_string(process.join("fdinfo").join(one.file_name()));
        identity(&one.path()) == Some(file) && about().is_ok_and(|text| tells_of_lock(&text))
    })
}

/// `lock:	1: FLOCK  ADVISORY  WRITE 4746 fe:00:1234 0 EOF`
fn tells_of_lock(about: &str) -> bool {
    let mut lines = about.lines();
    lines.any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
}
