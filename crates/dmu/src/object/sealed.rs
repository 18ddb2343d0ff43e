//! Contents of an object as another pool stores them, sealed with a key that nobody is asked for: for receiving them.
//! They are written as they are, and cannot be read here before their key is loaded. And blocks that were left out on
//! purpose, which nobody can read.

use std::sync::Arc;

use format::ObjectType;

use super::Object;
use super::state::{DirtyBlock, SpillChange};
use crate::error::{DmuError, Result};
use crate::store::SealedBlock;
use crate::tx::Tx;

impl Object {
    /// Why what is sealed is not read.
    pub(super) fn sealed(&self) -> DmuError {
        self.unsuitable(
            "a block that was sealed elsewhere, or left out, cannot be read before it is stored",
        )
    }

    /// Replaces a whole block by one that was sealed elsewhere.
    ///
    /// # Errors
    /// Its contents have not the object's block size; the object set is read-only.
    pub fn write_sealed(self: &Arc<Self>, tx: &Tx, block: u64, sealed: SealedBlock) -> Result<()> {
        self.stage(tx)?;
        let mut state = self.state.write();
        let state = self.change(tx, &mut state)?;
        if sealed.form.lsize != state.header.block_size() as u64 {
            return Err(self.unsuitable("a block of another size than the object's"));
        }
        self.store_dirty(tx, state, block, DirtyBlock::Sealed(Box::new(sealed)))
    }

    /// Leaves blocks out: their places have no bytes, and say so to who reads them.
    ///
    /// # Errors
    /// The object cannot have that many blocks; the object set is read-only.
    pub fn redact(self: &Arc<Self>, tx: &Tx, first: u64, count: u64) -> Result<()> {
        self.stage(tx)?;
        let mut state = self.state.write();
        let state = self.change(tx, &mut state)?;
        for block in first..first.saturating_add(count) {
            self.store_dirty(tx, state, block, DirtyBlock::Redacted)?;
        }
        Ok(())
    }

    /// Replaces the spill block by one that was sealed elsewhere.
    ///
    /// # Errors
    /// The bonus leaves no room for its pointer; the object set is read-only.
    pub fn set_sealed_spill(self: &Arc<Self>, tx: &Tx, sealed: SealedBlock) -> Result<()> {
        let bytes = sealed.stored.len() as u64;
        tx.dirtied(bytes);
        tx.writes(bytes, true);
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let bonus = usize::from(state.header.bonus_len);
        if bonus > state.header.bonus_capacity(true) {
            return Err(self.unsuitable("the bonus leaves no room for a spill pointer"));
        }
        if let Some(slot) = state.slot_mut(tx.txg()) {
            slot.spill = Some(SpillChange::Sealed(Box::new(sealed)));
        }
        Ok(())
    }

    /// Replaces the bonus by all bytes that there is room for, of which `len` are valid: as ciphertext, all of them are
    /// needed.
    ///
    /// # Errors
    /// There is no room for them; the object set is read-only.
    pub fn set_sealed_bonus(
        self: &Arc<Self>,
        tx: &Tx,
        kind: ObjectType,
        len: u16,
        bytes: &[u8],
    ) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let capacity = state.header.bonus_capacity(false);
        if bytes.len() > capacity || usize::from(len) > capacity {
            return Err(self.unsuitable("the bonus does not fit the dnode"));
        }
        let header = state.header_mut(tx.txg());
        header.bonus_type = kind;
        header.bonus_len = len;
        let whole = header.bonus.bytes_mut();
        let (valid, rest) = whole.split_at_mut(bytes.len());
        valid.copy_from_slice(bytes);
        rest.fill(0);
        Ok(())
    }

    /// Gives the object a last block, where it has none so far out, and so many levels at least: they are part of what
    /// its codes prove.
    ///
    /// # Errors
    /// The object set is read-only.
    pub fn raise(self: &Arc<Self>, tx: &Tx, levels: u8, max_block: u64) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        if max_block != 0 && !state.header.block_size().is_power_of_two() {
            return Err(self.unsuitable("a second block needs a power-of-two block size"));
        }
        let header = state.header_mut(tx.txg());
        header.max_block = header.max_block.max(max_block);
        header.levels_min = header.levels_min.max(levels);
        Ok(())
    }
}
