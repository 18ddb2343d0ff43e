//! Flag words, each a named set of bits.

macro_rules! flags {
    (
        $(#[doc = $doc:literal])* $name:ident: $int:ty {
            $($(#[doc = $bit_doc:literal])* $bit:ident = $value:expr;)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[doc = $bit_doc])* pub const $bit: Self = Self($value);)*

            /// No bit set.
            pub const NONE: Self = Self(0);

            /// Whether every bit of `other` is set here.
            #[must_use]
            pub const fn has(self, other: Self) -> bool { self.0 & other.0 == other.0 }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self { Self(self.0 | other.0) }

            /// The bits that are in both.
            #[must_use]
            pub const fn common(self, other: Self) -> Self { Self(self.0 & other.0) }

            /// The bits of this without those of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self { Self(self.0 & !other.0) }
        }
    };
}

flags! {
    /// Abilities offered by the kernel and accepted by us at INIT.
    InitFlags: u64 {
        /// Several reads of one file at once.
        ASYNC_READ = 1;
        /// `O_TRUNC` arrives with the open, not as a truncation before it.
        ATOMIC_O_TRUNC = 1 << 3;
        /// Lookups of "." and ".." are answered: file handles work (NFS export).
        EXPORT_SUPPORT = 1 << 4;
        /// Writes larger than a page.
        BIG_WRITES = 1 << 5;
        /// The umask is not applied by the kernel: needed for default ACLs.
        DONT_MASK = 1 << 6;
        /// The kernel drops cached pages when attributes look changed.
        AUTO_INVAL_DATA = 1 << 12;
        /// Listings may come with attributes.
        DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between the two listings.
        READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O in several requests at once.
        ASYNC_DIO = 1 << 15;
        /// The kernel gathers writes (opt-in: it then owns size and mtime).
        WRITEBACK_CACHE = 1 << 16;
        /// Lookups and listings of one directory at once.
        PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks POSIX ACLs that it reads as attributes.
        POSIX_ACL = 1 << 20;
        /// Reading an aborted connection says ECONNABORTED.
        ABORT_ERROR = 1 << 21;
        /// `max_pages` of the reply counts.
        MAX_PAGES = 1 << 22;
        /// Link targets are cached.
        CACHE_SYMLINKS = 1 << 23;
        /// Directories need no open.
        NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached pages go only when we say so.
        EXPLICIT_INVAL_DATA = 1 << 25;
        /// We clear set-id bits where the request says so.
        HANDLE_KILLPRIV_V2 = 1 << 28;
        /// The longer set-attribute request.
        SETXATTR_EXT = 1 << 29;
        /// The second flag word counts.
        INIT_EXT = 1 << 30;
        /// Creations carry the caller's group that matters.
        CREATE_SUPP_GROUP = 1 << 34;
        /// An entry may be expired instead of dropped.
        HAS_EXPIRE_ONLY = 1 << 35;
        /// Mapping of files opened for direct I/O.
        DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Requests of a lost reader can be asked for again.
        HAS_RESEND = 1 << 39;
    }
}

flags! {
    /// Flags of a GETATTR request.
    GetattrFlags: u32 {
        /// The handle field counts.
        HANDLE = 1;
    }
}

flags! {
    /// Which fields a SETATTR request changes.
    SetattrFields: u32 {
        /// Permission bits.
        MODE = 1;
        /// Owner.
        UID = 1 << 1;
        /// Group.
        GID = 1 << 2;
        /// Length.
        SIZE = 1 << 3;
        /// Access time.
        ATIME = 1 << 4;
        /// Modification time.
        MTIME = 1 << 5;
        /// The handle field counts.
        HANDLE = 1 << 6;
        /// Access time becomes now.
        ATIME_NOW = 1 << 7;
        /// Modification time becomes now.
        MTIME_NOW = 1 << 8;
        /// The lock owner field counts.
        LOCK_OWNER = 1 << 9;
        /// Change time (only with the write-back cache).
        CTIME = 1 << 10;
        /// The truncation clears set-id bits.
        KILL_SUIDGID = 1 << 11;
    }
}

flags! {
    /// Flags of a WRITE request.
    WriteFlags: u32 {
        /// Delayed by the page cache (mapped, or write-back): no handle's caller is known.
        CACHE = 1;
        /// The lock owner field counts.
        LOCK_OWNER = 1 << 1;
        /// The write clears set-id bits.
        KILL_SUIDGID = 1 << 2;
    }
}

flags! {
    /// Flags of an answer to OPEN, OPENDIR and CREATE.
    OpenReplyFlags: u32 {
        /// No page cache for this open.
        DIRECT_IO = 1;
        /// Cached pages stay valid.
        KEEP_CACHE = 1 << 1;
        /// Seeking makes no sense.
        NONSEEKABLE = 1 << 2;
        /// The directory's listing may be cached.
        CACHE_DIR = 1 << 3;
        /// No file position at all.
        STREAM = 1 << 4;
        /// No FLUSH at close.
        NOFLUSH = 1 << 5;
        /// Direct writes to one file may overlap in time.
        PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

flags! {
    /// Flags of a RELEASE request.
    ReleaseFlags: u32 {
        /// Flush as well.
        FLUSH = 1;
        /// Drop this owner's BSD locks.
        FLOCK_UNLOCK = 2;
    }
}

flags! {
    /// Flags of FSYNC and FSYNCDIR.
    FsyncFlags: u32 {
        /// Data only (`fdatasync`).
        DATA = 1;
    }
}

flags! {
    /// Flags of RENAME2, those of renameat2(2).
    RenameFlags: u32 {
        /// Do not replace a file.
        NOREPLACE = 1;
        /// Exchange the two names.
        EXCHANGE = 2;
        /// Leave a whiteout behind.
        WHITEOUT = 4;
    }
}

flags! {
    /// Flags of SETXATTR, those of setxattr(2).
    XattrFlags: u32 {
        /// The attribute must be new.
        CREATE = 1;
        /// The attribute must exist.
        REPLACE = 2;
    }
}

flags! {
    /// Mode of FALLOCATE, that of fallocate(2).
    FallocateMode: u32 {
        /// The length stays.
        KEEP_SIZE = 1;
        /// Free the range.
        PUNCH_HOLE = 2;
        /// Remove the range, moving what follows.
        COLLAPSE_RANGE = 8;
        /// The range reads as zeros afterwards.
        ZERO_RANGE = 16;
        /// Insert a hole, moving what follows.
        INSERT_RANGE = 32;
        /// Unshare shared blocks.
        UNSHARE_RANGE = 64;
    }
}
