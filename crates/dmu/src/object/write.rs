//! Writing an object's data. A block that its txg has already dirtied is changed in place; one that
//! an older txg still has to sync is copied first; one that is overwritten whole is not read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::dnode::SECTORS_MAX;
use sys::{Buffer, BufferMut};

use super::Object;
use super::read::resized;
use super::state::{Newest, State};
use crate::error::Result;
use crate::meters::METERS;
use crate::tx::Tx;

impl Object {
    /// Reads into the cache what a write of this range will need, so that the transaction will
    /// not wait for a device. Called before [`Tx::assign`].
    ///
    /// # Errors
    /// A block that the write would keep a part of cannot be read.
    pub fn prepare_write(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let size = u64::from(self.block_size());
        let end = offset.saturating_add(len);
        if !offset.is_multiple_of(size) || (len < size && !end.is_multiple_of(size)) {
            self.warm(offset / size)?;
        }
        if !end.is_multiple_of(size) && end / size != offset / size {
            self.warm(end / size)?;
        }
        Ok(())
    }

    fn warm(&self, block: u64) -> Result<()> {
        if matches!(self.state.read().newest(block), Newest::OnDisk) {
            self.read_block(block)?;
        }
        Ok(())
    }

    /// Writes `data` at `offset`. The block size is the caller's to set before.
    ///
    /// # Errors
    /// A block of which a part is kept cannot be read; the object set is read-only.
    pub fn write(self: &Arc<Self>, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        let mut offset = offset;
        let mut data = data;
        while !data.is_empty() {
            let size = self.block_size() as usize;
            let (block, within) = (offset / size as u64, (offset % size as u64) as usize);
            let (piece, rest) = data.split_at(data.len().min(size - within));
            if piece.len() == size {
                self.write_block(tx, block, Buffer::from_slice(piece))?;
            } else {
                self.modify_block(tx, block, |bytes| {
                    if let Some(target) = bytes.get_mut(within..within + piece.len()) {
                        target.copy_from_slice(piece);
                    }
                })?;
            }
            offset = offset.saturating_add(piece.len() as u64);
            data = rest;
        }
        Ok(())
    }

    /// Replaces a whole block by `data`, without copying it.
    ///
    /// # Errors
    /// `data` has not the object's block size; the object set is read-only.
    pub fn write_block(self: &Arc<Self>, tx: &Tx, block: u64, data: Buffer) -> Result<()> {
        let mut state = self.state.write();
        let state = self.change(tx, &mut state)?;
        if data.len() != state.face.block_size() {
            return Err(self.unsuitable("a block of another size than the object's"));
        }
        self.store_dirty(tx, state, block, data)
    }

    /// Changes a block in place: `change` sees its contents and leaves what shall be written.
    ///
    /// # Errors
    /// The block cannot be read; the object set is read-only.
    pub fn modify_block<R>(
        self: &Arc<Self>,
        tx: &Tx,
        block: u64,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let mut read: Option<(u64, Buffer)> = None;
        loop {
            let mut guard = self.state.write();
            let state = self.change(tx, &mut guard)?;
            let size = state.face.block_size();
            if let Some(slot) = state.slot_mut(tx.txg())
                && let Some(data) = slot.blocks.get_mut(&block)
                && data.len() == size
            {
                return Ok(change(data.make_mut()));
            }
            let mut fresh = match state.newest(block) {
                Newest::Dirty(data) => {
                    METERS.blocks_copied.increment();
                    resized(&data, size)
                }
                Newest::Hole => BufferMut::zeroed(size),
                Newest::OnDisk => match read.take() {
                    Some((generation, data)) if generation == state.generation => {
                        resized(&data, size)
                    }
                    _ => {
                        let (tree, generation) = (state.tree.clone(), state.generation);
                        drop(guard);
                        match self.read_synced(&tree, block) {
                            Ok(data) => read = Some((generation, data)),
                            Err(error) => self.unless_swapped(generation, error)?,
                        }
                        continue;
                    }
                },
            };
            let result = change(&mut fresh);
            self.store_dirty(tx, state, block, fresh.freeze())?;
            return Ok(result);
        }
    }

    /// Makes `data` the contents of `block` in the transaction's txg.
    fn store_dirty(&self, tx: &Tx, state: &mut State, block: u64, data: Buffer) -> Result<()> {
        if block > state.face.max_block {
            if state.face.max_block == 0 && !state.face.block_size().is_power_of_two() {
                return Err(self.unsuitable("a second block needs a power-of-two block size"));
            }
            state.face_mut(tx.txg()).max_block = block;
        }
        let len = data.len() as u64;
        if let Some(slot) = state.slot_mut(tx.txg())
            && slot.blocks.insert(block, data).is_none()
        {
            tx.dirtied(len);
        }
        Ok(())
    }

    /// Changes the size of the only data block, and the indirect block size (0 = keep it). The
    /// contents are kept as far as they fit.
    ///
    /// # Errors
    /// The object has more than one block, or the size is none that a dnode can state.
    pub fn set_block_size(self: &Arc<Self>, tx: &Tx, bytes: u32, indirect_shift: u8) -> Result<()> {
        let sectors = bytes.div_ceil(512).max(1);
        let Some(sectors) = u16::try_from(sectors)
            .ok()
            .filter(|&count| count <= SECTORS_MAX)
        else {
            return Err(self.unsuitable("no such block size"));
        };
        let kept = {
            let state = self.state.read();
            let has_contents = !matches!(state.newest(0), Newest::Hole);
            drop(state);
            if has_contents {
                Some(self.read_block(0)?)
            } else {
                None
            }
        };
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        if state.face.max_block != 0 {
            return Err(self.unsuitable("the block size is fixed once there are two blocks"));
        }
        if indirect_shift != 0 && state.tree.levels == 1 {
            state.face_mut(tx.txg()).indirect_shift = indirect_shift.clamp(12, 17);
        }
        if state.face.block_sectors == sectors {
            return Ok(());
        }
        state.face_mut(tx.txg()).block_sectors = sectors;
        let size = usize::from(sectors) * 512;
        // The copy read above may be older than what another writer has made of the block.
        let newest = match state.newest(0) {
            Newest::Dirty(data) => Some(data),
            Newest::Hole => None,
            Newest::OnDisk => kept,
        };
        if let Some(data) = newest {
            self.store_dirty(tx, state, 0, resized(&data, size).freeze())?;
        }
        self.block_size
            .store(u32::from(sectors) * 512, Ordering::Relaxed);
        Ok(())
    }
}
