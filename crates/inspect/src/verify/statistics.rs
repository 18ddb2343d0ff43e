//! Counts and sizes of blocks, by type and level.

use std::collections::BTreeMap;

use format::block_pointer::BlockPointer;

/// Sums over some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) blocks: u64,
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) allocated: u64,
    /// Copies that are behind gang headers.
    pub(crate) gangs: u64,
    /// Blocks with several copies on one vdev.
    pub(crate) close_copies: u64,
}

impl Totals {
    fn count(&mut self, block: &BlockPointer) {
        self.blocks += 1;
        self.logical += block.lsize();
        self.physical += block.psize();
        self.allocated += block.asize();
        self.gangs += block.dvas().filter(|dva| dva.gang).count() as u64;
        let vdev = |index| block.dva(index).map(|dva| dva.vdev);
        let (first, second, third) = (vdev(0), vdev(1), vdev(2));
        let close = second.is_some() && (first == second || third == second || third == first);
        self.close_copies += u64::from(close);
    }

    fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.logical += other.logical;
        self.physical += other.physical;
        self.allocated += other.allocated;
        self.gangs += other.gangs;
        self.close_copies += other.close_copies;
    }
}

/// Counts and sizes of blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// By object type and level.
    pub(crate) by_kind: BTreeMap<(u8, u8), Totals>,
    /// Blocks in their pointers, by type.
    pub(crate) embedded: BTreeMap<u8, u64>,
    /// Blocks about to be freed.
    pub(crate) pending: Totals,
    /// References to deduplicated blocks beyond the first.
    pub(crate) dedup_again: Totals,
    /// All references to deduplicated blocks.
    pub(crate) dedup: Totals,
    /// References to cloned blocks beyond the first.
    pub(crate) cloned_again: Totals,
}

impl Statistics {
    pub(crate) fn count(&mut self, block: &BlockPointer) {
        self.by_kind
            .entry((block.object_type().0, block.level()))
            .or_default()
            .count(block);
        if block.is_dedup() {
            self.dedup.count(block);
        }
    }

    pub(crate) fn count_pending(&mut self, block: &BlockPointer) {
        self.pending.count(block);
    }

    pub(crate) fn count_embedded(&mut self, block: &BlockPointer) {
        // It counts as a block of its logical size that takes no space.
        let totals = self.by_kind.entry((block.object_type().0, 0)).or_default();
        totals.blocks += 1;
        totals.logical += block.lsize();
        *self.embedded.entry(block.object_type().0).or_default() += 1;
    }

    /// Notes that a block that was counted is a further reference to one counted before.
    pub(crate) fn count_shared(&mut self, block: &BlockPointer) {
        if block.is_dedup() {
            self.dedup_again.count(block);
        } else {
            self.cloned_again.count(block);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (kind, totals) in &other.by_kind {
            self.by_kind.entry(*kind).or_default().merge(totals);
        }
        for (kind, count) in &other.embedded {
            *self.embedded.entry(*kind).or_default() += count;
        }
        self.pending.merge(&other.pending);
        self.dedup.merge(&other.dedup);
        self.dedup_again.merge(&other.dedup_again);
        self.cloned_again.merge(&other.cloned_again);
    }

    pub(crate) fn total(&self) -> Totals {
        Self::sum(self.by_kind.values().chain([&self.pending]))
    }

    pub(crate) fn sum<'a>(parts: impl Iterator<Item = &'a Totals>) -> Totals {
        let mut sum = Totals::default();
        parts.for_each(|totals| sum.merge(totals));
        sum
    }
}
