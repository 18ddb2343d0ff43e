//! An open file: reading, writing, holes, durability.

use std::ops::Range;
use std::sync::Arc;

use base::ObjectId;
use intent::Completion;

use crate::core::Core;
use crate::permission::without_set_id;
use crate::read_ahead::ReadAhead;
use crate::znode::Znode;
use crate::{Attributes, Credentials, PosixError, Result};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Every write goes to the end (`O_APPEND`).
    pub append: bool,
    /// Emptied first (`O_TRUNC`).
    pub truncate: bool,
    /// Each write is durable before it returns (`O_SYNC`, `O_DSYNC`).
    pub sync: bool,
    /// Reading leaves the access time alone (`O_NOATIME`).
    pub keep_access_time: bool,
    /// For execution: needs the execute permission instead of read.
    pub execute: bool,
}

/// How one write behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Drop set-id bits (`FUSE_WRITE_KILL_SUIDGID`): the writer is not privileged.
    pub kill_set_id: bool,
    /// Append regardless of the offset given.
    pub append: bool,
    /// At the offset given, also where all writes of this open are appended: the kernel knows where the file ends, and
    /// pages that it kept have their place.
    pub at_offset: bool,
    /// Pages that the kernel kept: what was allowed when they were stored is not refused now.
    pub was_stored: bool,
    /// The kernel owns the file's times, and says them by itself: the write leaves them alone.
    pub keeps_times: bool,
    /// Space was promised for it before: it may go beyond limits, into what is kept back of the pool.
    pub was_promised: bool,
    /// Drop `security.capability`: the kernel has not looked for it (direct writes).
    pub drop_capability: bool,
    /// Durable before it returns.
    pub sync: bool,
    /// Whatever wants it durable: it returns before it is. The caller asks
    /// [`OpenFile::is_synchronous`] and commits.
    pub uncommitted: bool,
}

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateMode {
    /// Checks space and extends the size.
    Extend,
    /// Checks space, keeps the size.
    KeepSize,
    /// Frees the range; size stays.
    PunchHole,
    /// Zeros the range; the size stays when `keep_size`.
    ZeroRange {
        /// Whether the file stays as long as it is where the range reaches beyond its end.
        keep_size: bool,
    },
}

/// A file held open: it stays readable and writable after its last name is gone; the last handle
/// then frees it.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) core: Arc<Core>,
    pub(crate) znode: Arc<Znode>,
    pub(crate) options: OpenOptions,
    pub(crate) who: Credentials,
    ahead: ReadAhead,
}

impl OpenFile {
    /// A handle on a file whose reference the caller has taken.
    pub(crate) fn new(
        core: &Arc<Core>,
        znode: &Arc<Znode>,
        options: OpenOptions,
        who: &Credentials,
    ) -> Self {
        let (core, znode, who) = (Arc::clone(core), Arc::clone(znode), who.clone());
        Self {
            core,
            znode,
            options,
            who,
            ahead: ReadAhead::default(),
        }
    }

    /// The object.
    pub fn object(&self) -> ObjectId {
        self.znode.id()
    }

    /// How it was opened.
    pub fn options(&self) -> OpenOptions {
        self.options
    }

    /// Who opened it.
    pub fn credentials(&self) -> &Credentials {
        &self.who
    }

    /// Attributes now.
    pub fn attributes(&self) -> Result<Attributes> {
        Ok(self.core.show(&self.znode, &self.znode.state.read()))
    }

    /// Whether it has extended attributes, access lists among them.
    #[must_use]
    pub fn has_extended_attributes(&self) -> bool {
        self.znode.has_xattrs(&self.znode.state.read())
    }

    /// Whether it has set-id bits that a change of data by an ordinary user takes away.
    #[must_use]
    pub fn has_set_id(&self) -> bool {
        let mode = self.znode.state.read().mode;
        without_set_id(mode) != mode
    }

