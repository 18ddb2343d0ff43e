//! How much one txg does of work that has no bound of its own.

use crate::tunables;
use base::clock::Clock;

/// What is left of a txg's share, in blocks and in time.
pub(super) struct Slice<'a> {
    clock: &'a dyn Clock,
    blocks: u64,
    until_ns: u64,
}

impl<'a> Slice<'a> {
    /// A share of `blocks` blocks that ends `time_ms` from now.
    pub(super) fn new(clock: &'a dyn Clock, blocks: u64, time_ms: u64) -> Self {
        let until_ns = clock
            .now()
            .saturating_add(time_ms.saturating_mul(1_000_000));
        Self {
            clock,
            blocks: blocks.max(1),
            until_ns,
        }
    }

    /// Blocks that may be done before asking again; none when the share is used up.
    pub(super) fn next(&self) -> u64 {
        if self.clock.now() >= self.until_ns {
            return 0;
        }
        self.blocks.min(tunables::BACKGROUND_STRIDE.get())
    }

    /// So many were done.
    pub(super) const fn done(&mut self, blocks: u64) {
        self.blocks = self.blocks.saturating_sub(blocks);
    }
}
