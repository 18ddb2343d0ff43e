//! Blocks that are copied from one object to another without being stored twice.
//!
//! The copy is dirty data like any other; only its sync may refer to the block that it was copied from. So everything
//! that sees unsynced data is as it is with other writes, and a block that changes before the sync is simply written.

use std::sync::Arc;

use format::BlockPointer;
use sys::Buffer;

use super::Object;
use super::state::Newest;
use crate::error::Result;
use crate::tx::Tx;

/// A block that is stored, and that nobody has changed since.
#[derive(Clone)]
pub struct StoredBlock {
    data: Buffer,
    block: u64,
    pointer: BlockPointer,
    /// The object's tree when it was looked up.
    generation: u64,
}

impl StoredBlock {
    /// The block's bytes.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The block's number in its object.
    #[must_use]
    pub const fn block(&self) -> u64 {
        self.block
    }
}

impl Object {
    /// The contents of a block that is stored as it is now; none of holes, of blocks that are not plain, and of blocks
    /// with unsynced changes.
    ///
    /// # Errors
    /// The block cannot be read.
    pub fn stored_block(&self, block: u64) -> Result<Option<StoredBlock>> {
        let (tree, generation, size) = {
            let state = self.state.read();
            if !matches!(state.newest(block), Newest::OnDisk) {
                return Ok(None);
            }
            (
                state.tree.clone(),
                state.generation,
                state.face.block_size(),
            )
        };
        let reader = self.reader();
        let found = tree.lookup(&reader, block).and_then(|pointer| {
            let plain = is_plain(&pointer) && pointer.lsize() == size as u64;
            let data = plain.then(|| reader.read(&pointer, 0, block));
            Ok(data.transpose()?.map(|data| (pointer, data)))
        });
        match found {
            Ok(found) => Ok(found.map(|(pointer, data)| StoredBlock {
                data,
                block,
                pointer,
                generation,
            })),
            // A tree that has been swapped may lead anywhere: who asked copies in the ordinary way.
            Err(error) => self.unless_swapped(generation, error).map(|()| None),
        }
    }

    /// Lets the sync of `block`, which this transaction has just written, refer to the stored block of `source` that it
    /// was copied from. False, and nothing changes, when the bytes are others, or `source` does not hold the block any
    /// more as it did.
    pub fn share_block(
        self: &Arc<Self>,
        tx: &Tx,
        block: u64,
        source: &Self,
        stored: &StoredBlock,
    ) -> bool {
        let txg = tx.txg();
        let written = {
            let state = self.state.read();
            state
                .slot(txg)
                .and_then(|slot| slot.blocks.get(&block).cloned())
        };
        let Some(written) = written.filter(|data| data[..] == stored.data[..]) else {
            return false;
        };
        // First this: a change of the source that is not seen below belongs to this txg or a later one, and what it
        // frees waits for the references of its txg.
        if !self.shared.store.will_share(txg, &stored.pointer) {
            return false;
        }
        {
            let state = source.state.read();
            if state.generation != stored.generation
                || !matches!(state.newest(stored.block), Newest::OnDisk)
            {
                return false;
            }
        }
        let mut state = self.state.write();
        let Some(slot) = state.slot_mut(txg) else {
            return false;
        };
        slot.shared.insert(block, (written, stored.pointer));
        true
    }
}

/// Whether several pointers may lead to a block.
fn is_plain(pointer: &BlockPointer) -> bool {
    !pointer.is_hole()
        && !pointer.is_embedded()
        && !pointer.is_gang()
        && !pointer.is_dedup()
        && !pointer.is_encrypted()
        && pointer.level() == 0
}