    /// Reads into `buffer`; short only at the end of the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        self.read_with(offset, buffer.len(), &mut |block, range| {
            if let (Some(from), Some(to)) = (block.get(range), buffer.get_mut(filled..)) {
                let length = from.len().min(to.len());
                to[..length].copy_from_slice(&from[..length]);
                filled += length;
            }
        })
    }

    /// Reads without copying: `visit` gets each part, in order, as a range of a shared buffer.
    /// Returns the bytes found, fewer than `length` only at the end of the file.
    pub fn read_with(
        &self,
        offset: u64,
        length: usize,
        visit: &mut dyn FnMut(sys::Buffer, Range<usize>),
    ) -> Result<usize> {
        if !self.options.read && !self.options.execute {
            return Err(PosixError::BadHandle);
        }
        let (range, size) = self.znode.clamp(offset, length)?;
        if range.is_empty() {
            return Ok(0);
        }
        if self.core.reads_ahead()
            && let Some(ahead) = self.ahead.note(&range, size)
        {
            let length = ahead.end - ahead.start;
            self.znode.object.prefetch(ahead.start, length);
        }
        let found = (range.end - range.start) as usize;
        self.znode.read_parts((range, size), visit)?;
        if !self.options.keep_access_time {
            self.core.touch(&self.znode);
        }
        Ok(found)
    }

    /// Writes `data`; a short count when an error, such as no space, came after a part was written.
    pub fn write(&self, offset: u64, data: &[u8], options: WriteOptions) -> Result<usize> {
        if !self.options.write {
            return Err(PosixError::BadHandle);
        }
        let options = WriteOptions {
            append: options.append || self.options.append && !options.at_offset,
            ..self.durably(options)
        };
        if options.drop_capability {
            self.core.drop_capability(&self.znode)?;
        }
        self.core.write(&self.znode, offset, data, options)
    }

    /// The first offset at or after `offset` that is data.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.znode.seek_data(offset)
    }

    /// The first offset at or after `offset` that is a hole; the end of the file counts as one.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.znode.seek_hole(offset)
    }

    /// `fallocate`.
    pub fn allocate(&self, mode: AllocateMode, range: Range<u64>) -> Result<()> {
        if !self.options.write {
            return Err(PosixError::BadHandle);
        }
        self.core.allocate(&self.znode, mode, range)?;
        self.core.settle(self.znode.id())
    }

    /// Refuses what would be refused of any change of its data.
    pub fn check_change(&self) -> Result<()> {
        self.core
            .check_data_change(&self.znode, &self.znode.state.read())
    }

    /// Whether a write of so many bytes would be refused now.
    pub fn check_write(&self, bytes: u64) -> Result<()> {
        self.core.check_write(&self.znode, bytes)
    }

    /// Bytes of one of its blocks.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.znode.object.block_size()
    }

    /// Takes the set-id bits away, as a change of data by an ordinary user does.
    pub fn drop_set_id(&self) -> Result<()> {
        self.core.drop_set_id(&self.znode)
    }

    /// With what the open mode and the dataset say about durability.
    fn durably(&self, options: WriteOptions) -> WriteOptions {
        WriteOptions {
            sync: options.sync || self.is_synchronous(),
            ..options
        }
    }

    /// Copies a range of `source` here (`copy_file_range`), returns the bytes copied.
    pub fn copy_from(
        &self,
        source: &OpenFile,
        from: Range<u64>,
        offset: u64,
        options: WriteOptions,
    ) -> Result<u64> {
        if !self.options.write || !source.options.read {
            return Err(PosixError::BadHandle);
        }
        let options = self.durably(options);
        self.core
            .copy_range((&source.znode, from), (&self.znode, offset), options)
    }

    /// Whether each write is to be durable before the writer goes on.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.options.sync || self.core.properties().sync_always
    }

    /// Waits until everything written to this file is durable.
    pub fn fsync(&self) -> Result<()> {
        self.core.fsync(&self.znode)
    }

    /// The same without waiting: `completion` is told when the commit has ended, and calls
    /// [`OpenFile::fsync`] from a thread if the log could not help. False, and `completion` is
    /// forgotten: it takes a thread from the beginning.
    #[must_use]
    pub fn fsync_async(&self, completion: &Arc<dyn Completion>) -> bool {
        self.core.fsync_async(&self.znode, completion)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.core.release(&self.znode, 1);
    }
}
