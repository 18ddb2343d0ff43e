//! Opening files, and what is done with an open one.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use posix::{OpenFile, OpenOptions, PosixError, SetAttributes, WriteOptions};

use super::paths::Lost;
use super::{Error, FileSystem, Metadata, Result};

static POSITION: LockClass = LockClass::new("library.position", rank::FRONT_END + 9);

/// How a file is opened. The setters are those of [`std::fs::OpenOptions`].
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// let files = pool.file_system("pond")?;
/// let options = FileOptions::new().write(true).create_new(true).permissions(0o600);
/// files.open("key", &options)?;
/// assert!(files.open("key", &options).is_err());
/// # drop(files);
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    open: OpenOptions,
    create: bool,
    create_new: bool,
    permissions: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FileOptions {
    /// For nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            open: OpenOptions::default(),
            create: false,
            create_new: false,
            permissions: 0o666,
        }
    }

    /// For reading.
    #[must_use]
    pub fn read(mut self, read: bool) -> Self {
        self.open.read = read;
        self
    }

    /// For writing.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.open.write = write;
        self
    }

    /// For writing, always at the end.
    #[must_use]
    pub fn append(mut self, append: bool) -> Self {
        self.open.write |= append;
        self.open.append = append;
        self
    }

    /// Emptied first.
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.open.truncate = truncate;
        self
    }

    /// Made if it is not there.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Made; an error if it is there.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// The permissions of a file that is made, before the mask: 666 otherwise.
    #[must_use]
    pub fn permissions(mut self, bits: u32) -> Self {
        self.permissions = bits & 0o7777;
        self
    }

    /// Every write is on the devices before it returns.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.open.sync = sync;
        self
    }
}

/// An open file. It may be used from any thread; the position that [`Read`], [`Write`] and [`Seek`] go by is this
/// handle's, also where it is used by reference (`&File`): one operation at a time moves it.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// use std::io::{Read, Write};
///
/// let files = pool.file_system("pond")?;
/// let mut file = files.create("log")?;
/// file.write_all(b"one\ntwo\n").unwrap();
/// file.sync()?;
/// let mut text = String::new();
/// files.open("log", &FileOptions::new().read(true))?.read_to_string(&mut text).unwrap();
/// assert_eq!(text.lines().last(), Some("two"));
/// # drop((file, files));
/// # pool.export()
/// # }
/// ```
#[derive(Debug)]
pub struct File {
    // Before the pool, which may end with its last handle.
    file: OpenFile,
    files: FileSystem,
    path: PathBuf,
    epoch: u64,
    position: Mutex<u64>,
}

impl FileSystem {
    /// Opens a file, or makes one, as the options say.
    ///
    /// # Errors
    /// There is no such file, or there is, against the options; it is a directory; this user may not.
    pub fn open(&self, path: impl AsRef<Path>, options: &FileOptions) -> Result<File> {
        File::open(self, path.as_ref(), options)
    }

    /// Makes a file to write to and read from; one that is there is emptied.
    ///
    /// # Errors
    /// Its directory is not there, or this user may not.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let options = FileOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true);
        self.open(path, &options)
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.open(path, &FileOptions::new().read(true))?.read_all()
    }

    /// Makes a file with this content, or replaces its content.
    ///
    /// # Errors
    /// Its directory is not there, there is no space, or this user may not.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        self.create(path)?.write_all_at(content, 0)
    }
}

impl File {
    fn open(files: &FileSystem, path: &Path, options: &FileOptions) -> Result<Self> {
        let held = files.open.use_it()?;
        let epoch = held.present().map_or(0, |present| present.epoch);
        drop(held);
        let file = files.with(path, |walk| {
            if options.create || options.create_new {
                let node = files.new_node(options.permissions);
                let (parent, name) = walk.parent(path)?;
                let made = walk
                    .files
                    .create(walk.who, parent, name, &node, options.open);
                match made {
                    Ok((file, _)) => return Ok(file),
                    Err(PosixError::Exists) if !options.create_new => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let found = walk.find(path, true)?;
            if found.file_type == posix::FileType::Directory {
                return Err(Lost::Posix(PosixError::IsDirectory));
            }
            Ok(walk.files.open(walk.who, found.object, options.open)?)
        })?;
        Ok(Self {
            files: files.clone(),
            path: path.to_owned(),
            file,
            epoch,
            position: Mutex::new(&POSITION, 0),
        })
    }

    /// Does something with the file, if it is still what was opened.
    fn with<R>(&self, work: impl FnOnce(&OpenFile) -> posix::Result<R>) -> Result<R> {
        let held = self.files.open.use_it()?;
        if held.present().is_none_or(|now| now.epoch != self.epoch) {
            let text = format!("{}: stale file", self.files.shown(&self.path));
            return Err(Error::Stale(text.into()));
        }
        work(&self.file).map_err(|error| Error::of_file(&self.files.shown(&self.path), error))
    }

    /// What is known of it now.
    ///
    /// # Errors
    /// It is stale.
    pub fn metadata(&self) -> Result<Metadata> {
        self.with(|file| Ok(Metadata::new(&file.attributes()?)))
    }

    /// Reads from a place into `buffer`; fewer bytes than that only at the end of the file.
    ///
    /// # Errors
    /// It was not opened for reading, is stale, or a block is damaged.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.with(|file| file.read(offset, buffer))
    }

    /// Everything in it.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_all(&self) -> Result<Vec<u8>> {
        /// How much is asked for at a time.
        const PIECE: usize = 1 << 20;
        let size = self.metadata()?.size;
        // A sparse file may be larger than memory: what is reserved is what is read.
        let mut content = Vec::new();
        let mut at = 0;
        while at < size {
            let length = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
            let start = content.len();
            content.resize(start + length, 0);
            let found = self.read_at(&mut content[start..], at)?;
            content.truncate(start + found);
            if found == 0 {
                break;
            }
            at += found as u64;
        }
        Ok(content)
    }

