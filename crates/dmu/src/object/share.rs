//! Blocks that are copied from one object to another without being stored twice.
//!
//! Whole blocks are copied as references: until the sync, the copy is a pointer to the stored block, of which nothing
//! is read ([`Object::refer_to`]). Where a part of a block is copied, the copy is dirty data like any other, and its
//! sync may refer to the stored block if both have come to have the same bytes ([`Object::share_block`]).
//!
//! Invariant: a block that an unsynced txg T refers to is in use until T has synced. When the reference was made, its
//! source held the block in its tree, without an unsynced change (or as a reference of T itself); so what takes the
//! block from the source is done in T or later, and by then the block was named to who counts references: its space is
//! freed only after T's references were counted.

use std::sync::Arc;

use base::{ByteOrder, Txg};
use format::BlockPointer;
use sys::Buffer;

use super::Object;
use super::state::{DirtyBlock, Newest, State};
use crate::error::Result;
use crate::meters::METERS;
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

/// Neighbouring blocks that are stored, as pointers.
pub struct StoredBlocks {
    first: u64,
    blocks: Vec<Held>,
    /// How many blocks follow (without a stored one: how many there are) that are not such.
    others: u64,
    block_size: usize,
    /// The object's tree when they were looked up.
    generation: u64,
}

/// A stored block, and who holds it.
struct Held {
    pointer: BlockPointer,
    /// A reference of that unsynced txg; none: the tree.
    by: Option<Txg>,
}

impl StoredBlocks {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// How many bytes they have together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.count() * self.block_size as u64
    }

    /// If there are none, how many blocks there are from the beginning on to which none can refer: one at least.
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Whether an object still holds them as it did, for a reference in `txg`.
    fn are_held(&self, state: &State, txg: Txg) -> bool {
        let holds = |(block, held): (u64, &Held)| match state.newest(block) {
            Newest::OnDisk => held.by.is_none() && state.generation == self.generation,
            Newest::Stored(pointer, by) => {
                held.by == Some(txg) && by == txg && *pointer == held.pointer
            }
            Newest::Dirty(_) | Newest::Sealed | Newest::Hole => false,
        };
        state.header.allocated && (self.first..).zip(&self.blocks).all(holds)
    }
}

impl Object {
    /// The stored blocks from `first` on, up to `count`: without holes, blocks that are not plain, and unsynced
    /// changes other than references.
    ///
    /// # Errors
    /// An indirect block cannot be read.
    pub fn stored_blocks(&self, first: u64, count: u64) -> Result<StoredBlocks> {
        let kind = self.data_kind(&self.state.read().header);
        let rules = self.shared.store.reference_rules(self.shared.id, &kind);
        loop {
            let state = self.state.read();
            let (tree, generation) = (self.tree_of(&state), state.generation);
            let block_size = state.header.block_size();
            let last = first.saturating_add(count);
            let Some(rules) = &rules else {
                return Ok(StoredBlocks {
                    first,
                    blocks: Vec::new(),
                    others: count,
                    block_size,
                    generation,
                });
            };
            let newest: Vec<Newest> = (first..last).map(|block| state.newest(block)).collect();
            drop(state);
            let reader = self.reader();
            let look = |(block, newest)| match newest {
                Newest::Stored(pointer, txg) => Ok((*pointer, Some(txg))),
                Newest::OnDisk => Ok((tree.lookup(&reader, block)?, None)),
                Newest::Dirty(_) | Newest::Sealed | Newest::Hole => Ok((BlockPointer::HOLE, None)),
            };
            let found: Result<Vec<_>> = (first..last).zip(newest).map(look).collect();
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    self.unless_swapped(generation, error)?;
                    continue;
                }
            };
            let is_stored = |pointer: &BlockPointer| {
                is_plain(pointer)
                    && pointer.lsize() == block_size as u64
                    && pointer.byte_order() == ByteOrder::NATIVE
                    && rules.allow(pointer)
            };
            let stored = |(pointer, by): (BlockPointer, Option<Txg>)| {
                is_stored(&pointer).then_some(Held { pointer, by })
            };
            let others = found.iter().take_while(|(pointer, _)| !is_stored(pointer));
            return Ok(StoredBlocks {
                first,
                others: others.count() as u64,
                blocks: found.into_iter().map_while(stored).collect(),
                block_size,
                generation,
            });
        }
    }

    /// Makes the blocks from `first` on copies of stored ones of `source`, without reading them: until their sync they
    /// are references. False, and nothing has changed, when that cannot be: `source` does not hold the blocks any more
    /// as it did, the block sizes differ, or nothing is shared here.
    ///
    /// # Errors
    /// The object set is read-only.
    pub fn refer_to(
        self: &Arc<Self>,
        tx: &Tx,
        first: u64,
        source: &Self,
        stored: &StoredBlocks,
    ) -> Result<bool> {
        let txg = tx.txg();
        // Both sync together, or neither.
        if stored.blocks.is_empty() || self.shared.id != source.shared.id || tx.is_staged() {
            return Ok(false);
        }
        // First this: a change of the source that is not seen below belongs to this txg or a later one, and what it
        // frees waits for the references of its txg.
        let named = |held: &Held| self.shared.store.will_share(txg, &held.pointer);
        if !stored.blocks.iter().all(named) || !stored.are_held(&source.state.read(), txg) {
            return Ok(false);
        }
        let mut guard = self.state.write();
        let state = self.change(tx, &mut guard)?;
        let last = first.saturating_add(stored.count() - 1);
        let fits = state.header.block_size() == stored.block_size
            && (last == 0 || stored.block_size.is_power_of_two())
            && stored
                .blocks
                .iter()
                .all(|held| held.pointer.object_type() == state.header.object_type);
        if !fits {
            return Ok(false);
        }
        for (block, held) in (first..).zip(&stored.blocks) {
            let dirty = DirtyBlock::Stored(Box::new(held.pointer));
            self.store_dirty(tx, state, block, dirty)?;
        }
        METERS.blocks_referenced.add(stored.count());
        Ok(true)
    }

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
                self.tree_of(&state),
                state.generation,
                state.header.block_size(),
            )
        };
        let reader = self.reader();
        let found = tree.lookup(&reader, block).and_then(|pointer| {
            let plain = is_plain(&pointer) && pointer.lsize() == size as u64;
            let data = plain.then(|| reader.read(&pointer, 0, block, tree.seen));
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
            let slot = state.slot(txg);
            slot.and_then(|slot| slot.blocks.get(&block)?.data().cloned())
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
        slot.shared
            .insert(block, (DirtyBlock::Data(written), stored.pointer));
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

#[cfg(test)]
mod tests;
