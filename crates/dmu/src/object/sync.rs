//! Syncing one object: snapshot of what a txg changed, data blocks, indirect blocks, spill block,
//! and the swap of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Bookmark, Txg};
use format::block_pointer::SealedForm;
use format::dnode::DnodeFlags;
use format::{BlockPointer, ObjectType};
use sys::Buffer;

use super::Object;
use super::read::fit;
use super::state::{DirtyBlock, SpillChange};
use crate::accounting::{Charge, Outcome, OwnerIds};
use crate::dnode_header::{DnodeHeader, Footprint, encode, to_phys};
use crate::editor::Editor;
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::store::{BlockKind, BlockReference, BlockWrite, SyncContext};
use crate::tree::Tree;
use crate::tx::REFERENCE_BYTES;

/// What a txg changed in an object, taken while it syncs.
pub(crate) struct Work {
    pub(crate) object: Arc<Object>,
    header: DnodeHeader,
    tree: Tree,
    footprint: Footprint,
    freed: Vec<(u64, u64)>,
    blocks: Vec<(u64, DirtyBlock)>,
    /// Blocks that were written early, and where.
    early: BTreeMap<u64, BlockPointer>,
    /// Stored blocks with the same bytes.
    shared: BTreeMap<u64, BlockPointer>,
    /// Blocks that are what they were before the txg.
    anew: BTreeSet<u64>,
    spill: Option<SpillChange>,
}

/// An object whose data are written.
pub(crate) struct Synced {
    pub(crate) header: DnodeHeader,
    pub(crate) tree: Tree,
    pub(crate) footprint: Footprint,
    /// By how much its blocks are charged more than before.
    pub(crate) used_delta: i64,
}

impl Object {
    /// Bytes of data that `txg` made dirty.
    pub(crate) fn dirty_bytes(&self, txg: Txg) -> u64 {
        let state = self.state.read();
        let size = state.header.block_size() as u64;
        let bytes = |dirty: &DirtyBlock| match dirty {
            DirtyBlock::Data(_) => size,
            DirtyBlock::Stored(_) | DirtyBlock::Redacted => REFERENCE_BYTES,
            DirtyBlock::Sealed(block) => block.stored.len() as u64,
        };
        state
            .slot(txg)
            .map_or(0, |slot| slot.blocks.values().map(bytes).sum())
    }

    /// The dnode as last synced.
    pub(crate) fn to_phys(&self) -> format::DnodePhys {
        let state = self.state.read();
        to_phys(&state.header, &state.tree, &state.footprint)
    }

    /// Reads what the sync of `txg` will need of the blocks above the data.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(crate) fn look_ahead(&self, txg: Txg) -> Result<()> {
        let (tree, freed, blocks) = {
            let state = self.state.read();
            let Some(slot) = state.slot(txg) else {
                return Ok(());
            };
            let header = slot.header.as_deref().unwrap_or(&state.header);
            if state.tree.is_empty() || state.tree.levels == 1 || !header.allocated {
                return Ok(());
            }
            let freed: Vec<(u64, u64)> = slot.freed.iter().collect();
            let mut blocks: Vec<u64> = slot.blocks.keys().copied().collect();
            blocks.dedup_by_key(|block| *block >> state.tree.entries_shift());
            (state.tree.clone(), freed, blocks)
        };
        let reader = self.reader();
        let mut known = None;
        for block in blocks {
            tree.warm(&reader, block, &freed, &mut known)?;
        }
        for (first, last) in &freed {
            for edge in [*first, (*last).min(tree.capacity().saturating_sub(1))] {
                tree.warm(&reader, edge, &freed, &mut None)?;
            }
        }
        Ok(())
    }

    /// Takes what `txg` changed.
    pub(crate) fn begin_sync(self: &Arc<Self>, txg: Txg) -> Option<Work> {
        let state = self.state.read();
        let slot = state.slot(txg)?;
        let header = slot.header.as_deref().unwrap_or(&state.header).clone();
        let mut tree = state.tree.clone();
        tree.block_size = u32::from(header.block_sectors) * 512;
        tree.object_type = header.object_type;
        tree.max_block = header.max_block;
        if tree.levels == 1 {
            tree.indirect_shift = header.indirect_shift;
        }
        let mut freed: Vec<_> = slot.freed.iter().collect();
        let mut blocks = Vec::new();
        let mut early = BTreeMap::new();
        let mut shared = BTreeMap::new();
        let mut anew = BTreeSet::new();
        let mut spill = slot.spill.clone();
        if header.allocated {
            blocks.extend(
                slot.blocks
                    .iter()
                    .map(|(&block, data)| (block, data.clone())),
            );
            let written = slot.early.keys();
            early.extend(written.filter_map(|&block| Some((block, slot.early_pointer(block)?))));
            let stored = slot.shared.keys();
            shared.extend(stored.filter_map(|&block| Some((block, slot.shared_pointer(block)?))));
            let again = slot.anew.keys().copied();
            anew.extend(again.filter(|&block| slot.is_anew(block)));
        } else {
            freed = vec![(0, u64::MAX)];
            spill = Some(SpillChange::Remove);
        }
        Some(Work {
            object: Arc::clone(self),
            header,
            tree,
            footprint: state.footprint,
            freed,
            blocks,
            early,
            shared,
            anew,
            spill,
        })
    }

    /// Puts the new tree in the place of the old, and drops what `txg` changed.
    pub(crate) fn end_sync(&self, txg: Txg, synced: &Synced, account: bool) -> Outcome {
        let (used, size) = (synced.footprint.used_bytes, synced.tree.block_size);
        let new = account
            .then(|| OwnerIds::of_bonus(synced.header.bonus_type, synced.header.bonus_bytes()))
            .flatten()
            .filter(|_| synced.header.allocated)
            .map(|owners| Charge {
                owners,
                bytes: used,
            });
        let mut state = self.state.write();
        let old = state.charge;
        state.charge = new;
        state.tree = synced.tree.clone();
        state.footprint = synced.footprint;
        state.generation += 1;
        let done = state.slots[txg.slot()].take_if(|slot| slot.txg == txg);
        if state.newest_txg().is_none() {
            self.block_size.store(size, Ordering::Relaxed);
        }
        drop(state);
        self.used_bytes.store(used, Ordering::Relaxed);
        drop(done);
        Outcome { old, new }
    }
}

