//! Reading the directory that an image is made from.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use admin::{Failure, FailureKind};
use base::host_reason;
use posix::{FileType, Timestamp};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::{Attributes, Contents, Found, Source, is_portable};
use crate::image::request::ImageReport;

/// The longest list of names and the longest value that Linux gives.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// A directory, or one file.
pub(in crate::image) struct Directory {
    root: PathBuf,
    /// Whether the root is what a link leads to, not the link.
    follow: bool,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Self {
                root: path.to_owned(),
                follow: true,
            }),
            Ok(_) => {
                let text = format!("'{shown}' is not a directory");
                let failure = Failure::new(FailureKind::Invalid, text);
                Err(failure.advise("of an archive: mkimage - IMAGE < ARCHIVE.tar"))
            }
            Err(error) => {
                let text = format!("cannot open '{shown}': {}", host_reason(&error));
                Err(Failure::new(FailureKind::Missing, text))
            }
        }
    }
}

impl Directory {
    /// Whatever is at a path. `keep_link`: of a link, the link itself.
    pub(in crate::image) fn any(path: &Path, keep_link: bool) -> Result<Self, Failure> {
        let tree = Self {
            root: path.to_owned(),
            follow: !keep_link,
        };
        match tree.found(path) {
            Ok(_) => Ok(tree),
            Err(error) => {
                let text = format!("cannot open '{}': {}", path.display(), host_reason(&error));
                Err(Failure::new(FailureKind::Missing, text))
            }
        }
    }

    pub(in crate::image) fn is_directory(&self) -> bool {
        self.found(&self.root)
            .is_ok_and(|found| found.is_directory())
    }
}

impl Source for Directory {
    fn root(&self) -> &Path {
        &self.root
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let names = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn found(&self, path: &Path) -> io::Result<Found> {
        let found = match self.follow && path == self.root {
            true => std::fs::metadata(path),
            false => std::fs::symlink_metadata(path),
        };
        Ok(found_of(&found?))
    }

    fn target(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(std::fs::read_link(path)?.into_os_string().into_vec())
    }

    fn attributes(&self, path: &Path, portable: bool) -> Attributes {
        attributes(path, portable)
    }

    fn open<'a>(&'a self, path: &Path) -> io::Result<Box<dyn Contents + 'a>> {
        let follow = self.follow && path == self.root;
        Ok(Box::new(open(path, follow)?))
    }

    fn report(&self, _report: &mut ImageReport) {}
}

impl Contents for File {
    fn found(&self) -> io::Result<Found> {
        Ok(found_of(&self.metadata()?))
    }

    fn next_data(&self, from: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
        if from >= size {
            return Ok(None);
        }
        let start = match rustix::fs::seek(self, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // A file system that knows of no holes.
            Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some((from, size))),
            Err(error) => return Err(error.into()),
        };
        if start >= size {
            return Ok(None);
        }
        let end = rustix::fs::seek(self, SeekFrom::Hole(start))?;
        Ok(Some((start, end.clamp(start + 1, size))))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

fn found_of(of: &Metadata) -> Found {
    let time = |seconds, nanoseconds| Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    };
    Found {
        file_type: FileType::from_mode(of.mode()),
        permissions: of.mode() & 0o7777,
        uid: of.uid(),
        gid: of.gid(),
        device: (rustix::fs::major(of.rdev()), rustix::fs::minor(of.rdev())),
        size: of.size(),
        modified: time(of.mtime(), of.mtime_nsec()),
        accessed: time(of.atime(), of.atime_nsec()),
        identity: (!of.is_dir() && of.nlink() > 1).then(|| (of.dev(), of.ino())),
    }
}

fn attributes(path: &Path, portable: bool) -> Attributes {
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

/// Opens a file for reading; that leaves no trace where we may ask for that.
fn open(path: &Path, follow: bool) -> io::Result<File> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    let opened = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    Ok(File::from(opened?))
}
