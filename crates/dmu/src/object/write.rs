//! Writing an object's data. A block that its txg has already dirtied is changed in place; one that
//! an older txg still has to sync is copied first; one that is overwritten whole is not read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::BlockPointer;
use format::dnode::SECTORS_MAX;
use sys::{Buffer, BufferMut};

use super::Object;
use super::read::resized;
use super::state::{DirtyBlock, Newest, State};
use crate::error::Result;
use crate::meters::METERS;
use crate::tree::{Tree, shift_left};
use crate::tx::Tx;

/// Where a block was read that is going to be changed in part.
enum Origin {
    /// Through the tree of that generation.
    Tree(u64),
    /// Through the pointer of an unsynced txg.
    Pointer(Box<BlockPointer>),
}

/// What becomes of a block that is made dirty.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Something else, or so it is taken.
    Changed,
    /// What it is, written anew.
    Same,
}

impl Object {
    /// Reads into the cache what a write of this range will need, so that the transaction will
    /// not wait for a device, nor the sync meet what cannot be read. Called before [`Tx::assign`].
    ///
    /// # Errors
    /// A block that the write would keep a part of cannot be read, or an indirect block above the
    /// range.
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
        self.warm_tree(offset / size, end.saturating_sub(1) / size, &[])
    }

    /// Reads the indirect blocks that changes of the blocks `first..=last` will need, apart from
    /// what is freed whole in `freed`.
    pub(super) fn warm_tree(&self, first: u64, last: u64, freed: &[(u64, u64)]) -> Result<()> {
        loop {
            let state = self.state.read();
            if state.tree.is_empty() || state.tree.levels == 1 {
                return Ok(());
            }
            let (tree, generation) = (self.tree_of(&state), state.generation);
            drop(state);
            match self.warm_blocks(&tree, (first, last), freed) {
                Ok(()) => return Ok(()),
                Err(error) => self.unless_swapped(generation, error)?,
            }
        }
    }

    fn warm_blocks(&self, tree: &Tree, range: (u64, u64), freed: &[(u64, u64)]) -> Result<()> {
        let reader = self.reader();
        let step = shift_left(1, tree.span_shift(1));
        let last = range.1.min(tree.capacity().saturating_sub(1));
        let mut known = None;
        let mut block = range.0;
        while block <= last {
            tree.warm(&reader, block, freed, &mut known)?;
            block = (block / step).saturating_add(1).saturating_mul(step);
        }
        Ok(())
    }

    pub(super) fn warm(&self, block: u64) -> Result<()> {
        let newest = self.state.read().newest(block);
        match newest {
            Newest::OnDisk | Newest::Stored(..) => self.read_block(block).map(|_| ()),
            Newest::Dirty(_) | Newest::Sealed | Newest::Hole => Ok(()),
        }
    }

    /// Makes a block part of the transaction as it is: until its txg has synced it is in memory.
    ///
    /// # Errors
    /// As [`Object::modify_block`].
    pub fn hold_block(self: &Arc<Self>, tx: &Tx, block: u64) -> Result<()> {
        self.modify_block(tx, block, |_| ())
    }

    /// Makes the last block of a write that is longer than one part of the transaction, if something of it is kept.
    /// After that [`Object::write`] fails before it changes anything, or not at all.
    ///
    /// # Errors
    /// The block cannot be read; the object set is read-only.
    pub fn begin_write(self: &Arc<Self>, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        let size = u64::from(self.block_size());
        let end = offset.saturating_add(len);
        if end.is_multiple_of(size) || end / size == offset / size {
            return Ok(());
        }
        self.hold_block(tx, end / size)
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
        self.stage(tx)?;
        let mut state = self.state.write();
        let state = self.change(tx, &mut state)?;
        if data.len() != state.header.block_size() {
            return Err(self.unsuitable("a block of another size than the object's"));
        }
        self.store_dirty(tx, state, block, DirtyBlock::Data(data))
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
        self.modify(tx, block, Content::Changed, change)
    }

    /// Has a block written anew with the bytes that it has, and as old as it is: it keeps its logical birth. What this
    /// txg has changed already is written with that, and holes stay.
    ///
    /// # Errors
    /// The block cannot be read; the object set is read-only.
    pub fn write_anew(self: &Arc<Self>, tx: &Tx, block: u64) -> Result<()> {
        self.modify(tx, block, Content::Same, |_| ())
    }

    fn modify<R>(
        self: &Arc<Self>,
        tx: &Tx,
        block: u64,
        content: Content,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let mut read: Option<(Origin, Buffer)> = None;
        loop {
            self.stage(tx)?;
            let mut guard = self.state.write();
            let state = self.change(tx, &mut guard)?;
            let size = state.header.block_size();
            if content == Content::Same && !state.is_as_before(tx.txg(), block) {
                return Ok(change(&mut []));
            }
            if let Some(slot) = state.slot_mut(tx.txg())
                && let Some(DirtyBlock::Data(data)) = slot.blocks.get_mut(&block)
                && data.len() == size
            {
                return Ok(change(data.make_mut()));
            }
            let mut fresh = match state.newest(block) {
                Newest::Dirty(data) => {
                    METERS.blocks_copied.increment();
                    resized(&data, size)
                }
                Newest::Sealed => return Err(self.sealed()),
                Newest::Hole => BufferMut::zeroed(size),
                Newest::Stored(pointer, _) => match read.take() {
                    Some((Origin::Pointer(known), data)) if known == pointer => {
                        resized(&data, size)
                    }
                    _ => {
                        let (seen, generation) = (self.shared.store.now(), state.generation);
                        drop(guard);
                        match self.reader().read(&pointer, 0, block, seen) {
                            Ok(data) => read = Some((Origin::Pointer(pointer), data)),
                            Err(error) => self.unless_swapped(generation, error)?,
                        }
                        continue;
                    }
                },
                Newest::OnDisk => match read.take() {
                    Some((Origin::Tree(generation), data)) if generation == state.generation => {
                        resized(&data, size)
                    }
                    _ => {
                        let (tree, generation) = (self.tree_of(state), state.generation);
                        drop(guard);
                        match self.read_synced(&tree, block) {
                            Ok(data) => read = Some((Origin::Tree(generation), data)),
                            Err(error) => self.unless_swapped(generation, error)?,
                        }
                        continue;
                    }
                },
            };
            let result = change(&mut fresh);
            let dirty = DirtyBlock::Data(fresh.freeze());
            self.store_dirty(tx, state, block, dirty.clone())?;
            if content == Content::Same
                && let Some(slot) = state.slot_mut(tx.txg())
            {
                slot.anew.insert(block, dirty);
            }
            return Ok(result);
        }
    }

    /// Makes `dirty` the contents of `block` in the transaction's txg. Room on the devices is asked for a reference as
    /// for its bytes: if the sync does not refer to the stored block, it writes another, and cannot fail for that.
    pub(super) fn store_dirty(
        &self,
        tx: &Tx,
        state: &mut State,
        block: u64,
        dirty: DirtyBlock,
    ) -> Result<()> {
        if block > state.header.max_block {
            if state.header.max_block == 0 && !state.header.block_size().is_power_of_two() {
                return Err(self.unsuitable("a second block needs a power-of-two block size"));
            }
            state.header_mut(tx.txg()).max_block = block;
        }
        let size = state.header.block_size() as u64;
        let memory = dirty.memory();
        let (is_data, len) = match &dirty {
            DirtyBlock::Data(data) => (true, data.len() as u64),
            DirtyBlock::Sealed(block) => (true, block.stored.len() as u64),
            DirtyBlock::Stored(_) => (false, size),
            DirtyBlock::Redacted => (false, 0),
        };
        let Some(slot) = state.slot_mut(tx.txg()) else {
            return Ok(());
        };
        match (slot.blocks.insert(block, dirty), is_data) {
            (None, _) => {
                tx.dirtied(memory);
                self.note_written(tx, state, block, len);
            }
            // What was a pointer is in memory now.
            (Some(DirtyBlock::Stored(_) | DirtyBlock::Redacted), true) => tx.dirtied(memory),
            (Some(DirtyBlock::Stored(_) | DirtyBlock::Redacted), false)
            | (Some(DirtyBlock::Data(_) | DirtyBlock::Sealed(_)), _) => {}
        }
        Ok(())
    }

    /// Notes which blocks are written because this one has become dirty: itself, and the indirect blocks above it that
    /// no other dirty block has above it.
    fn note_written(&self, tx: &Tx, state: &State, block: u64, len: u64) {
        const POINTER: u64 = 128;
        let is_meta = state.header.object_type.is_metadata();
        tx.writes(len, is_meta);
        let Some(slot) = state.slot(tx.txg()).filter(|_| state.header.max_block > 0) else {
            return;
        };
        let shift = u32::from(state.header.indirect_shift.clamp(10, 24));
        let (size, mut entries) = (1_u64 << shift, (1_u64 << shift) / POINTER);
        for level in 1..=u64::from(state.tree.levels.max(2)) {
            let first = block - block % entries;
            let last = first.saturating_add(entries - 1);
            let mut beside = slot.blocks.range(first..=last).take(2);
            if beside.any(|(&other, _)| other != block) {
                return;
            }
            let below = entries / ((1_u64 << shift) / POINTER);
            let there = (state.header.max_block / below).saturating_add(1);
            // A dnode that nobody can have written may have any last block.
            let bytes = there.saturating_mul(POINTER).min(size);
            tx.writes(bytes.next_multiple_of(512), true);
            if level > 1 && last >= state.header.max_block {
                return;
            }
            entries = entries.saturating_mul(size / POINTER);
        }
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
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        if state.header.max_block != 0 {
            return Err(self.unsuitable("the block size is fixed once there are two blocks"));
        }
        if indirect_shift != 0 && state.tree.levels == 1 {
            state.header_mut(tx.txg()).indirect_shift = indirect_shift.clamp(12, 17);
        }
        if state.header.block_sectors == sectors {
            return Ok(());
        }
        state.header_mut(tx.txg()).block_sectors = sectors;
        let size = usize::from(sectors) * 512;
        // The copy read above may be older than what another writer has made of the block.
        let newest = match state.newest(0) {
            Newest::Dirty(data) => Some(data),
            Newest::Hole => None,
            Newest::Stored(..) | Newest::Sealed | Newest::OnDisk => kept,
        };
        if let Some(data) = newest {
            let data = resized(&data, size).freeze();
            self.store_dirty(tx, state, 0, DirtyBlock::Data(data))?;
        }
        self.block_size
            .store(u32::from(sectors) * 512, Ordering::Relaxed);
        Ok(())
    }
}
