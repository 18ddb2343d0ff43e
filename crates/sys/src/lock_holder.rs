//! Who has a file locked, as far as /proc shows it to us. An answer is a moment's; it is for people to read.

use crate::file::{FileKind, file_kind};
use crate::fuse_device::mounted_entries;
use crate::mount_users::{Device, name_of, processes};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use std::fmt;
use std::ops::Range;
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

/// Whether some open file has the exclusive lock of a file or disk, or of part of these bytes of it (none: of any). The
/// kernel's list is asked, not the file: whoever wants the lock in this moment gets it.
#[must_use]
pub fn is_locked(path: &Path, bytes: Option<&Range<u64>>) -> bool {
    match file_kind(path) {
        Ok(FileKind::Regular | FileKind::BlockDevice) => {}
        // To ask a pipe means nothing.
        Ok(FileKind::Other) | Err(_) => return false,
    }
    let listed = std::fs::read_to_string("/proc/locks");
    let Some((file, listed)) = listed_as(path).zip(listed.ok()) else {
        return false;
    };
    let mut locks = listed.lines().filter_map(exclusive_lock);
    locks.any(|lock| lock.file == Some(file) && lock.meets(bytes))
}

/// An exclusive lock in the kernel's list.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    file: Option<File>,
    first: u64,
    last: u64,
}

impl Lock {
    fn meets(&self, bytes: Option<&Range<u64>>) -> bool {
        bytes.is_none_or(|bytes| self.first < bytes.end && bytes.start <= self.last)
    }
}

/// `1: FLOCK  ADVISORY  WRITE 4746 fe:00:1234 0 EOF`: who waits for a lock has an arrow after the number. Locks of
/// parts of a file (`OFDLCK`) belong to an open file as well, and so to no process.
fn exclusive_lock(line: &str) -> Option<Lock> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let ["FLOCK" | "OFDLCK", _, "WRITE", _, place, first, last] = words[..] else {
        return None;
    };
    let mut place = place.split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let device = hex().zip(hex());
    let inode = place.next().and_then(|text| text.parse().ok());
    Some(Lock {
        file: device.zip(inode),
        first: first.parse().ok()?,
        last: match last {
            "EOF" => u64::MAX,
            last => last.parse().ok()?,
        },
    })
}

/// The process that has the exclusive lock of a file or disk, or of part of these bytes of it; none if it is another
/// user's, to all but root.
#[must_use]
pub fn lock_holder(path: &Path, bytes: Option<&Range<u64>>) -> Option<LockHolder> {
    let file = identity(path)?;
    let pid = processes().find(|pid| locks(*pid, file, bytes))?;
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
fn locks(pid: u32, file: File, bytes: Option<&Range<u64>>) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let opened = std::fs::read_dir(process.join("fd"));
    let mut opened = opened.into_iter().flatten().flatten();
    opened.any(|one| {
        let about = || std::fs::read_to_string(process.join("fdinfo").join(one.file_name()));
        identity(&one.path()) == Some(file) && about().is_ok_and(|text| tells_of_lock(&text, bytes))
    })
}

/// A line of a descriptor begins with `lock:`, and goes on as one of the kernel's list.
fn tells_of_lock(about: &str, bytes: Option<&Range<u64>>) -> bool {
    let lines = about.lines().filter_map(|line| line.strip_prefix("lock:"));
    lines
        .filter_map(exclusive_lock)
        .any(|lock| lock.meets(bytes))
}
