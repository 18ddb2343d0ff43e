//! How many entries of logs an import keeps in memory.
//!
//! What is written here fits whatever there is: it is bounded by the limits of logs and by what a txg may dirty, which
//! goes by memory. OpenZFS may have had more memory than there is here.

use crate::error::{ImportBlocker, PoolError, Result};
use crate::tunables::DEDUP_LOG_READ_MAX;

/// What an entry takes in the maps.
const ENTRY_BYTES: u64 = 192;
/// This part of the memory is for them.
const MEMORY_PART: u64 = 8;
/// However little memory there is.
const ENTRIES_MIN: usize = 1 << 16;

/// The entries of all tables' logs that may be read.
pub(in crate::blocks::dedup) struct Room {
    max: usize,
    left: usize,
}

impl Room {
    /// As many as the memory that this process may use has room for, a control group's limit included.
    pub(in crate::blocks::dedup) fn of_memory() -> Self {
        let entries = sys::system::memory_bytes() / MEMORY_PART / ENTRY_BYTES;
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        let max = entries.max(ENTRIES_MIN).min(DEDUP_LOG_READ_MAX.count());
        Self { max, left: max }
    }

    /// One more is in memory.
    pub(super) fn take(&mut self) -> Result<()> {
        let blocker = ImportBlocker::DedupLogs { max: self.max };
        let left = self.left.checked_sub(1);
        self.left = left.ok_or(PoolError::ReadOnlyPossible(blocker))?;
        Ok(())
    }
}
