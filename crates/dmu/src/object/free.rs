//! Freeing ranges of an object. Whole blocks are only noted here; the sync walks and frees them.

use std::sync::Arc;

use super::Object;
use super::state::{Newest, SpillChange};
use crate::error::Result;
use crate::tx::Tx;

impl Object {
    /// Frees `len` bytes at `offset` (`u64::MAX`: to the end): whole blocks become holes, parts of
    /// blocks zeros. Freeing the end lowers the highest block id.
    ///
    /// # Errors
    /// A block of which a part is kept cannot be read; the object set is read-only.
    pub fn free_range(self: &Arc<Self>, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (size, last) = {
            let state = self.state.read();
            (state.face.block_size() as u64, state.face.max_block)
        };
        let length = last.saturating_add(1).saturating_mul(size);
        if offset >= length {
            return Ok(());
        }
        let end = offset.saturating_add(len);
        let to_the_end = end >= length;
        let end = end.min(length);
        let first_whole = offset.div_ceil(size);
        let past_whole = end / size;
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
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        state.face_mut(tx.txg()).allocated = false;
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
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let last = if tail { u64::MAX } else { last };
        if tail && state.face.max_block >= first {
            state.face_mut(tx.txg()).max_block = first.saturating_sub(1);
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
