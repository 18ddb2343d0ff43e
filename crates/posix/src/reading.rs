//! Reading file data, holes, and what reading does to the access time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::Buffer;

use crate::core::Core;
use crate::znode::Znode;
use crate::{AccessTime, PosixError, Result, Timestamp};

const DAY_S: i64 = 86_400;

impl Znode {
    /// What of `length` bytes at `offset` lies within the file.
    pub(crate) fn clamp(&self, offset: u64, length: usize) -> Result<(Range<u64>, u64)> {
        let state = self.state.read();
        let size = self.alive(&state)?.size;
        if state.is_directory() {
            return Err(PosixError::IsDirectory);
        }
        let end = offset.saturating_add(length as u64).min(size);
        Ok((offset..end.max(offset), size))
    }

    /// Calls `visit` with each part of a range within the file, in order, without copying.
    pub(crate) fn read_parts(
        &self,
        (range, file_size): (Range<u64>, u64),
        visit: &mut dyn FnMut(Buffer, Range<usize>),
    ) -> Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            let size = u64::from(self.object.block_size());
            let block = self.object.read_block(offset / size)?;
            // The block size may have grown between both calls: what counts is what was read.
            let within = (offset - offset / size * size) as usize;
            let wanted = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
            let end = block.len().min(within.saturating_add(wanted));
            if end <= within {
                return Err(self.corrupt(crate::Corruption::SystemAttributes));
            }
            let (at, is_end) = (offset / size, end == block.len());
            visit(block, within..end);
            offset += (end - within) as u64;
            if is_end || offset >= file_size {
                self.object.end_of_block(at);
            }
        }
        Ok(())
    }

    pub(crate) fn seek_data(&self, offset: u64) -> Result<u64> {
        let size = self.state.read().size;
        if offset >= size {
            return Err(PosixError::NoSuchOffset);
        }
        let found = self.object.next_data(offset..size)?;
        found.ok_or(PosixError::NoSuchOffset)
    }

    pub(crate) fn seek_hole(&self, offset: u64) -> Result<u64> {
        let size = self.state.read().size;
        if offset >= size {
            return Err(PosixError::NoSuchOffset);
        }
        Ok(self.object.next_hole(offset..size)?)
    }
}

impl Core {
    /// Moves the access time of a file that was read, when the policy says so. In memory only: it is
    /// stored together with others' when some files have been closed, or at the end of the mount.
    pub(crate) fn touch(&self, znode: &Arc<Znode>) {
        let policy = self
            .options
            .access_time
            .unwrap_or_else(|| self.properties().access_time);
        if policy == AccessTime::Off || self.writing().is_err() {
            return;
        }
        let now = self.now();
        if policy == AccessTime::Relative && !is_stale(znode, now) {
            return;
        }
        znode.state.write().atime = now;
        if !znode.atime_moved.swap(true, Ordering::Relaxed) {
            self.touched.lock().push(Arc::clone(znode));
        }
    }
}

/// Whether an access time is no newer than the last change, or a day old.
fn is_stale(znode: &Znode, now: Timestamp) -> bool {
    let state = znode.state.read();
    state.atime <= state.mtime
        || state.atime <= state.ctime
        || now.seconds.saturating_sub(state.atime.seconds) >= DAY_S
}
