//! The bonus and the spill block, and the dnode's other settable fields.

use base::Bookmark;
use std::sync::Arc;

use format::ObjectType;
use sys::{Buffer, BufferMut};

use super::Object;
use super::state::SpillChange;
use crate::error::{DmuError, Result};
use crate::tx::Tx;

/// The largest spill block.
const SPILL_MAX: usize = 128 * 1024;

impl Object {
    /// Calls `look` with the valid bonus bytes; it must not come back to the object.
    pub fn with_bonus<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(self.state.read().header.bonus_bytes())
    }

    /// The valid bonus bytes.
    #[must_use]
    pub fn bonus(&self) -> Vec<u8> {
        self.with_bonus(<[u8]>::to_vec)
    }

    /// Changes bonus bytes in place; `change` must not come back to the object.
    ///
    /// # Errors
    /// The object was freed or its object set is read-only.
    pub fn modify_bonus<R>(
        self: &Arc<Self>,
        tx: &Tx,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let header = state.header_mut(tx.txg());
        let len = usize::from(header.bonus_len);
        let bytes = header.bonus.bytes_mut();
        let len = len.min(bytes.len());
        Ok(change(&mut bytes[..len]))
    }

    /// Replaces the bonus: its type, length and bytes.
    ///
    /// # Errors
    /// The bytes do not fit beside the spill pointer, if there is one; the object was freed or its
    /// object set is read-only.
    pub fn set_bonus(self: &Arc<Self>, tx: &Tx, kind: ObjectType, bytes: &[u8]) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let capacity = state.header.bonus_capacity(state.has_spill());
        let Some(len) = u16::try_from(bytes.len())
            .ok()
            .filter(|_| bytes.len() <= capacity)
        else {
            return Err(self.unsuitable("the bonus does not fit the dnode"));
        };
        let header = state.header_mut(tx.txg());
        header.bonus_type = kind;
        header.bonus_len = len;
        let whole = header.bonus.bytes_mut();
        whole[..bytes.len()].copy_from_slice(bytes);
        whole[bytes.len()..].fill(0);
        Ok(())
    }

    /// The spill block's bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn spill(&self) -> Result<Option<Buffer>> {
        loop {
            let state = self.state.read();
            for slot in state.newest_first() {
                match &slot.spill {
                    Some(SpillChange::Set(data)) => return Ok(Some(data.clone())),
                    Some(SpillChange::Sealed(_)) => return Err(self.sealed()),
                    Some(SpillChange::Remove) => return Ok(None),
                    None => {}
                }
            }
            let (pointer, generation) = (state.footprint.spill, state.generation);
            let seen = self.shared.store.now();
            drop(state);
            let Some(pointer) = pointer else {
                return Ok(None);
            };
            let place = Bookmark::spill(self.shared.id, self.id);
            match self.shared.store.read_seen(&pointer, place, seen) {
                Ok(data) => return Ok(Some(data)),
                Err(source) => {
                    self.unless_swapped(generation, DmuError::Read { place, source })?;
                }
            }
        }
    }

    /// Replaces the spill block (its size is rounded up to sectors), or removes it. Its pointer
    /// takes room from the bonus: who moves attributes there shrinks the bonus first.
    ///
    /// # Errors
    /// More bytes than a spill block holds; the bonus leaves no room for its pointer; the object was freed or its
    /// object set is read-only.
    pub fn set_spill(self: &Arc<Self>, tx: &Tx, bytes: Option<&[u8]>) -> Result<()> {
        let change = match bytes {
            None => SpillChange::Remove,
            Some(bytes) if bytes.len() > SPILL_MAX => {
                return Err(self.unsuitable("more than a spill block holds"));
            }
            Some(bytes) => {
                let mut data = BufferMut::zeroed(bytes.len().max(1).next_multiple_of(512));
                data[..bytes.len()].copy_from_slice(bytes);
                tx.dirtied(data.len() as u64);
                tx.writes(data.len() as u64, true);
                SpillChange::Set(data.freeze())
            }
        };
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let bonus = usize::from(state.header.bonus_len);
        if matches!(change, SpillChange::Set(_)) && bonus > state.header.bonus_capacity(true) {
            return Err(self.unsuitable("the bonus leaves no room for a spill pointer"));
        }
        if let Some(slot) = state.slot_mut(tx.txg()) {
            slot.spill = Some(change);
        }
        Ok(())
    }

    /// Overrides checksum and compression of level-0 data; 0 = inherit.
    ///
    /// # Errors
    /// The object was freed or its object set is read-only.
    pub fn set_overrides(self: &Arc<Self>, tx: &Tx, checksum: u8, compress: u8) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let header = state.header_mut(tx.txg());
        header.checksum = checksum;
        header.compress = compress;
        Ok(())
    }

    /// Changes the object's type, as when a directory of the pool becomes a ZAP.
    ///
    /// # Errors
    /// The object was freed or its object set is read-only.
    pub fn set_type(self: &Arc<Self>, tx: &Tx, object_type: ObjectType) -> Result<()> {
        self.stage(tx)?;
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        state.header_mut(tx.txg()).object_type = object_type;
        Ok(())
    }
}
