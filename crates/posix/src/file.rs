//! An open file: reading, writing, holes, durability.

use crate::{Attributes, Credentials, Result};
use base::ObjectId;
use std::ops::Range;

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
    /// Durable before it returns.
    pub sync: bool,
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
        /// Whether a range beyond the end extends the file.
        keep_size: bool,
    },
}

/// A file held open: it stays readable and writable after its last name is gone; the last handle
/// then frees it.
#[derive(Debug)]
pub struct OpenFile {}

impl OpenFile {
    /// The object.
    pub fn object(&self) -> ObjectId {
        unimplemented!()
    }

    /// Attributes now.
    pub fn attributes(&self) -> Result<Attributes> {
        unimplemented!()
    }

    /// Reads into `buffer`; short only at the end of the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let _ = (offset, buffer);
        unimplemented!()
    }

    /// Writes `data`; a short count only when space ran out on the way.
    pub fn write(&self, offset: u64, data: &[u8], options: WriteOptions) -> Result<usize> {
        let _ = (offset, data, options);
        unimplemented!()
    }

    /// The first offset at or after `offset` that is data.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        let _ = offset;
        unimplemented!()
    }

    /// The first offset at or after `offset` that is a hole; the end of the file counts as one.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        let _ = offset;
        unimplemented!()
    }

    /// `fallocate`.
    pub fn allocate(&self, mode: AllocateMode, range: Range<u64>) -> Result<()> {
        let _ = (mode, range);
        unimplemented!()
    }

    /// Copies a range of `source` here (`copy_file_range`), returns the bytes copied.
    pub fn copy_from(
        &self,
        source: &OpenFile,
        from: Range<u64>,
        offset: u64,
        options: WriteOptions,
    ) -> Result<u64> {
        let _ = (source, from, offset, options);
        unimplemented!()
    }

    /// Waits until everything written to this file is durable.
    pub fn fsync(&self) -> Result<()> {
        unimplemented!()
    }

    /// Who opened it may be asked again at release.
    pub fn credentials(&self) -> &Credentials {
        unimplemented!()
    }
}
