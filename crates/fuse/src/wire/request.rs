//! What a request says, borrowed from the buffer that it was read into.

use super::{
    FsyncFlags, GetattrFlags, InitFlags, ReleaseFlags, RenameFlags, SetattrFields, Timestamp,
    WriteFlags, XattrFlags,
};

/// Length of the header in front of every request.
pub const IN_HEADER_LEN: usize = 40;

/// The header in front of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Bytes of the whole message.
    pub length: u32,
    /// Number of the operation.
    pub opcode: u32,
    /// Identifies the request; the answer repeats it.
    pub unique: u64,
    /// The node that it is about.
    pub node: u64,
    /// File-system user id of the caller.
    pub uid: u32,
    /// File-system group id of the caller.
    pub gid: u32,
    /// Process id of the caller; 0 for requests of the kernel itself.
    pub pid: u32,
    /// Bytes of extensions at the end of the message.
    pub extension_len: usize,
}

/// A decoded request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// Who asks, and for which node.
    pub header: RequestHeader,
    /// What is asked.
    pub operation: Operation<'a>,
    /// The caller's groups that matter for a creation (none without CREATE_SUPP_GROUP).
    pub groups: Groups<'a>,
}

/// What is asked, with its arguments. Names are non-empty and hold neither NUL nor '/'.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "the fields are the system calls' arguments, by their names"
)]
pub enum Operation<'a> {
    /// Open the connection.
    Init(InitRequest),
    /// Close the connection.
    Destroy,
    /// Find a name.
    Lookup { name: &'a [u8] },
    /// Drop references.
    Forget { lookups: u64 },
    /// Drop references to several nodes.
    BatchForget { forgets: Forgets<'a> },
    /// Read attributes.
    Getattr { flags: GetattrFlags, handle: u64 },
    /// Read attributes with the birth time.
    Statx {
        flags: GetattrFlags,
        handle: u64,
        mask: u32,
    },
    /// Change attributes.
    Setattr(SetattrRequest),
    /// Read a link.
    Readlink,
    /// Make a symbolic link.
    Symlink { name: &'a [u8], target: &'a [u8] },
    /// Make a node.
    Mknod(MknodRequest<'a>),
    /// Make a directory.
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    /// Remove a name.
    Unlink { name: &'a [u8] },
    /// Remove a directory.
    Rmdir { name: &'a [u8] },
    /// Rename (RENAME and RENAME2).
    Rename(RenameRequest<'a>),
    /// Link `node` as a name in the header's directory.
    Link { node: u64, name: &'a [u8] },
    /// Open a file; `kill_suidgid`: truncation clears set-id bits.
    Open { flags: u32, kill_suidgid: bool },
    /// Make and open a file.
    Create(CreateRequest<'a>),
    /// Make an unnamed file.
    Tmpfile { flags: u32, mode: u32, umask: u32 },
    /// Read data.
    Read(ReadRequest),
    /// Write data.
    Write(WriteRequest<'a>),
    /// Sizes.
    Statfs,
    /// Close an open.
    Release {
        handle: u64,
        flags: u32,
        release_flags: ReleaseFlags,
    },
    /// Make durable.
    Fsync { handle: u64, flags: FsyncFlags },
    /// Set an attribute; `kill_sgid`: an ACL change clears the set-gid bit.
    Setxattr(SetxattrRequest<'a>),
    /// Read an attribute; `size` 0 asks for its length.
    Getxattr { name: &'a [u8], size: u32 },
    /// Names of the attributes; `size` 0 asks for the length.
    Listxattr { size: u32 },
    /// Remove an attribute.
    Removexattr { name: &'a [u8] },
    /// A descriptor was closed.
    Flush { handle: u64 },
    /// Open a directory.
    Opendir { flags: u32 },
    /// List names (READDIR) or names with attributes (READDIRPLUS).
    Readdir {
        handle: u64,
        cookie: u64,
        size: u32,
        plus: bool,
    },
    /// Close a directory.
    Releasedir { handle: u64 },
    /// Make a directory durable.
    Fsyncdir { handle: u64, flags: FsyncFlags },
    /// Check permissions.
    Access { mask: u32 },
    /// The request `unique` was hit by a signal.
    Interrupt { unique: u64 },
    /// A device-specific call.
    Ioctl(IoctlRequest<'a>),
    /// Allocate, punch, zero.
    Fallocate(FallocateRequest),
    /// Find data (3) or a hole (4).
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    /// Copy from this node to another.
    CopyFileRange(CopyFileRangeRequest),
    /// Make all durable.
    Syncfs,
    /// Known or not, we do not answer it: ENOSYS, and the kernel stops asking.
    Unsupported,
}

/// MKNOD's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct MknodRequest<'a> {
    pub name: &'a [u8],
    pub mode: u32,
    pub device: u32,
    pub umask: u32,
}

/// RENAME's and RENAME2's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct RenameRequest<'a> {
    pub name: &'a [u8],
    pub new_directory: u64,
    pub new_name: &'a [u8],
    pub flags: RenameFlags,
}

/// CREATE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct CreateRequest<'a> {
    pub name: &'a [u8],
    pub flags: u32,
    pub mode: u32,
    pub umask: u32,
    pub kill_suidgid: bool,
}

/// READ's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct ReadRequest {
    pub handle: u64,
    pub offset: u64,
    pub size: u32,
    pub flags: u32,
}

/// WRITE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct WriteRequest<'a> {
    pub handle: u64,
    pub offset: u64,
    pub data: &'a [u8],
    pub write_flags: WriteFlags,
    pub flags: u32,
}

/// SETXATTR's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct SetxattrRequest<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub flags: XattrFlags,
    pub kill_sgid: bool,
}

/// IOCTL's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct IoctlRequest<'a> {
    pub handle: u64,
    pub flags: u32,
    pub command: u32,
    pub argument: u64,
    pub output_size: u32,
    pub input: &'a [u8],
}

/// FALLOCATE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct FallocateRequest {
    pub handle: u64,
    pub offset: u64,
    pub length: u64,
    pub mode: u32,
}

/// COPY_FILE_RANGE's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the system call's arguments, by their names")]
pub struct CopyFileRangeRequest {
    pub handle: u64,
    pub offset: u64,
    pub to_node: u64,
    pub to_handle: u64,
    pub to_offset: u64,
    pub length: u64,
    pub flags: u64,
}

/// INIT's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// Major version of the kernel's protocol.
    pub major: u32,
    /// Minor version of the kernel's protocol.
    pub minor: u32,
    /// The longest read-ahead the kernel would do.
    pub max_readahead: u32,
    /// What the kernel can.
    pub flags: InitFlags,
}

/// SETATTR's arguments; only the named `fields` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetattrRequest {
    /// Which of the following count.
    pub fields: SetattrFields,
    /// Handle of the open, for ftruncate.
    pub handle: u64,
    /// New length.
    pub size: u64,
    /// New access time.
    pub atime: Timestamp,
    /// New modification time.
    pub mtime: Timestamp,
    /// New change time.
    pub ctime: Timestamp,
    /// New mode.
    pub mode: u32,
    /// New owner.
    pub uid: u32,
    /// New group.
    pub gid: u32,
}

/// One element of a BATCH_FORGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgetOne {
    /// The node.
    pub node: u64,
    /// References dropped.
    pub lookups: u64,
}

/// The elements of a BATCH_FORGET; as many as the message holds, whatever its count says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a> {
    pub(super) bytes: &'a [u8],
}

impl Forgets<'_> {
    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = ForgetOne> + '_ {
        self.bytes.as_chunks::<16>().0.iter().map(|chunk| {
            let mut fields = super::decode::Fields::new(chunk);
            ForgetOne {
                node: fields.u64_or_zero(),
                lookups: fields.u64_or_zero(),
            }
        })
    }
}

/// Group ids of the caller that came with a creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups<'a> {
    pub(super) bytes: &'a [u8],
}

impl Groups<'_> {
    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| u32::from_ne_bytes(*chunk))
    }
}
