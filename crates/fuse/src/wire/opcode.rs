//! The numbers of the requests: one table.

macro_rules! opcodes {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $label:literal;)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Opcode { $($(#[doc = $doc])* $name = $number,)* }

        impl Opcode {
            /// Every opcode, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The opcode of this number, if it is one we know by name.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// The name in counters and messages.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

opcodes! {
    /// Find a name in a directory.
    Lookup = 1, "lookup";
    /// The kernel drops references to a node; never answered.
    Forget = 2, "forget";
    /// Read attributes.
    Getattr = 3, "getattr";
    /// Change attributes, truncate.
    Setattr = 4, "setattr";
    /// Read the target of a symbolic link.
    Readlink = 5, "readlink";
    /// Make a symbolic link.
    Symlink = 6, "symlink";
    /// Make a file, device, FIFO or socket without opening it.
    Mknod = 8, "mknod";
    /// Make a directory.
    Mkdir = 9, "mkdir";
    /// Remove a name that is no directory.
    Unlink = 10, "unlink";
    /// Remove an empty directory.
    Rmdir = 11, "rmdir";
    /// Rename without flags.
    Rename = 12, "rename";
    /// Make a hard link.
    Link = 13, "link";
    /// Open a file.
    Open = 14, "open";
    /// Read file data.
    Read = 15, "read";
    /// Write file data.
    Write = 16, "write";
    /// Sizes of the file system.
    Statfs = 17, "statfs";
    /// The last descriptor of an open is gone.
    Release = 18, "release";
    /// Make a file durable.
    Fsync = 20, "fsync";
    /// Set an extended attribute.
    Setxattr = 21, "setxattr";
    /// Read an extended attribute.
    Getxattr = 22, "getxattr";
    /// Names of the extended attributes.
    Listxattr = 23, "listxattr";
    /// Remove an extended attribute.
    Removexattr = 24, "removexattr";
    /// A descriptor was closed.
    Flush = 25, "flush";
    /// The first request of a connection: versions and flags.
    Init = 26, "init";
    /// Open a directory.
    Opendir = 27, "opendir";
    /// List names.
    Readdir = 28, "readdir";
    /// The last descriptor of an open directory is gone.
    Releasedir = 29, "releasedir";
    /// Make a directory durable.
    Fsyncdir = 30, "fsyncdir";
    /// Test a POSIX lock (not negotiated: the kernel keeps locks).
    Getlk = 31, "getlk";
    /// Set a POSIX lock (not negotiated).
    Setlk = 32, "setlk";
    /// Wait for a POSIX lock (not negotiated).
    Setlkw = 33, "setlkw";
    /// Check permissions (not sent with `default_permissions`).
    Access = 34, "access";
    /// Make and open a regular file.
    Create = 35, "create";
    /// A waiting caller was hit by a signal.
    Interrupt = 36, "interrupt";
    /// Map a file block to a device block (block devices only).
    Bmap = 37, "bmap";
    /// The connection ends (block-device mounts only).
    Destroy = 38, "destroy";
    /// A device-specific call.
    Ioctl = 39, "ioctl";
    /// Poll for readiness.
    Poll = 40, "poll";
    /// Answer to a retrieve notification.
    NotifyReply = 41, "notify_reply";
    /// Several forgets at once; never answered.
    BatchForget = 42, "batch_forget";
    /// Allocate, punch or zero a range.
    Fallocate = 43, "fallocate";
    /// List names with their attributes.
    Readdirplus = 44, "readdirplus";
    /// Rename with flags.
    Rename2 = 45, "rename2";
    /// Find data or a hole.
    Lseek = 46, "lseek";
    /// Copy between two files without the data passing through the kernel.
    CopyFileRange = 47, "copy_file_range";
    /// Map a DAX window (virtiofs only).
    SetupMapping = 48, "setup_mapping";
    /// Unmap a DAX window (virtiofs only).
    RemoveMapping = 49, "remove_mapping";
    /// Make the whole file system durable (not sent to ordinary FUSE mounts).
    Syncfs = 50, "syncfs";
    /// Make an unnamed file (`O_TMPFILE`).
    Tmpfile = 51, "tmpfile";
    /// Read extended attributes of a node: birth time.
    Statx = 52, "statx";
}
