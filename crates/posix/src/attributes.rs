//! What a file is and what can be changed about it.

use base::ObjectId;

/// The kind of a file, as the mode and directory entries carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Named pipe.
    Fifo,
    /// Character device.
    CharacterDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl FileType {
    /// The four type bits (mode bits 12–15, also `d_type`).
    pub fn bits(self) -> u32 {
        match self {
            Self::Fifo => 1,
            Self::CharacterDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::Symlink => 10,
            Self::Socket => 12,
        }
    }

    /// The kind with these type bits; `None` for a number that names none.
    pub fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => return None,
        })
    }

    /// The kind that a full mode names.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Self::from_bits((mode >> 12) & 0xf)
    }
}

/// A point in time as files carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of that second, below 10^9.
    pub nanoseconds: u32,
}

/// Bits of a file's flags word (`ZPL_FLAGS`) that front ends show or set.
pub mod flags {
    /// Read-only for everyone (DOS).
    pub const READ_ONLY: u64 = 1 << 32;
    /// Hidden (DOS).
    pub const HIDDEN: u64 = 1 << 33;
    /// System (DOS).
    pub const SYSTEM: u64 = 1 << 34;
    /// Changed since the last archive run (DOS).
    pub const ARCHIVE: u64 = 1 << 35;
    /// Nobody may change it (`chattr +i`).
    pub const IMMUTABLE: u64 = 1 << 36;
    /// Nobody may unlink it.
    pub const NO_UNLINK: u64 = 1 << 37;
    /// It only grows (`chattr +a`).
    pub const APPEND_ONLY: u64 = 1 << 38;
    /// Skipped by dump (`chattr +d`).
    pub const NO_DUMP: u64 = 1 << 39;
    /// New entries take this directory's project (`chattr +P`).
    pub const PROJECT_INHERIT: u64 = 1 << 46;
    /// All that front ends are shown.
    pub const SHOWN: u64 = READ_ONLY
        | HIDDEN
        | SYSTEM
        | ARCHIVE
        | IMMUTABLE
        | NO_UNLINK
        | APPEND_ONLY
        | NO_DUMP
        | PROJECT_INHERIT;
}

/// Everything `stat` and its relatives show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The object: the inode number.
    pub object: ObjectId,
    /// The generation: tells two files apart that had the same object number.
    pub generation: u64,
    /// The kind of file.
    pub file_type: FileType,
    /// Permission bits with set-id and sticky bits (12 bits, no type).
    pub permissions: u32,
    /// Links: directory entries of a file; 2 + subdirectories of a directory.
    pub links: u32,
    /// Owner, after the mount's owner map.
    pub uid: u32,
    /// Group, after the mount's owner map.
    pub gid: u32,
    /// Size in bytes; of a directory, entries + 2.
    pub size: u64,
    /// 512-byte units in use, with the file's own metadata.
    pub blocks: u64,
    /// Preferred I/O size.
    pub block_size: u32,
    /// Device number of a device node: major and minor.
    pub device: (u32, u32),
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub crtime: Timestamp,
    /// The directory it was last linked or moved into.
    pub parent: ObjectId,
    /// Flags word, see [`flags`].
    pub flags: u64,
    /// Project id; 0 is the default project.
    pub project: u32,
}

impl Attributes {
    /// The mode as `st_mode`: type and permissions.
    pub fn mode(&self) -> u32 {
        self.file_type.bits() << 12 | self.permissions
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The file system's present time (writers may do this, not only owners).
    Now,
    /// A given time.
    At(Timestamp),
}

/// What to change; `None` leaves as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits (12 bits; a type part is ignored).
    pub permissions: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: truncate or extend.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of the data.
    pub mtime: Option<SetTime>,
    /// Last change of anything (the kernel with write-back sets it; else it follows by itself).
    pub ctime: Option<Timestamp>,
    /// Creation time.
    pub crtime: Option<Timestamp>,
    /// Flags to set and to clear, of those in [`flags`].
    pub flags: Option<(u64, u64)>,
    /// Project id.
    pub project: Option<u32>,
    /// Drop set-id bits as a write by an ordinary user does.
    pub kill_set_id: bool,
    /// Times of changes that were made before: what was allowed then is not refused now.
    pub was_allowed: bool,
    /// A size by itself leaves the times alone: the kernel owns them, and says when they change.
    pub keeps_times: bool,
    /// The caller holds the file open for writing (truncate needs no permission check then).
    pub by_open_handle: bool,
}

/// What `statfs` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Unit of the block counts, in bytes.
    pub block_size: u32,
    /// All blocks.
    pub blocks: u64,
    /// Blocks free (and available: there is no reserve for root).
    pub blocks_free: u64,
    /// Files there could be.
    pub files: u64,
    /// Files that can still be made.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_length_max: u32,
    /// The file system's identity.
    pub identity: u64,
}

/// What a new node shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its kind; regular files, pipes, sockets and devices through `mknod` and `create`.
    pub file_type: FileType,
    /// Permissions asked for (12 bits).
    pub permissions: u32,
    /// The caller's mask; a default ACL of the directory replaces it.
    pub umask: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// An id as users see it: those of another domain are nobody.
pub(crate) fn shown_id(stored: u64) -> u32 {
    const NOBODY: u32 = 65_534;
    u32::try_from(stored).unwrap_or(NOBODY)
}
