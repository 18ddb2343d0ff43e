//! Syncing one object: snapshot of what a txg changed, data blocks, indirect blocks, spill block,
//! and the swap of the tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Txg;
use format::BlockPointer;
use format::dnode::DnodeFlags;
use sys::Buffer;

use super::Object;
use super::state::SpillChange;
use crate::accounting::OwnerIds;
use crate::editor::Editor;
use crate::error::{DmuError, Place, Result};
use crate::face::{Face, Footprint, encode};
use crate::store::{BlockKind, BlockWrite, SyncContext};
use crate::tree::Tree;

/// Whom an object's space is charged to, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) owners: OwnerIds,
    pub(crate) bytes: u64,
}

/// How an object's charge changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) old: Option<Charge>,
    pub(crate) new: Option<Charge>,
}

/// What a txg changed in an object, taken while it syncs.
pub(crate) struct Work {
    pub(crate) object: Arc<Object>,
    face: Face,
    tree: Tree,
    footprint: Footprint,
    freed: Vec<(u64, u64)>,
    blocks: Vec<(u64, Buffer)>,
    /// Blocks that were written early, and where.
    early: BTreeMap<u64, BlockPointer>,
    /// Stored blocks with the same bytes.
    shared: BTreeMap<u64, BlockPointer>,
    spill: Option<SpillChange>,
}

/// An object whose data are written.
pub(crate) struct Synced {
    pub(crate) face: Face,
    pub(crate) tree: Tree,
    pub(crate) footprint: Footprint,
}

impl Object {
    /// Bytes of data that `txg` made dirty.
    pub(crate) fn dirty_bytes(&self, txg: Txg) -> u64 {
        let state = self.state.read();
        let size = state.face.block_size() as u64;
        state
            .slot(txg)
            .map_or(0, |slot| (slot.blocks.len() as u64).saturating_mul(size))
    }

    /// The dnode as last synced.
    pub(crate) fn to_phys(&self) -> format::DnodePhys {
        let state = self.state.read();
        crate::object_set::to_phys(&state.face, &state.tree, &state.footprint)
    }

    /// Takes what `txg` changed.
    pub(crate) fn begin_sync(self: &Arc<Self>, txg: Txg) -> Option<Work> {
        let state = self.state.read();
        let slot = state.slot(txg)?;
        let face = slot.face.as_deref().unwrap_or(&state.face).clone();
        let mut tree = state.tree.clone();
        tree.block_size = u32::from(face.block_sectors) * 512;
        tree.object_type = face.object_type;
        tree.max_block = face.max_block;
        if tree.levels == 1 {
            tree.indirect_shift = face.indirect_shift;
        }
        let mut freed: Vec<_> = slot.freed.iter().collect();
        let mut blocks = Vec::new();
        let mut early = BTreeMap::new();
        let mut shared = BTreeMap::new();
        let mut spill = slot.spill.clone();
        if face.allocated {
            blocks.extend(
                slot.blocks
                    .iter()
                    .map(|(&block, data)| (block, data.clone())),
            );
            let written = slot.early.keys();
            early.extend(written.filter_map(|&block| Some((block, slot.early_pointer(block)?))));
            let stored = slot.shared.keys();
            shared.extend(stored.filter_map(|&block| Some((block, slot.shared_pointer(block)?))));
        } else {
            freed = vec![(0, u64::MAX)];
            spill = Some(SpillChange::Remove);
        }
        Some(Work {
            object: Arc::clone(self),
            face,
            tree,
            footprint: state.footprint,
            freed,
            blocks,
            early,
            shared,
            spill,
        })
    }

    /// Puts the new tree in the place of the old, and drops what `txg` changed.
    pub(crate) fn end_sync(&self, txg: Txg, synced: &Synced, account: bool) -> Outcome {
        let (used, size) = (synced.footprint.used_bytes, synced.tree.block_size);
        let new = account
            .then(|| OwnerIds::of_bonus(synced.face.bonus_type, synced.face.bonus_bytes()))
            .flatten()
            .filter(|_| synced.face.allocated)
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
    pub(crate) fn blocks(&self) -> &[(u64, Buffer)] {
        &self.blocks
    }

    /// Opens the tree: what was freed is freed in it, and every new block can be addressed.
    pub(crate) fn edit<'a>(&'a self, context: &'a SyncContext<'a>) -> Result<Editor<'a>> {
        let mut editor = Editor::new(self.tree.clone(), context, self.object.reader());
        for &(first, last) in &self.freed {
            editor.free(first, last)?;
        }
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
        let Some((block, data)) = self.blocks.get(index) else {
            return Ok(previous);
        };
        if let Some(pointer) = self.early.get(block) {
            if let Some(engine) = context.engine {
                engine.written(context.txg, data.len() as u64);
            }
            return Ok(*pointer);
        }
        let place = Place::new(self.object.shared.id, self.object.id, 0, *block);
        let request = BlockWrite {
            data,
            kind: BlockKind {
                object_type: self.face.object_type,
                level: 0,
                spill: false,
                checksum: self.face.checksum,
                compress: self.face.compress,
            },
            fill: 1,
            previous,
            shared: self.shared.get(block).copied(),
            place,
        };
        let written = context.writer.write(&request);
        let written = written.map_err(|source| DmuError::Write { place, source })?;
        if let Some(engine) = context.engine {
            engine.written(context.txg, data.len() as u64);
        }
        Ok(written)
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
                SpillChange::Set(data) => self.write_spill(data, old, context)?,
            };
            let (spill_delta, changed) =
                crate::editor::book(context, self.object.shared.store.as_ref(), &old, &new);
            delta += spill_delta;
            touched |= changed;
            footprint.spill = matches!(change, SpillChange::Set(_)).then_some(new);
        }
        if touched {
            footprint.flags.set(DnodeFlags::USED_BYTES, true);
        }
        if context.account_owners {
            footprint.flags.set(DnodeFlags::USER_ACCOUNTED, true);
        }
        if context.account_objects {
            footprint.flags.set(DnodeFlags::USER_OBJECT_ACCOUNTED, true);
        }
        footprint.used_bytes = footprint.used_bytes.saturating_add_signed(delta);
        Ok(Synced {
            face: self.face.clone(),
            tree: edited.tree,
            footprint,
        })
    }

    fn write_spill(
        &self,
        data: &Buffer,
        previous: BlockPointer,
        context: &SyncContext<'_>,
    ) -> Result<BlockPointer> {
        let place = Place::spill(self.object.shared.id, self.object.id);
        let request = BlockWrite {
            data,
            kind: BlockKind {
                object_type: self.face.bonus_type,
                level: 0,
                spill: true,
                checksum: 0,
                compress: 0,
            },
            fill: 1,
            previous,
            shared: None,
            place,
        };
        context
            .writer
            .write(&request)
            .map_err(|source| DmuError::Write { place, source })
    }
}

impl Synced {
    /// Writes the dnode over its slots.
    pub(crate) fn encode(&self, slots: &mut [u8]) {
        encode(&self.face, &self.tree, &self.footprint, slots);
    }

    /// How many slots the dnode has.
    pub(crate) fn slots(&self) -> usize {
        self.face.slots()
    }
}
