//! Where the files of an image come from: a directory, or an archive of one.

mod archive;
mod directory;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use admin::Failure;
use posix::{FileType, Timestamp};

use super::request::{ImageReport, ImageRequest, ImageSource, Watcher};
pub(super) use archive::Archive;
pub(super) use directory::Directory;

/// What is known of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// None: a kind that no file system here has.
    pub(super) file_type: Option<FileType>,
    /// Permission bits with set-id and sticky bits.
    pub(super) permissions: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// A device's major and minor number.
    pub(super) device: (u32, u32),
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    pub(super) accessed: Timestamp,
    /// What stands for a file with several names.
    pub(super) identity: Option<(u64, u64)>,
}

impl Found {
    pub(super) fn is_directory(&self) -> bool {
        self.file_type == Some(FileType::Directory)
    }

    pub(super) fn is_regular(&self) -> bool {
        self.file_type == Some(FileType::Regular)
    }

    pub(super) fn is_symlink(&self) -> bool {
        self.file_type == Some(FileType::Symlink)
    }
}

/// Extended attributes of one entry.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// Names and values, in the order of the names.
    pub(super) list: Vec<(Vec<u8>, Vec<u8>)>,
    /// What could not be read.
    pub(super) problem: Option<String>,
}

/// A tree of files that can be gone through more than once. Paths begin with the one that [`Source::root`] gives.
pub(super) trait Source {
    /// The path of the root directory.
    fn root(&self) -> &Path;

    /// The names in a directory, in the order of their bytes.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// What is known of an entry; of a link, of the link itself, but for the root.
    fn found(&self, path: &Path) -> io::Result<Found>;

    /// Where a symbolic link leads to.
    fn target(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The extended attributes of an entry. `portable`: only those that go with the file to another machine and that
    /// every user sees: `user.*`, capabilities and POSIX access lists.
    fn attributes(&self, path: &Path, portable: bool) -> Attributes;

    /// Opens a regular file.
    fn open<'a>(&'a self, path: &Path) -> io::Result<Box<dyn Contents + 'a>>;

    /// Notes what the source has and no image can get. Once, before anything is copied.
    fn report(&self, report: &mut ImageReport);
}

/// What is in a file.
pub(super) trait Contents {
    /// What is known of it now.
    fn found(&self) -> io::Result<Found>;

    /// The next range with data at or after `from` in a file of `size` bytes; none: the rest is a hole.
    fn next_data(&self, from: u64, size: u64) -> io::Result<Option<(u64, u64)>>;

    /// Fills the buffer.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Opens what an image is made of.
///
/// # Errors
/// It is not there, or it is no archive.
pub(super) fn open(
    request: &ImageRequest,
    watcher: Watcher<'_>,
) -> Result<Box<dyn Source>, Failure> {
    Ok(match &request.source {
        ImageSource::Directory(path) => Box::new(Directory::open(path)?),
        ImageSource::Archive(input) => Box::new(Archive::read(input, &request.image, watcher)?),
    })
}

/// The next range of whole records with data at or after `from`, cut at the end of the file.
pub(super) fn next_records(
    file: &dyn Contents,
    from: u64,
    size: u64,
    record: u64,
) -> io::Result<Option<(u64, u64)>> {
    let found = file.next_data(from, size)?;
    Ok(found.map(|(start, end)| {
        let start = start - start % record;
        let end = end.checked_next_multiple_of(record).unwrap_or(size);
        (start.max(from), end.min(size))
    }))
}

fn is_portable(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name == b"security.capability"
        || name == b"system.posix_acl_access"
        || name == b"system.posix_acl_default"
}

/// A name as bytes.
pub(super) fn bytes(name: &OsStr) -> &[u8] {
    name.as_bytes()
}
