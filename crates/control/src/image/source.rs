//! Reading the directory that an image is made from.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use posix::{FileType, Timestamp};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// The longest list of names and the longest value that Linux gives.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// The names in a directory, in the order of their bytes.
pub(super) fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let names = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The kind of an entry.
pub(super) fn file_type(of: &Metadata) -> Option<FileType> {
    FileType::from_mode(of.mode())
}

/// When it was last changed.
pub(super) fn modified(of: &Metadata) -> Timestamp {
    Timestamp {
        seconds: of.mtime(),
        nanoseconds: u32::try_from(of.mtime_nsec()).unwrap_or(0),
    }
}

/// When it was last read.
pub(super) fn accessed(of: &Metadata) -> Timestamp {
    Timestamp {
        seconds: of.atime(),
        nanoseconds: u32::try_from(of.atime_nsec()).unwrap_or(0),
    }
}

/// A device's major and minor number.
pub(super) fn device_numbers(of: &Metadata) -> (u32, u32) {
    (rustix::fs::major(of.rdev()), rustix::fs::minor(of.rdev()))
}

/// What stands for a file with several names: its device and number.
pub(super) fn identity(of: &Metadata) -> Option<(u64, u64)> {
    (!of.is_dir() && of.nlink() > 1).then(|| (of.dev(), of.ino()))
}

/// Extended attributes of one entry.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// Names and values, in the order of the names.
    pub(super) list: Vec<(Vec<u8>, Vec<u8>)>,
    /// What could not be read.
    pub(super) problem: Option<String>,
}

/// The extended attributes of an entry. `portable`: only those that go with the file to another machine and that
/// every user sees: `user.*`, capabilities and POSIX access lists.
pub(super) fn attributes(path: &Path, portable: bool) -> Attributes {
    let mut found = Attributes::default();
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => return found,
        Err(error) => {
            found.problem = Some(format!("cannot list extended attributes: {error}"));
            return found;
        }
    };
    let mut names: Vec<&[u8]> = names[..length.min(names.len())]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && (!portable || is_portable(name)))
        .collect();
    names.sort_unstable();
    let mut value = vec![0; XATTR_BYTES_MAX];
    for name in names {
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(length) => {
                let value = value[..length.min(value.len())].to_vec();
                found.list.push((name.to_vec(), value));
            }
            // Gone since, or shown in the list only.
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => {
                let name = String::from_utf8_lossy(name);
                found.problem = Some(format!("cannot read {name}: {error}"));
            }
        }
    }
    found
}

fn is_portable(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name == b"security.capability"
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// Opens a file for reading; that leaves no trace where we may ask for that.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    Ok(File::from(opened?))
}

/// The next range with data at or after `from` in a file of `size` bytes; none: the rest is a hole.
fn next_data(file: &File, from: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    if from >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that knows of no holes.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some((from, size))),
        Err(error) => return Err(error.into()),
    };
    if start >= size {
        return Ok(None);
    }
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some((start, end.clamp(start + 1, size))))
}

/// The next range of whole records with data at or after `from`, cut at the end of the file.
pub(super) fn next_records(
    file: &File,
    from: u64,
    size: u64,
    record: u64,
) -> io::Result<Option<(u64, u64)>> {
    let found = next_data(file, from, size)?;
    Ok(found.map(|(start, end)| {
        let start = start - start % record;
        let end = end.checked_next_multiple_of(record).unwrap_or(size);
        (start.max(from), end.min(size))
    }))
}

/// A name as bytes.
pub(super) fn bytes(name: &OsStr) -> &[u8] {
    name.as_bytes()
}
