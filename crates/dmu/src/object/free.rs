//! Freeing ranges of an object. Whole blocks are only noted here; the sync walks and frees them.

use std::sync::Arc;

use super::Object;
use super::state::{Newest, SpillChange};
use crate::error::Result;
use crate::tx::Tx;

/// A range of bytes, in blocks.
struct Cut {
    /// Bytes of a block.
    size: u64,
    offset: u64,
    /// Where it ends, at the latest at the end of the last block.
    end: u64,
    /// The first block that goes whole, if it is before `past_whole`.
    first_whole: u64,
    past_whole: u64,
    /// It has everything from `offset` on.
    to_the_end: bool,
}

impl Cut {
    /// The blocks of which a part stays.
    fn partial(&self) -> impl Iterator<Item = u64> {
        let head = (!self.offset.is_multiple_of(self.size)).then_some(self.offset / self.size);
        let ends_within =
            !self.end.is_multiple_of(self.size) && self.past_whole >= self.first_whole;
        head.into_iter()
            .chain(ends_within.then_some(self.past_whole))
    }
}

impl Object {
    /// Reads into the cache what freeing this range will need: the blocks of which a part stays. A whole tree that goes
    /// is not read, however large it is; what of it cannot be read then leaks. Called before [`Tx::assign`].
    ///
    /// # Errors
    /// A block of which a part is kept, or an indirect block above the ends of the range, cannot be read.
    pub fn prepare_free(&self, offset: u64, len: u64) -> Result<()> {
        let Some(cut) = self.cut(offset, len) else {
            return Ok(());
        };
        for block in cut.partial() {
            self.warm(block)?;
            self.warm_tree(block, block, &[])?;
        }
        if cut.first_whole < cut.past_whole {
            let last = if cut.to_the_end {
                u64::MAX
            } else {
                cut.past_whole - 1
            };
            let freed = [(cut.first_whole, last)];
            self.warm_tree(cut.first_whole, cut.first_whole, &freed)?;
            self.warm_tree(cut.past_whole - 1, cut.past_whole - 1, &freed)?;
        }
        Ok(())
    }

    /// Which blocks a range of bytes takes, as far as the object has any.
    fn cut(&self, offset: u64, len: u64) -> Option<Cut> {
        let (size, last) = {
            let state = self.state.read();
            (state.header.block_size() as u64, state.header.max_block)
        };
        let length = last.saturating_add(1).saturating_mul(size);
        if len == 0 || offset >= length {
            return None;
        }
        let end = offset.saturating_add(len);
        Some(Cut {
            size,
            offset,
            end: end.min(length),
            first_whole: offset.div_ceil(size),
            past_whole: end.min(length) / size,
            to_the_end: end >= length,
        })
    }

    /// Frees `len` bytes at `offset` (`u64::MAX`: to the end): whole blocks become holes, parts of
    /// blocks zeros. Freeing the end lowers the highest block id.
    ///
    /// # Errors
    /// As [`Object::prepare_free`], and then nothing has changed; the object set is read-only.
    pub fn free_range(self: &Arc<Self>, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        self.prepare_free(offset, len)?;
        let Some(cut) = self.cut(offset, len) else {
            return Ok(());
        };
        let Cut {
            size,
            end,
            first_whole,
            past_whole,
            to_the_end,
            ..
        } = cut;
        if !offset.is_multiple_of(size) {
            let stop = end.min(first_whole.saturating_mul(size)) - (offset / size) * size;
            self.zero(tx, offset / size, (offset % size) as usize, stop as usize)?;
        }
        if first_whole < past_whole {
            self.free_blocks(tx, first_whole, past_whole - 1, to_the_end)?;
        }
        if end % size != 0 && past_whole >= first_whole {
            self.zero(tx, past_whole, 0, (end % size) as usize)?;
        }
        Ok(())
    }

    /// Makes the block that lies on both sides of `offset`, if there is one, one that the transaction writes. After
    /// that [`Object::free_range`] to or from there has nothing to read, and so cannot fail.
    ///
    /// # Errors
    /// The block cannot be read; the object set is read-only. Nothing has changed then.
    pub fn begin_free(self: &Arc<Self>, tx: &Tx, offset: u64) -> Result<()> {
        let size = u64::from(self.block_size());
        if offset.is_multiple_of(size)
            || matches!(self.state.read().newest(offset / size), Newest::Hole)
        {
            return Ok(());
        }
        self.hold_block(tx, offset / size)
    }

    /// Zeroes bytes `from..to` of a block, if it is not a hole anyway.
    fn zero(self: &Arc<Self>, tx: &Tx, block: u64, from: usize, to: usize) -> Result<()> {
        if matches!(self.state.read().newest(block), Newest::Hole) {
            return Ok(());
        }
        self.modify_block(tx, block, |bytes| {
            let to = to.min(bytes.len());
            if let Some(part) = bytes.get_mut(from..to) {
                part.fill(0);
            }
        })
    }

    /// Frees the object: its blocks die and its slots are cleared when the txg syncs.
    pub(crate) fn free(self: &Arc<Self>, tx: &Tx) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        state.header_mut(tx.txg()).allocated = false;
        let mut dead = None;
        if let Some(slot) = state.slot_mut(tx.txg()) {
            dead = Some(std::mem::take(&mut slot.blocks));
            slot.freed.insert(0, u64::MAX);
            slot.spill = Some(SpillChange::Remove);
        }
        drop(guard);
        drop(dead);
        Ok(())
    }

    fn free_blocks(self: &Arc<Self>, tx: &Tx, first: u64, last: u64, tail: bool) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let last = if tail { u64::MAX } else { last };
        if tail && state.header.max_block >= first {
            state.header_mut(tx.txg()).max_block = first.saturating_sub(1);
        }
        let mut dead = Vec::new();
        if let Some(slot) = state.slot_mut(tx.txg()) {
            let mut above = slot.blocks.split_off(&first);
            if last != u64::MAX {
                slot.blocks.append(&mut above.split_off(&(last + 1)));
            }
            dead.push(above);
            slot.freed.insert(first, last);
        }
        drop(guard);
        drop(dead);
        Ok(())
    }
}
