//! Partitions inside the image of a whole disk, as devices of their own.
//!
//! The path of one is that of the image with `-part1` and so on, as the links to the partitions of disks are called.
//! What is there by such a name itself is meant before. (The kernel shows the partitions of disks.)

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::partitions::{HEAD_LENGTH, Partition, Sector, partitions};
use sys::{Create, File, FileKind, OpenMode};

const SUFFIX: &str = "-part";

/// A partition that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The image that it is in.
    pub(crate) image: PathBuf,
    pub(crate) number: u32,
}

/// The partition that a path names; none where something has that name, or there is no image.
pub(crate) fn named(path: &Path) -> Option<Named> {
    let name = path.file_name()?.as_bytes();
    let at = name
        .windows(SUFFIX.len())
        .rposition(|found| found == SUFFIX.as_bytes())?;
    let digits = name.get(at + SUFFIX.len()..)?;
    let number = std::str::from_utf8(digits).ok()?;
    let is_plain = digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0");
    let number = number.parse().ok().filter(|_| is_plain)?;
    if std::fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let image = path.with_file_name(OsStr::from_bytes(name.get(..at)?));
    match sys::file_kind(&image) {
        Ok(FileKind::Regular | FileKind::BlockDevice) => Some(Named { image, number }),
        Ok(FileKind::Other) | Err(_) => None,
    }
}

/// The path of a partition inside an image.
fn path_of(image: &Path, number: u32) -> PathBuf {
    let mut name: OsString = image.as_os_str().to_owned();
    name.push(format!("{SUFFIX}{number}"));
    PathBuf::from(name)
}

/// The bytes of a partition in an open image, as far as the image has them.
pub(crate) fn bytes_of(image: &File, number: u32) -> Option<Range<u64>> {
    let end = image.size().ok()?;
    let found = table(image);
    let found = found.into_iter().find(|found| found.number == number)?;
    let bytes = found.bytes.start..found.bytes.end.min(end);
    (bytes.start < bytes.end).then_some(bytes)
}

fn table(image: &File) -> Vec<Partition> {
    let mut head = vec![0; HEAD_LENGTH];
    let length = image.read_at(0, &mut head).unwrap_or(0);
    head.truncate(length);
    partitions(&head, &mut |at| {
        let mut sector: Sector = [0; size_of::<Sector>()];
        let read = image.read_at(at, &mut sector).ok()?;
        (read == sector.len()).then_some(sector)
    })
}

/// The paths of the partitions inside an image; none of what has no table of them, or cannot be read.
#[must_use]
pub fn partitions_in(image: &Path) -> Vec<PathBuf> {
    let is_some = matches!(
        sys::file_kind(image),
        Ok(FileKind::Regular | FileKind::BlockDevice)
    );
    let opened = File::open(image, OpenMode::default(), Create::Never);
    let Some(file) = opened.ok().filter(|_| is_some) else {
        return Vec::new();
    };
    let paths = table(&file).into_iter();
    let paths = paths.map(|found| path_of(image, found.number));
    // Another file by that name is meant by it.
    paths.filter(|path| named(path).is_some()).collect()
}

/// The file or disk that holds a device: for a partition inside an image the image, else the device itself.
#[must_use]
pub fn file_of(path: &Path) -> PathBuf {
    named(path).map_or_else(|| path.to_owned(), |found| found.image)
}

/// Whether there is such a file, disk, or partition inside an image. Whether a server is there shows when it is asked.
#[must_use]
pub fn exists(path: &Path) -> bool {
    crate::is_remote(path) || path.exists() || place(path).1.is_some()
}

/// Whether another open file has the lock of a device.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let (file, bytes) = place(path);
    sys::is_locked(&file, bytes.as_ref())
}

/// The process that has the lock of a device, if it can be seen.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<sys::LockHolder> {
    let (file, bytes) = place(path);
    sys::lock_holder(&file, bytes.as_ref())
}

/// The file of a device, and which bytes of it, if it is a partition inside an image.
fn place(path: &Path) -> (PathBuf, Option<Range<u64>>) {
    let Some(found) = named(path) else {
        return (path.to_owned(), None);
    };
    let opened = File::open(&found.image, OpenMode::default(), Create::Never);
    let bytes = opened.ok().and_then(|image| bytes_of(&image, found.number));
    (found.image, bytes)
}

#[cfg(test)]
mod tests;
