//! What a session serves: the operations of a mounted tree, by node id.

use crate::errno;
use crate::wire::{
    Attributes, DirectoryBuffer, EntryReply, FallocateMode, FsyncFlags, OpenReplyFlags,
    RenameFlags, SetattrRequest, StatfsReply, WriteFlags, XattrFlags,
};
use posix::{Completion, Errno};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The result of an operation of a tree.
pub type Reply<T> = Result<T, Errno>;

/// Who asks. The kernel has checked permissions by mode (`default_permissions`); this says whom
/// new files belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process; 0 when the kernel itself asks.
    pub pid: u32,
    /// The supplementary group that matters for a creation, when there is one.
    pub group_of_directory: Option<u32>,
}

/// `O_DIRECT`, as most architectures number it; those of Arm and PowerPC differ.
pub(crate) const OPEN_DIRECT: u32 = if cfg!(any(
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "powerpc64"
)) {
    0o200_000
} else {
    0o40_000
};

/// How a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// What the kernel says of it.
    pub flags: WriteFlags,
    /// The caller wants this one write durable (`RWF_DSYNC`), or all of this open.
    pub durable: bool,
    /// The program asked for `O_DIRECT`.
    pub direct: bool,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes taken.
    pub count: usize,
    /// The caller wants them durable before it goes on: the answer waits for a commit.
    pub owes_commit: bool,
    /// The kernel may have cached what was there before: it must drop that before the answer.
    pub leaves_pages: bool,
    /// Writers are to ask from now on: see [`BeforeWrite::Asks`].
    pub asks_as_of_now: bool,
}

/// What the kernel does before a write that it will tell us of later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeWrite {
    /// Nothing.
    Goes,
    /// It asks for the file's attributes; the answer waits for [`Tree::admit_write`].
    Asks {
        /// It did not have to until now: what it knows of the attributes of all files that are being written is to be
        /// forgotten.
        as_of_now: bool,
    },
}

/// What a creation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Kind and permissions as asked for.
    pub mode: u32,
    /// The caller's mask, not yet applied.
    pub umask: u32,
    /// Device number in the protocol's form; for device nodes.
    pub device: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The flags of open(2), with `O_TRUNC` when it is ours to do.
    pub flags: u32,
    /// A truncation clears set-id bits.
    pub kill_suidgid: bool,
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Names the open in later requests.
    pub handle: u64,
    /// What the kernel may do with it.
    pub flags: OpenReplyFlags,
    /// What the kernel knows of the attributes is to be forgotten: emptying it took set-id bits, or writers ask for
    /// them.
    pub forgets_attributes: bool,
}

/// A part of a buffer.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The whole buffer, shared with the cache.
    pub buffer: sys::Buffer,
    /// The part that counts.
    pub range: Range<usize>,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.range.clone()).unwrap_or_default()
    }
}

/// writev(2) takes 1,024 parts; one is the header.
const PIECES_MAX: usize = 512;

/// Data of a read on its way to the kernel, without a copy where the tree has it in buffers.
#[derive(Debug, Default)]
pub struct ReadReply {
    scratch: Vec<u8>,
    filled: usize,
    pieces: Vec<Piece>,
}

impl ReadReply {
    /// Memory for `len` bytes, to be filled from the start; [`ReadReply::fill`] says how many were.
    pub fn scratch(&mut self, len: usize) -> &mut [u8] {
        if self.scratch.len() < len {
            self.scratch.resize(len, 0);
        }
        self.scratch.get_mut(..len).unwrap_or_default()
    }

    /// The first `len` bytes of the scratch memory are the answer.
    pub fn fill(&mut self, len: usize) {
        self.filled = len;
    }

    /// Appends a part of the answer. Many small ones are copied together: a message has only so
    /// many parts.
    pub fn push(&mut self, piece: Piece) {
        if self.pieces.len() >= PIECES_MAX {
            let len = self.parts().map(<[u8]>::len).sum();
            let mut joined = Vec::with_capacity(len);
            self.parts().for_each(|part| joined.extend_from_slice(part));
            self.pieces.clear();
            self.filled = joined.len();
            self.scratch = joined;
        }
        self.pieces.push(piece);
    }

    /// The answer's parts in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let filled = self
            .scratch
            .get(..self.filled)
            .filter(|bytes| !bytes.is_empty());
        filled
            .into_iter()
            .chain(self.pieces.iter().map(Piece::bytes))
    }

    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.pieces.clear();
    }
}

