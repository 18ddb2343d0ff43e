//! Blocks that are not to be kept: they are here while they are read, in parts or by several, and between being read
//! ahead and being asked for.
//!
//! Invariants: over all shards together they take a bounded number of bytes, but for the newest few, whatever these
//! weigh, so that who needs several at once gets on; the oldest leave first, [`Stay::InUse`] unless it was used since
//! its turn came last. Nobody waits for a device here.

use std::collections::VecDeque;

use super::{BlockKey, Cache, Stay};
use crate::tunables;

/// So many of the newest stay, however large.
const NEWEST_MIN: usize = 4;

/// In the order in which they came. One that has left since is still counted until its turn comes.
#[derive(Debug, Default)]
pub(super) struct BriefStays {
    order: VecDeque<(BlockKey, usize, Stay)>,
    bytes: usize,
    begun: u64,
}

impl BriefStays {
    fn push(&mut self, stay: (BlockKey, usize, Stay)) {
        self.bytes = self.bytes.saturating_add(stay.1);
        self.order.push_back(stay);
    }

    /// The oldest, if all of them are more than may stay.
    fn pop_beyond(&mut self, bytes_max: usize) -> Option<(BlockKey, usize, Stay)> {
        if self.bytes <= bytes_max || self.order.len() <= NEWEST_MIN {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.1);
        Some(oldest)
    }

    /// How many there ever were.
    pub(super) const fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn forget_all(&mut self) {
        self.order.clear();
        self.bytes = 0;
    }
}

impl<V: Clone> Cache<V> {
    /// A block is here that is not to be kept. The caller holds no lock of a shard.
    pub(super) fn begin_brief_stay(&self, key: BlockKey, bytes: usize, stay: Stay) {
        let share = self.limit_bytes() / tunables::BRIEF_SHARE.get();
        let bytes_max = share.min(tunables::BRIEF_BYTES_MAX.get());
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let mut stays = self.brief.lock();
        stays.begun += 1;
        stays.push((key, bytes, stay));
        // Each gets one more round at most, or those that are used all the time would never leave.
        let mut rounds = stays.order.len();
        while let Some(oldest) = stays.pop_beyond(bytes_max) {
            let mut locked = self.slot(&oldest.0).locked.lock();
            let is_used = oldest.2 == Stay::InUse && locked.blocks.take_uses(&oldest.0);
            if is_used && rounds > 0 {
                stays.push(oldest);
            } else {
                locked.blocks.end_brief_stay(&oldest.0);
            }
            rounds = rounds.saturating_sub(1);
        }
    }

    /// A block was read to its end: it goes, if it is one that is not to be kept.
    pub fn end_brief_stay(&self, key: &BlockKey) {
        if self.index.contains(key) {
            self.slot(key).locked.lock().blocks.end_brief_stay(key);
        }
    }
}

#[cfg(test)]
mod tests;