    /// Writes at a place; at the end if it was opened to append. Fewer bytes than given only where space ended.
    ///
    /// # Errors
    /// It was not opened for writing, is stale, or there is no space.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        self.with(|file| file.write(offset, data, WriteOptions::default()))
    }

    /// Writes all of `data` at a place.
    ///
    /// # Errors
    /// As [`File::write_at`]; a part may be written then.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let written = self.write_at(&data[done..], offset.saturating_add(done as u64))?;
            if written == 0 {
                let shown = self.files.shown(&self.path);
                return Err(Error::NoSpace(format!("{shown}: no space left").into()));
            }
            done += written;
        }
        Ok(())
    }

    /// Copies a range of `source` to a place of this file, and says how many bytes that were: fewer where the source
    /// ends. Whole blocks are shared where both files allow that, as `cp --reflink` does it; the rest is copied. The
    /// ranges of one file must not overlap.
    ///
    /// # Errors
    /// It was not opened for writing or the source not for reading, they are in different file systems, one is
    /// stale, or there is no space.
    pub fn copy_range(&self, source: &Self, range: Range<u64>, offset: u64) -> Result<u64> {
        source.with(|_| Ok(()))?;
        if !Arc::ptr_eq(&source.files.open, &self.files.open) {
            let shown = self.files.shown(&self.path);
            let text = format!("{shown}: the source is in another file system");
            return Err(Error::Invalid(text.into()));
        }
        let mut done = 0;
        while range.start + done < range.end {
            let rest = range.start + done..range.end;
            let at = offset.saturating_add(done);
            let options = WriteOptions::default();
            let copied = self.with(|file| file.copy_from(&source.file, rest, at, options))?;
            if copied == 0 {
                break;
            }
            done += copied;
        }
        Ok(done)
    }

    /// Cuts the file off, or lengthens it by a hole.
    ///
    /// # Errors
    /// It was not opened for writing, is stale, or this user may not.
    pub fn set_len(&self, size: u64) -> Result<()> {
        let change = SetAttributes {
            size: Some(size),
            by_open_handle: self.file.options().write,
            ..SetAttributes::default()
        };
        let held = self.files.open.use_it()?;
        let present = held.present().filter(|now| now.epoch == self.epoch);
        let shown = || self.files.shown(&self.path);
        let Some(present) = present else {
            return Err(Error::Stale(format!("{}: stale file", shown()).into()));
        };
        let who = self.file.credentials();
        let changed = if self.file.options().write {
            present.files.setattr(who, self.file.object(), &change)
        } else {
            Err(PosixError::BadHandle)
        };
        changed
            .map(drop)
            .map_err(|error| Error::of_file(&shown(), error))
    }

    /// The first place at or after `offset` that holds data; none if only a hole follows.
    ///
    /// # Errors
    /// It is stale, or a block is damaged.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        Self::place(self.with(|file| file.seek_data(offset)))
    }

    /// The first place at or after `offset` that is a hole, or the end of the file; none beyond that.
    ///
    /// # Errors
    /// It is stale, or a block is damaged.
    pub fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        Self::place(self.with(|file| file.seek_hole(offset)))
    }

    fn place(found: Result<u64>) -> Result<Option<u64>> {
        match found {
            Ok(place) => Ok(Some(place)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until everything written to it is on the devices.
    ///
    /// # Errors
    /// It is stale, or a device failed.
    pub fn sync(&self) -> Result<()> {
        self.with(OpenFile::fsync)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        let found = self.read_at(buffer, *position)?;
        *position += found as u64;
        Ok(found)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut position = self.position.lock();
        let written = self.write_at(data, *position)?;
        *position = match self.file.options().append {
            true => self.metadata()?.size,
            false => *position + written as u64,
        };
        Ok(written)
    }

    /// Nothing is kept back; [`File::sync`] makes it durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.position.lock();
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => position.checked_add_signed(by),
            SeekFrom::End(by) => self.metadata()?.size.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "before the first byte");
        *position = place.ok_or_else(outside)?;
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    /// Nothing is kept back; [`File::sync`] makes it durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
