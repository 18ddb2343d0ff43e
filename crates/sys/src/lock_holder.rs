//! Who has a file locked, as far as /proc shows it to us. An answer is a moment's; it is for people to read.

use crate::file::{FileKind, file_kind};
use crate::fuse_device::mounted_entries;
use crate::mount_users::{Device, name_of, processes};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use std::fmt;
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

/// Whether some open file has the exclusive lock of a file or disk. The kernel's list is asked, not the file: whoever
/// wants the lock in this moment gets it.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    match file_kind(path) {
        Ok(FileKind::Regular | FileKind::BlockDevice) => {}
        // To ask a pipe means nothing.
        Ok(FileKind::Other) | Err(_) => return false,
    }
    let listed = std::fs::read_to_string("/proc/locks");
    let Some((file, listed)) = listed_as(path).zip(listed.ok()) else {
        return false;
    };
    listed.lines().any(|line| is_exclusive_lock_of(line, file))
}

/// `1: FLOCK  ADVISORY  WRITE 4746 fe:00:1234 0 EOF`: who waits for a lock has an arrow after the number.
fn is_exclusive_lock_of(line: &str, ((major, minor), inode): File) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let is_exclusive = words.next() == Some("FLOCK")
        && words.next().is_some()
        && words.next() == Some("WRITE")
        && words.next().is_some();
    let mut place = words.next().unwrap_or_default().split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    is_exclusive
        && (hex(), hex()) == (Some(major), Some(minor))
        && place.next().and_then(|text| text.parse().ok()) == Some(inode)
}

/// The process that has the exclusive lock of a file or disk; none if it is another user's, to all but root.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<LockHolder> {
    let file = identity(path)?;
    let pid = processes().find(|pid| locks(*pid, file))?;
    let name = name_of(pid);
    Some(LockHolder { pid, name })
}

/// A device number and an inode.
type File = (Device, u64);

/// A file as stat(2) names it, which all its descriptors share.
fn identity(path: &Path) -> Option<File> {
    let found = asked(path)?;
    Some((own_device(&found), found.stx_ino))
}

/// A file as the kernel's list of locks names it: with the device number of its whole file system. stat(2) has others
/// for subvolumes of btrfs, and for overlays over several file systems.
fn listed_as(path: &Path) -> Option<File> {
    let found = asked(path)?;
    let device = file_system(&found).unwrap_or_else(|| own_device(&found));
    Some((device, found.stx_ino))
}

/// No file system is asked that another process serves.
fn asked(path: &Path) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(CWD, path, flags, StatxFlags::INO | StatxFlags::MNT_ID).ok()
}

fn own_device(found: &Statx) -> Device {
    (found.stx_dev_major, found.stx_dev_minor)
}

/// The device number that the mount table has for a file's mount; none where the kernel does not say which that is.
fn file_system(found: &Statx) -> Option<Device> {
    let said = StatxFlags::from_bits_retain(found.stx_mask);
    if !said.contains(StatxFlags::MNT_ID) {
        return None;
    }
    let mut entries = mounted_entries().ok()?.into_iter();
    let entry = entries.find(|entry| entry.id == found.stx_mnt_id)?;
    Some(entry.device)
}

/// Processes come and go: what cannot be read of one is not there.
fn locks(pid: u32, file: File) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let opened = std::fs::read_dir(process.join("fd"));
    let mut opened = opened.into_iter().flatten().flatten();
    opened.any(|one| {
        let about = || std::fs::read_to_string(process.join("fdinfo").join(one.file_name()));
        identity(&one.path()) == Some(file) && about().is_ok_and(|text| tells_of_lock(&text))
    })
}

/// A line of a descriptor begins with `lock:`, and goes on as one of the kernel's list.
fn tells_of_lock(about: &str) -> bool {
    let mut lines = about.lines();
    lines.any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
}
