//! What files are, and what can be changed about them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posix::{Attributes, SetTime, Timestamp};

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// Bytes.
    Regular,
    /// Names of other files.
    Directory,
    /// A path to another file.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl From<posix::FileType> for FileType {
    fn from(kind: posix::FileType) -> Self {
        match kind {
            posix::FileType::Regular => Self::Regular,
            posix::FileType::Directory => Self::Directory,
            posix::FileType::Symlink => Self::Symlink,
            posix::FileType::Fifo => Self::Fifo,
            posix::FileType::Socket => Self::Socket,
            posix::FileType::CharacterDevice => Self::CharacterDevice,
            posix::FileType::BlockDevice => Self::BlockDevice,
        }
    }
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// Its kind.
    pub file_type: FileType,
    /// Bytes in it; of a directory, its entries and 2.
    pub size: u64,
    /// Permissions with set-id and sticky bits: 12 bits.
    pub permissions: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// How many names it has; of a directory, its subdirectories and 2.
    pub links: u32,
    /// The file's number in its file system.
    pub inode: u64,
    /// Bytes on the devices, with its own metadata.
    pub allocated: u64,
    /// When its content changed.
    pub modified: SystemTime,
    /// When it was read, as far as the dataset keeps that.
    pub accessed: SystemTime,
    /// When anything of it changed.
    pub changed: SystemTime,
    /// When it was made.
    pub created: SystemTime,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

impl Metadata {
    pub(super) fn new(of: &Attributes) -> Self {
        Self {
            file_type: of.file_type.into(),
            size: of.size,
            permissions: of.permissions,
            uid: of.uid,
            gid: of.gid,
            links: of.links,
            inode: of.object.0,
            allocated: of.blocks.saturating_mul(512),
            modified: time(of.mtime),
            accessed: time(of.atime),
            changed: time(of.ctime),
            created: time(of.crtime),
            device: of.device,
        }
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::Regular
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Symlink
    }
}

/// A time as the standard library has it; what it cannot express is 1970.
pub(super) fn time(of: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(of.seconds.unsigned_abs());
    let second = if of.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let part = Duration::from_nanos(of.nanoseconds.into());
    let exact = second.and_then(|second| second.checked_add(part));
    exact.unwrap_or(UNIX_EPOCH)
}

/// A time as files have it.
fn timestamp(of: SystemTime) -> Timestamp {
    let seconds = |length: Duration| i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    match of.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp {
            seconds: seconds(since),
            nanoseconds: since.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let borrowed = u32::from(before.subsec_nanos() > 0);
            Timestamp {
                seconds: -seconds(before) - i64::from(borrowed),
                nanoseconds: borrowed * 1_000_000_000 - before.subsec_nanos(),
            }
        }
    }
}

/// Changes of a file's metadata; what is not named stays.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// let files = pool.file_system("pond")?;
/// files.write("f", b"")?;
/// files.set_metadata("f", &SetMetadata::new().permissions(0o640).owner(1000, 100))?;
/// assert_eq!(files.metadata("f")?.permissions, 0o640);
/// # drop(files);
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetMetadata {
    change: posix::SetAttributes,
}

impl SetMetadata {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Permissions with set-id and sticky bits: 12 bits.
    #[must_use]
    pub fn permissions(mut self, bits: u32) -> Self {
        self.change.permissions = Some(bits & 0o7777);
        self
    }

    /// Owner and group.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        (self.change.uid, self.change.gid) = (Some(uid), Some(gid));
        self
    }

    /// When the content was changed.
    #[must_use]
    pub fn modified(mut self, time: SystemTime) -> Self {
        self.change.mtime = Some(SetTime::At(timestamp(time)));
        self
    }

    /// When it was read.
    #[must_use]
    pub fn accessed(mut self, time: SystemTime) -> Self {
        self.change.atime = Some(SetTime::At(timestamp(time)));
        self
    }

    pub(super) fn attributes(&self) -> &posix::SetAttributes {
        &self.change
    }
}

/// How much a file system holds and may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes there are for it in all.
    pub total: u64,
    /// Bytes that can still be written.
    pub available: u64,
    /// Files that can still be made.
    pub files_available: u64,
}

#[cfg(test)]
mod tests;
