//! Writing a dirty block before its txg syncs: the intent log refers to it, and the sync takes it
//! over if nothing has changed it since.

use std::sync::Arc;

use base::{Bookmark, Txg};
use format::BlockPointer;

use super::Object;
use super::read::fit;
use super::state::DirtyBlock;
use crate::error::{DmuError, Result};
use crate::store::{BlockKind, BlockWrite, BlockWriter};

/// What became of an early write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// The block is on its way to the device.
    Written(BlockPointer),
    /// It was written early before, and is still the same.
    Unchanged,
    /// The txg has no such dirty block: it has synced, or the block was freed.
    Clean,
}

impl Object {
    /// Writes `block` as `txg` has it so far. `writer` allocates in that txg, which the caller
    /// holds open. The block is the caller's: [`Object::takes_early`] tells, when the txg has
    /// closed, whether the object takes it over.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_early(&self, txg: Txg, block: u64, writer: &dyn BlockWriter) -> Result<Early> {
        let (dirty, kind, size, seen) = {
            let state = self.state.read();
            let Some(slot) = state.slot(txg) else {
                return Ok(Early::Clean);
            };
            let Some(dirty) = slot.blocks.get(&block) else {
                return Ok(Early::Clean);
            };
            if slot.early_pointer(block).is_some() {
                return Ok(Early::Unchanged);
            }
            let size = state.header.block_size();
            let seen = self.shared.store.now();
            (dirty.clone(), self.data_kind(&state.header), size, seen)
        };
        let data = match &dirty {
            DirtyBlock::Data(data) => data.clone(),
            // From here on it is a block of its own: the room that was promised to it is taken now.
            DirtyBlock::Stored(pointer) => fit(self.reader().read(pointer, 0, block, seen)?, size),
            DirtyBlock::Sealed(_) | DirtyBlock::Redacted => return Err(self.sealed()),
        };
        let place = Bookmark::new(self.shared.id, self.id, 0, block);
        let request = BlockWrite {
            data: &data,
            form: None,
            kind,
            fill: 1,
            previous: BlockPointer::HOLE,
            shared: None,
            cached: true,
            place,
        };
        let written = writer.write(&request);
        let pointer = written.map_err(|source| DmuError::Write { place, source })?;
        // A hole's birth is the sync's to choose.
        if !pointer.is_hole()
            && let Some(slot) = self.state.write().slot_mut(txg)
        {
            slot.early.insert(block, (dirty, pointer));
        }
        Ok(Early::Written(pointer))
    }

    /// Writes `block` as it is now, as a block that belongs to nobody but the caller.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn write_copy(&self, block: u64, writer: &dyn BlockWriter) -> Result<BlockPointer> {
        let data = self.read_block(block)?;
        let kind = self.data_kind(&self.state.read().header);
        let place = Bookmark::new(self.shared.id, self.id, 0, block);
        let request = BlockWrite {
            data: &data,
            form: None,
            kind,
            fill: 1,
            previous: BlockPointer::HOLE,
            shared: None,
            cached: true,
            place,
        };
        let written = writer.write(&request);
        written.map_err(|source| DmuError::Write { place, source })
    }

    /// Whether the sync of `txg`, which has closed, will take over a block that was written early.
    #[must_use]
    pub fn takes_early(self: &Arc<Self>, txg: Txg, block: u64, pointer: &BlockPointer) -> bool {
        let state = self.state.read();
        let Some(slot) = state.slot(txg) else {
            return false;
        };
        let header = slot.header.as_deref().unwrap_or(&state.header);
        header.allocated && slot.early_pointer(block) == Some(*pointer)
    }

    /// Has the sync of `txg` write a block itself although it was written early: that write failed.
    pub fn forget_early(&self, txg: Txg, block: u64) {
        if let Some(slot) = self.state.write().slot_mut(txg) {
            slot.early.remove(&block);
        }
    }

    pub(super) fn data_kind(&self, header: &crate::dnode_header::DnodeHeader) -> BlockKind {
        BlockKind {
            object_type: header.object_type,
            level: 0,
            spill: false,
            checksum: header.checksum,
            compress: header.compress,
        }
    }
}
