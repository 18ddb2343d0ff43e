//! Pieces of a long free: how much of a range's end one transaction may free, so that the sync of its txg has a bounded
//! number of blocks to read, to kill and to list.
//!
//! Whoever frees much frees from the end: the last piece, in a transaction whose reservation has the piece's cost, then
//! what is the last piece by then. After a crash what is left is a range like any other.

use format::BlockPointer;
use format::dnode::LEVELS_MAX;

use super::Object;
use crate::pointer;
use crate::tree::{Reader, Tree, shift_left, shift_right};

/// What the reading of an indirect block counts for, in data blocks that die.
const INDIRECT_COST: u64 = 32;

/// The end of a range that one transaction frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreePiece {
    /// Where it begins: the range's own beginning, or that of a block.
    pub offset: u64,
    /// What freeing it costs, in blocks: see [`crate::Reservation::freed_blocks`].
    pub cost_blocks: u64,
}

impl Object {
    /// What freeing the object costs at most, as far as that is known without reading.
    #[must_use]
    pub fn free_cost_blocks(&self) -> u64 {
        let state = self.state.read();
        let blocks = state.header.max_block.saturating_add(1);
        if state.tree.levels <= 1 {
            return blocks;
        }
        let indirect = shift_right(blocks, state.tree.entries_shift()).saturating_add(1);
        blocks.saturating_add(indirect.saturating_mul(INDIRECT_COST))
    }

    /// The last piece of `offset..end` (`u64::MAX`: to the object's end) that costs `limit` blocks at most; of at least
    /// one block. Reads what lies above the lowest indirect blocks, and starts the reading of those.
    #[must_use]
    pub fn last_free_piece(&self, offset: u64, end: u64, limit: u64) -> FreePiece {
        const TRIES: u32 = 3;
        let mut tries = 0;
        loop {
            let (tree, generation, size, reach) = {
                let state = self.state.read();
                let reach = state.header.max_block.saturating_add(1);
                let size = state.header.block_size() as u64;
                (state.tree.clone(), state.generation, size, reach)
            };
            let end = end.min(reach.saturating_mul(size));
            if offset >= end {
                return FreePiece {
                    offset,
                    cost_blocks: 0,
                };
            }
            let mut survey = Survey {
                tree: &tree,
                reader: self.reader(),
                first: offset / size,
                start: (end - 1) / size,
                last: (end - 1) / size,
                cost: 0,
                limit: limit.max(1),
                failed: false,
            };
            survey.run();
            let (first, mut start, last, failed) =
                (survey.first, survey.start, survey.last, survey.failed);
            let mut cost = survey.cost;
            tries += 1;
            let state = self.state.read();
            // What could not be read may have been the earlier tree.
            if failed && state.generation != generation && tries < TRIES {
                continue;
            }
            for slot in state.slots.iter().flatten() {
                let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
                let mut count = 0;
                for (&block, _) in slot.blocks.range(start..=last).rev().take(limit) {
                    count += 1;
                    if count == limit {
                        start = block;
                    }
                }
                cost = cost.saturating_add(count as u64);
            }
            return FreePiece {
                offset: if start <= first { offset } else { start * size },
                cost_blocks: cost.max(1),
            };
        }
    }
}

/// A walk from the end of a range towards its beginning, up to a cost. Its depth is bounded by the levels of the tree.
struct Survey<'a> {
    tree: &'a Tree,
    reader: Reader<'a>,
    /// Data blocks: the range's first and last, and the first that is within the piece.
    first: u64,
    last: u64,
    start: u64,
    cost: u64,
    limit: u64,
    /// Something could not be read.
    failed: bool,
}

impl Survey<'_> {
    fn run(&mut self) {
        let level = self.tree.levels.clamp(1, LEVELS_MAX) - 1;
        let shift = self.tree.span_shift(level);
        let top = shift_right(self.last, shift);
        let count = u64::from(self.tree.pointer_count);
        let mut goes_on = true;
        for index in (shift_right(self.first, shift)..=top.min(count.saturating_sub(1))).rev() {
            let found = self.tree.pointers[index as usize];
            if !self.take(&found, level, index) {
                goes_on = false;
                break;
            }
        }
        if goes_on {
            self.start = self.first;
        }
    }

    /// Takes what lies under a pointer, as far as the limit allows; whether the walk goes on before it.
    fn take(&mut self, pointer: &BlockPointer, level: u8, index: u64) -> bool {
        let span = self.tree.span_shift(level);
        let begin = shift_left(index, span);
        let end = begin.saturating_add(shift_left(1, span) - 1).min(self.last);
        let begin = begin.max(self.first);
        if begin > end {
            return true;
        }
        if pointer.is_hole() {
            self.start = begin;
            return true;
        }
        if level <= 1 {
            return self.take_blocks(pointer, level, index, (begin, end));
        }
        let Ok(data) = self.tree.read_indirect(&self.reader, pointer, level, index) else {
            // Nothing below can be reached: there is no more to do than for one block.
            self.failed = true;
            return self.take_whole(INDIRECT_COST, begin);
        };
        let shift = self.tree.entries_shift();
        let base = shift_left(index, shift);
        let below = self.tree.span_shift(level - 1);
        let from = shift_right(begin, below).saturating_sub(base);
        let to = shift_right(end, below)
            .saturating_sub(base)
            .min((1 << shift) - 1);
        for entry in (from..=to).rev() {
            let child = pointer::get(&data, entry as usize);
            if !self.take(&child, level - 1, base + entry) {
                return false;
            }
        }
        true
    }

    /// Takes the data blocks under one of the lowest pointers.
    fn take_blocks(
        &mut self,
        pointer: &BlockPointer,
        level: u8,
        index: u64,
        (begin, end): (u64, u64),
    ) -> bool {
        if level == 0 {
            return self.take_whole(1, begin);
        }
        if !pointer.is_embedded() {
            let place = self.reader.place(level, index);
            self.reader.store.prefetch(&[(*pointer, place)]);
        }
        let blocks = pointer.fill().min(end - begin + 1);
        let cost = blocks.saturating_add(INDIRECT_COST);
        if self.cost == 0 && cost > self.limit {
            // One of which a part stays has to be read; of one that cannot be read, nothing below is freed.
            if self
                .tree
                .read_indirect(&self.reader, pointer, level, index)
                .is_err()
            {
                self.failed = true;
                return self.take_whole(INDIRECT_COST, begin);
            }
            let some = self.limit.saturating_sub(INDIRECT_COST).max(1);
            self.start = begin.max((end + 1).saturating_sub(some));
            self.cost = self.limit.max(INDIRECT_COST);
            return self.start == begin;
        }
        self.take_whole(cost, begin)
    }

    fn take_whole(&mut self, cost: u64, begin: u64) -> bool {
        if self.cost != 0 && self.cost.saturating_add(cost) > self.limit {
            return false;
        }
        self.cost = self.cost.saturating_add(cost);
        self.start = begin;
        true
    }
}

#[cfg(test)]
mod tests;