impl Work {
    /// The data blocks to be written.
    pub(crate) fn blocks(&self) -> &[(u64, DirtyBlock)] {
        &self.blocks
    }

    /// Bytes of a data block.
    pub(crate) fn block_size(&self) -> u64 {
        u64::from(self.tree.block_size)
    }

    /// Opens the tree: what was freed is freed in it, and every new block can be addressed.
    pub(crate) fn edit<'a>(&'a self, context: &'a SyncContext<'a>) -> Result<Editor<'a>> {
        let mut editor = Editor::new(self.tree.clone(), context, self.object.reader());
        for &(first, last) in &self.freed {
            editor.free(first, last)?;
        }
        editor.raise(self.header.levels_min)?;
        if let Some((last, _)) = self.blocks.last() {
            editor.grow_to(*last)?;
        }
        Ok(editor)
    }

    /// Writes data block number `index` of [`Work::blocks`].
    pub(crate) fn write_block(
        &self,
        context: &SyncContext<'_>,
        index: usize,
        previous: BlockPointer,
    ) -> Result<BlockPointer> {
        let Some((block, dirty)) = self.blocks.get(index) else {
            return Ok(previous);
        };
        let written = match (self.early.get(block), dirty) {
            (Some(pointer), _) => *pointer,
            (None, DirtyBlock::Data(data)) => {
                let shared = self.shared.get(block).copied();
                let write = (data, None, shared);
                let mut new = self.write_data(context, *block, write, previous)?;
                if self.anew.contains(block) {
                    keep_birth(&mut new, &previous, context.txg);
                }
                new
            }
            (None, DirtyBlock::Sealed(sealed)) => {
                let write = (&sealed.stored, Some(sealed.form), None);
                self.write_data(context, *block, write, previous)?
            }
            (None, DirtyBlock::Redacted) => {
                BlockPointer::redacted(self.header.object_type, self.block_size(), context.txg)
            }
            (None, DirtyBlock::Stored(stored)) => self.refer(context, *block, stored, previous)?,
        };
        if let Some(engine) = context.engine {
            engine.written(context.txg, dirty.memory());
        }
        Ok(written)
    }

    fn write_data(
        &self,
        context: &SyncContext<'_>,
        block: u64,
        (data, form, shared): (&Buffer, Option<SealedForm>, Option<BlockPointer>),
        previous: BlockPointer,
    ) -> Result<BlockPointer> {
        let place = Bookmark::new(self.object.shared.id, self.object.id, 0, block);
        let request = BlockWrite {
            data,
            form,
            kind: self.data_kind(),
            fill: 1,
            previous,
            shared,
            cached: !self.is_full_of_list(block),
            place,
        };
        let written = context.writer.write(&request);
        let new = written.map_err(|source| DmuError::Write { place, source })?;
        self.object.shared.store.keep(&new, place, data);
        Ok(new)
    }

    /// Refers to a stored block. Where that is not to be, its bytes are read and written: room for them was promised.
    /// A copy of what nobody can read cannot be made; it stays a reference to it.
    fn refer(
        &self,
        context: &SyncContext<'_>,
        block: u64,
        stored: &BlockPointer,
        previous: BlockPointer,
    ) -> Result<BlockPointer> {
        let place = Bookmark::new(self.object.shared.id, self.object.id, 0, block);
        let mut reference = BlockReference {
            stored,
            kind: self.data_kind(),
            size: self.tree.block_size as usize,
            previous,
            is_unreadable: false,
            place,
        };
        if let Some(pointer) = context.writer.refer(&reference) {
            return Ok(pointer);
        }
        match self.object.reader().read(stored, 0, block, Txg(0)) {
            Ok(data) => {
                METERS.references_written.increment();
                let data = fit(data, reference.size);
                self.write_data(context, block, (&data, None, None), previous)
            }
            Err(error) if error.is_damage() => {
                reference.is_unreadable = true;
                context.writer.refer(&reference).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is a full block of a list of blocks: nobody reads it before the list is freed. To the last one
    /// more will be added.
    fn is_full_of_list(&self, block: u64) -> bool {
        self.header.object_type == ObjectType::BPOBJ && block < self.header.max_block
    }

    fn data_kind(&self) -> BlockKind {
        BlockKind {
            object_type: self.header.object_type,
            level: 0,
            spill: false,
            checksum: self.header.checksum,
            compress: self.header.compress,
        }
    }

    /// Writes everything of an object on this thread.
    pub(crate) fn run(&self, context: &SyncContext<'_>) -> Result<Synced> {
        let mut editor = self.edit(context)?;
        for index in 0..self.blocks.len() {
            let block = self.blocks[index].0;
            let previous = editor.pointer_at(0, block)?;
            let new = self.write_block(context, index, previous)?;
            editor.set_data(block, &previous, new)?;
        }
        self.finish(editor, context)
    }

    /// Writes the indirect blocks and the spill block.
    pub(crate) fn finish(&self, editor: Editor<'_>, context: &SyncContext<'_>) -> Result<Synced> {
        let edited = editor.finish()?;
        let mut footprint = self.footprint;
        let mut delta = edited.used_delta;
        let mut touched = edited.touched;
        if let Some(change) = &self.spill {
            let old = footprint.spill.unwrap_or(BlockPointer::HOLE);
            let new = match change {
                SpillChange::Remove => BlockPointer::HOLE,
                SpillChange::Set(data) => self.write_spill((data, None), old, context)?,
                SpillChange::Sealed(sealed) => {
                    let write = (&sealed.stored, Some(sealed.form));
                    self.write_spill(write, old, context)?
                }
            };
            let (spill_delta, changed) =
                crate::editor::book(context, self.object.shared.store.as_ref(), &old, &new);
            delta += spill_delta;
            touched |= changed;
            footprint.spill = (!matches!(change, SpillChange::Remove)).then_some(new);
        }
        if touched {
            let counts_bytes = context.counts_bytes;
            footprint.flags.set(DnodeFlags::USED_BYTES, counts_bytes);
        }
        if context.account_owners {
            footprint.flags.set(DnodeFlags::USER_ACCOUNTED, true);
        }
        if context.account_objects {
            footprint.flags.set(DnodeFlags::USER_OBJECT_ACCOUNTED, true);
        }
        footprint.used_bytes = footprint.used_bytes.saturating_add_signed(delta);
        if let Some(unreadable) = &edited.unreadable {
            // What is left of an object that is gone is what was below; of another the dnode keeps the count.
            let bytes = if self.header.allocated {
                0
            } else {
                footprint.used_bytes
            };
            context.accounting.leaked(unreadable, bytes);
        }
        Ok(Synced {
            header: self.header.clone(),
            tree: edited.tree,
            footprint,
            used_delta: delta,
        })
    }

    fn write_spill(
        &self,
        (data, form): (&Buffer, Option<SealedForm>),
        previous: BlockPointer,
        context: &SyncContext<'_>,
    ) -> Result<BlockPointer> {
        let place = Bookmark::spill(self.object.shared.id, self.object.id);
        let request = BlockWrite {
            data,
            form,
            kind: BlockKind {
                object_type: self.header.bonus_type,
                level: 0,
                spill: true,
                checksum: 0,
                compress: 0,
            },
            fill: 1,
            previous,
            shared: None,
            cached: true,
            place,
        };
        context
            .writer
            .write(&request)
            .map_err(|source| DmuError::Write { place, source })
    }
}

/// Gives a block that was written anew, with the bytes of the previous one, the logical birth of that. Not what is a
/// reference to another block, or may become that of others by a dedup table: such a pointer has the place's txg and
/// the block's, and no room for a third.
fn keep_birth(new: &mut BlockPointer, previous: &BlockPointer, txg: Txg) {
    let is_own = !new.is_hole() && !new.is_embedded() && !new.is_dedup();
    let is_new = new.birth() == txg && new.physical_birth() == txg;
    if is_own && is_new && !previous.is_hole() && previous.lsize() == new.lsize() {
        new.set_rewritten_birth(previous.birth(), txg);
    }
}

impl Synced {
    /// Writes the dnode over its slots.
    pub(crate) fn encode(&self, slots: &mut [u8]) {
        encode(&self.header, &self.tree, &self.footprint, slots);
    }

    /// How many slots the dnode has.
    pub(crate) fn slots(&self) -> usize {
        self.header.slots()
    }
}
