//! Flag words, each a named set of bits. Bits without a name are kept.

use bitflags::bitflags;

bitflags! {
    /// Abilities offered by the kernel and accepted by us at INIT.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InitFlags: u64 {
        /// Several reads of one file at once.
        const ASYNC_READ = 1;
        /// `O_TRUNC` arrives with the open, not as a truncation before it.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Lookups of "." and ".." are answered: file handles work (NFS export).
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The umask is not applied by the kernel: needed for default ACLs.
        const DONT_MASK = 1 << 6;
        /// The kernel drops cached pages when attributes look changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// Listings may come with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between the two listings.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O in several requests at once.
        const ASYNC_DIO = 1 << 15;
        /// The kernel gathers writes (opt-in: it then owns size and mtime).
        const WRITEBACK_CACHE = 1 << 16;
        /// Lookups and listings of one directory at once.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks POSIX ACLs that it reads as attributes.
        const POSIX_ACL = 1 << 20;
        /// Reading an aborted connection says ECONNABORTED.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` of the reply counts.
        const MAX_PAGES = 1 << 22;
        /// Link targets are cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// Directories need no open.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached pages go only when we say so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// We clear set-id bits where the request says so.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// The longer set-attribute request.
        const SETXATTR_EXT = 1 << 29;
        /// The second flag word counts.
        const INIT_EXT = 1 << 30;
        /// Creations carry the caller's group that matters.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// An entry may be expired instead of dropped.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Mapping of files opened for direct I/O.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Requests of a lost reader can be asked for again.
        const HAS_RESEND = 1 << 39;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of a GETATTR request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct GetattrFlags: u32 {
        /// The handle field counts.
        const HANDLE = 1;
        const _ = !0;
    }
}

bitflags! {
    /// Which fields a SETATTR request changes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SetattrFields: u32 {
        /// Permission bits.
        const MODE = 1;
        /// Owner.
        const UID = 1 << 1;
        /// Group.
        const GID = 1 << 2;
        /// Length.
        const SIZE = 1 << 3;
        /// Access time.
        const ATIME = 1 << 4;
        /// Modification time.
        const MTIME = 1 << 5;
        /// The handle field counts.
        const HANDLE = 1 << 6;
        /// Access time becomes now.
        const ATIME_NOW = 1 << 7;
        /// Modification time becomes now.
        const MTIME_NOW = 1 << 8;
        /// The lock owner field counts.
        const LOCK_OWNER = 1 << 9;
        /// Change time (only with the write-back cache).
        const CTIME = 1 << 10;
        /// The truncation clears set-id bits.
        const KILL_SUIDGID = 1 << 11;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of a WRITE request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct WriteFlags: u32 {
        /// Delayed by the page cache (mapped, or write-back): no handle's caller is known.
        const CACHE = 1;
        /// The lock owner field counts.
        const LOCK_OWNER = 1 << 1;
        /// The write clears set-id bits.
        const KILL_SUIDGID = 1 << 2;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of an answer to OPEN, OPENDIR and CREATE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenReplyFlags: u32 {
        /// No page cache for this open.
        const DIRECT_IO = 1;
        /// Cached pages stay valid.
        const KEEP_CACHE = 1 << 1;
        /// Seeking makes no sense.
        const NONSEEKABLE = 1 << 2;
        /// The directory's listing may be cached.
        const CACHE_DIR = 1 << 3;
        /// No file position at all.
        const STREAM = 1 << 4;
        /// No FLUSH at close.
        const NOFLUSH = 1 << 5;
        /// Direct writes to one file may overlap in time.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of a RELEASE request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ReleaseFlags: u32 {
        /// Flush as well.
        const FLUSH = 1;
        /// Drop this owner's BSD locks.
        const FLOCK_UNLOCK = 2;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of FSYNC and FSYNCDIR.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FsyncFlags: u32 {
        /// Data only (`fdatasync`).
        const DATA = 1;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of RENAME2, those of renameat2(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RenameFlags: u32 {
        /// Do not replace a file.
        const NOREPLACE = 1;
        /// Exchange the two names.
        const EXCHANGE = 2;
        /// Leave a whiteout behind.
        const WHITEOUT = 4;
        const _ = !0;
    }
}

bitflags! {
    /// Flags of SETXATTR, those of setxattr(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct XattrFlags: u32 {
        /// The attribute must be new.
        const CREATE = 1;
        /// The attribute must exist.
        const REPLACE = 2;
        const _ = !0;
    }
}

bitflags! {
    /// Mode of FALLOCATE, that of fallocate(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FallocateMode: u32 {
        /// The length stays.
        const KEEP_SIZE = 1;
        /// Free the range.
        const PUNCH_HOLE = 2;
        /// Remove the range, moving what follows.
        const COLLAPSE_RANGE = 8;
        /// The range reads as zeros afterwards.
        const ZERO_RANGE = 16;
        /// Insert a hole, moving what follows.
        const INSERT_RANGE = 32;
        /// Unshare shared blocks.
        const UNSHARE_RANGE = 64;
        const _ = !0;
    }
}
