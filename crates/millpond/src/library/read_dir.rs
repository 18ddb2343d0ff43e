//! Listing directories, some entries at a time.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use base::ObjectId;
use posix::{PosixError, Visit};

use super::paths::Lost;
use super::{FileSystem, FileType, Result};

/// How many entries are taken at a time.
const PAGE: usize = 256;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// Its name.
    pub name: OsString,
    /// The file's number in its file system.
    pub inode: u64,
    /// Its kind, where the directory tells.
    pub file_type: Option<FileType>,
}

/// An iterator over the entries of a directory. Entries that come or go meanwhile may be seen or not; all others are
/// seen once.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// let files = pool.file_system("pond")?;
/// files.write("one", b"")?;
/// files.create_dir("two")?;
/// for entry in files.read_dir("/")? {
///     println!("{}", entry?.name.display());
/// }
/// # drop(files);
/// # pool.export()
/// # }
/// ```
#[derive(Debug)]
pub struct ReadDir {
    files: FileSystem,
    path: PathBuf,
    directory: ObjectId,
    cookie: u64,
    page: std::vec::IntoIter<DirEntry>,
    ended: bool,
}

impl FileSystem {
    /// What is in a directory, in no particular order, without `.` and `..`.
    ///
    /// # Errors
    /// There is no such directory, or this user may not read it.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        ReadDir::open(self, path.as_ref())
    }
}

impl ReadDir {
    fn open(files: &FileSystem, path: &Path) -> Result<Self> {
        let directory = files.with(path, |walk| {
            let found = walk.find(path, true)?;
            if found.file_type != posix::FileType::Directory {
                return Err(Lost::Posix(PosixError::NotDirectory));
            }
            Ok(found.object)
        })?;
        let mut listing = Self {
            files: files.clone(),
            path: path.to_owned(),
            directory,
            cookie: 0,
            page: Vec::new().into_iter(),
            ended: false,
        };
        listing.turn()?;
        Ok(listing)
    }

    /// Takes the next entries.
    fn turn(&mut self) -> Result<()> {
        let (mut page, mut cookie) = (Vec::with_capacity(PAGE), self.cookie);
        let mut full = false;
        self.files.with(&self.path, |walk| {
            walk.files
                .readdir(walk.who, self.directory, self.cookie, &mut |entry| {
                    if page.len() == PAGE {
                        full = true;
                        return Visit::Full;
                    }
                    cookie = entry.next_cookie;
                    if entry.name != b"." && entry.name != b".." {
                        page.push(DirEntry {
                            name: OsString::from_vec(entry.name.to_vec()),
                            inode: entry.object.0,
                            file_type: entry.file_type.map(Into::into),
                        });
                    }
                    Visit::Continue
                })?;
            Ok(())
        })?;
        (self.cookie, self.ended) = (cookie, !full);
        self.page = page.into_iter();
        Ok(())
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.turn() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}