/// The operations. Called from many threads at once; what is not offered says ENOSYS, and the
/// kernel stops asking.
///
/// A handle is given out by `open`, `create` or `create_unnamed` and ends with `release`.
pub trait Tree: Send + Sync {
    /// Finds a name. A missing one is `Ok` with node 0 when the kernel may remember that.
    fn lookup(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<EntryReply>;

    /// The kernel drops `lookups` references to a node.
    fn forget(&self, _node: u64, _lookups: u64) {}

    /// Attributes, and how long they stay true.
    fn getattr(&self, node: u64) -> Reply<(Attributes, Duration)>;

    /// Changes attributes.
    fn setattr(
        &self,
        caller: &Caller,
        node: u64,
        change: &SetattrRequest,
    ) -> Reply<(Attributes, Duration)>;

    /// The target of a symbolic link.
    fn readlink(&self, node: u64) -> Reply<Vec<u8>>;

    /// Makes a file, device, FIFO or socket.
    fn mknod(
        &self,
        caller: &Caller,
        directory: u64,
        name: &[u8],
        creation: Creation,
    ) -> Reply<EntryReply>;

    /// Makes a directory.
    fn mkdir(
        &self,
        caller: &Caller,
        directory: u64,
        name: &[u8],
        creation: Creation,
    ) -> Reply<EntryReply>;

    /// Makes a symbolic link.
    fn symlink(
        &self,
        caller: &Caller,
        directory: u64,
        name: &[u8],
        target: &[u8],
    ) -> Reply<EntryReply>;

    /// Gives a node another name.
    fn link(&self, caller: &Caller, node: u64, directory: u64, name: &[u8]) -> Reply<EntryReply>;

    /// Removes a name that is no directory.
    fn unlink(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()>;

    /// Removes an empty directory.
    fn rmdir(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()>;

    /// Moves a name.
    fn rename(
        &self,
        caller: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Reply<()>;

    /// Opens a file.
    fn open(&self, caller: &Caller, node: u64, opening: Opening) -> Reply<Opened>;

    /// Makes a file in a directory, by a name, and opens it.
    fn create(
        &self,
        caller: &Caller,
        place: (u64, &[u8]),
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)>;

    /// Makes a file without a name and opens it.
    fn create_unnamed(
        &self,
        _caller: &Caller,
        _directory: u64,
        _creation: Creation,
        _opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        Err(errno::ENOSYS)
    }

    /// Reads; short only at the end of the file.
    fn read(&self, handle: u64, offset: u64, size: u32, reply: &mut ReadReply) -> Reply<()>;

    /// Writes.
    fn write(&self, handle: u64, offset: u64, data: &[u8], how: Writing) -> Reply<Written>;

    /// Ends an open.
    fn release(&self, handle: u64);

    /// Makes a file durable. Called from threads that may wait.
    fn fsync(&self, handle: u64, flags: FsyncFlags) -> Reply<()>;

    /// The same from a thread that may not wait: `completion` is told when the file is durable, or that
    /// [`Tree::fsync`] is to be called. False, and `completion` is forgotten: it is to be called at once.
    fn fsync_async(&self, _handle: u64, _completion: &Arc<dyn Completion>) -> bool {
        false
    }

    /// Makes a directory durable. Called from threads that may wait.
    fn fsync_directory(&self, node: u64) -> Reply<()>;

    /// Makes everything durable. Called from threads that may wait.
    fn sync(&self) -> Reply<()>;

    /// Lists from `cookie` (0: the start) until the end or until the buffer is full.
    fn readdir(
        &self,
        caller: &Caller,
        directory: u64,
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<()>;

    /// Sizes.
    fn statfs(&self, node: u64) -> Reply<StatfsReply>;

    /// Sets an extended attribute.
    fn setxattr(
        &self,
        caller: &Caller,
        node: u64,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Reply<()>;

    /// An extended attribute's value.
    fn getxattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<Vec<u8>>;

    /// The names of the extended attributes, each ended by a NUL.
    fn listxattr(&self, caller: &Caller, node: u64) -> Reply<Vec<u8>>;

    /// Removes an extended attribute.
    fn removexattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<()>;

    /// Allocates, punches or zeros a range.
    fn fallocate(
        &self,
        _caller: &Caller,
        _handle: u64,
        _range: (u64, u64),
        _mode: FallocateMode,
    ) -> Reply<()> {
        Err(errno::ENOSYS)
    }

    /// Finds data or a hole from `offset` on.
    fn seek(&self, _handle: u64, _offset: u64, _hole: bool) -> Reply<u64> {
        Err(errno::ENOSYS)
    }

    /// Takes the set-group-id bit away: who changed the access list is not in the group.
    fn drop_set_gid(&self, _caller: &Caller, _node: u64) -> Reply<()> {
        Ok(())
    }

    /// Whether an open file has set-id bits that a change by an ordinary user takes away.
    fn has_set_id(&self, _handle: u64) -> bool {
        false
    }

    /// Whether the kernel may have pages of this open file, changed through a mapping, that it has
    /// not written to us.
    fn maybe_dirty(&self, _handle: u64) -> bool {
        false
    }

    /// Copies `length` bytes between two open files; returns the bytes copied.
    fn copy_range(
        &self,
        _caller: &Caller,
        _from: (u64, u64),
        _to: (u64, u64),
        _length: u64,
    ) -> Reply<u64> {
        Err(errno::ENOSYS)
    }

    /// A device-specific call on a node; returns its result and output.
    fn ioctl(&self, _caller: &Caller, _node: u64, _command: u32, _input: &[u8]) -> Reply<Vec<u8>> {
        Err(errno::ENOTTY)
    }

    /// The nodes of which the kernel may have pages that it has not written: those open for both reading and writing,
    /// for only they can be mapped; where it gathers writes, those open for writing.
    fn nodes_maybe_mapped(&self) -> Vec<u64>;

    /// The kernel offers to gather writes, up to so many bytes of them; whether it shall. With 0 it does not after all.
    fn gathers_writes(&self, _bytes: u64) -> bool {
        false
    }

    /// Whether a write to an open file, which the kernel is about to take, is to wait for [`Tree::admit_write`]; an
    /// error refuses it.
    fn before_write(&self, _handle: u64) -> Reply<BeforeWrite> {
        Ok(BeforeWrite::Goes)
    }

    /// Whether a write that the kernel is about to take may go; it has none before it that is not written. Called from
    /// threads that may wait.
    fn admit_write(&self, _handle: u64) -> Reply<()> {
        Ok(())
    }

    /// Where a node is, from the root of the tree, and its inode number; none where no name leads to it.
    fn path_of(&self, _node: u64) -> Option<(Vec<u8>, u64)> {
        None
    }

    /// A request about a node is about to be answered with ESTALE. The kernel looks up once more what its caller
    /// named, and asks again: what it finds then must not be gone.
    fn came_late(&self, _node: u64) {}

    /// The mount is gone: nothing will be asked any more.
    fn ended(&self) {}
}
