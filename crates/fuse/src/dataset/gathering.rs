//! A mount for which the kernel gathers writes: who may go on without asking, and what was promised to them.
//!
//! The kernel takes a write into its pages and tells us later, so that a refusal would come too late. It keeps no more
//! than a bound of such pages. As long as space for all of them, wherever they lie, is promised ahead, writers go on
//! without asking. When that cannot be promised any more, near the end of a pool or of a quota, the kernel is made
//! to ask for the attributes of a file before each write, and the answer waits until what it has of that file has been
//! written here, and says what a write would have been told. What was taken before has credit: it is stored beyond
//! limits, in what is kept back of the pool.

use crate::tree::BeforeWrite;
use base::Txg;
use posix::FileSystem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The smallest part of a file that the kernel keeps by itself.
const PAGE: u64 = 4096;
/// The kernel looks now and then how much there is: it may be twice what it was told.
const BEYOND: u64 = 2;
/// What a writer that has asked may write. A longer write near the end is told by fsync and close.
pub(super) const ASKED_BYTES: u64 = 1 << 20;

/// What the kernel may gather.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Bytes that the kernel has at most; 0: it gathers nothing.
    bytes: AtomicU64,
    /// The last txg that space is promised for; 0: for none.
    promised: AtomicU64,
    /// Writers go on without asking.
    is_free: AtomicBool,
    /// Bytes that may be stored beyond limits.
    credit: AtomicU64,
    /// Of one block of those files, at most.
    block_bytes: AtomicU32,
}

impl Gathering {
    /// The kernel gathers up to so many bytes from now on.
    pub(super) fn begin(&self, bytes: u64) {
        self.bytes.store(bytes * BEYOND, Ordering::Relaxed);
    }

    /// Whether the kernel gathers at all.
    pub(super) fn is_on(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) != 0
    }

    /// Whether writers go on without asking.
    pub(super) fn is_free(&self) -> bool {
        self.is_free.load(Ordering::Relaxed)
    }

    /// Files with blocks as large are written.
    pub(super) fn note_block(&self, bytes: u32) {
        self.block_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The file system is another one: nothing is promised there.
    pub(super) fn forget(&self) {
        self.is_free.store(false, Ordering::Relaxed);
        self.promised.store(0, Ordering::Relaxed);
        self.credit.store(0, Ordering::Relaxed);
    }

    /// Sees to it that space is promised for what the kernel may gather, and says whether writers need to ask.
    pub(super) fn renew(&self, files: &FileSystem) -> BeforeWrite {
        let until = Txg(self.promised.load(Ordering::Relaxed));
        if self.is_free() && files.is_promised(until) {
            return BeforeWrite::Goes;
        }
        let pages = self.bytes.load(Ordering::Relaxed) / PAGE;
        let block_bytes = self.block_bytes.load(Ordering::Relaxed);
        match files.promise_ahead(pages, block_bytes) {
            Ok(Some(until)) => {
                self.promised.store(until.0, Ordering::Relaxed);
                self.is_free.store(true, Ordering::Relaxed);
                BeforeWrite::Goes
            }
            Ok(None) | Err(_) => BeforeWrite::Asks {
                as_of_now: self.end_freedom(),
            },
        }
    }

    /// Writers ask from now on; whether they did not before. What they have written by then is stored.
    fn end_freedom(&self) -> bool {
        let was_free = self.is_free.swap(false, Ordering::Relaxed);
        if was_free {
            let bytes = self.bytes.load(Ordering::Relaxed);
            self.credit.store(bytes, Ordering::Relaxed);
        }
        was_free
    }

    /// A writer has asked, and may write.
    pub(super) fn grant(&self) {
        let max = self.bytes.load(Ordering::Relaxed) + ASKED_BYTES;
        let more = |credit: u64| Some((credit + ASKED_BYTES).min(max));
        let _always = self
            .credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// What the kernel gathered is refused: whether it was taken by a promise, and writers are to ask as of now.
    pub(super) fn refused(&self, bytes: usize) -> Option<BeforeWrite> {
        let as_of_now = self.end_freedom();
        let less = |credit: u64| credit.checked_sub(bytes as u64);
        let taken = self
            .credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| BeforeWrite::Asks { as_of_now })
    }
}

#[cfg(test)]
mod tests;
