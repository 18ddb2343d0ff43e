//! An object in memory: its dnode, its unsynced changes per txg, and reading and writing its data.
//!
//! Invariants: what a txg changed is kept apart from what later txgs change, until it has synced;
//! clean data are not kept here but in the block cache; the state lock is never held across I/O.
//! Called by the layers above through transactions, and by the object set's sync.

mod bonus;
mod early;
mod free;
mod piece;
mod read;
mod sealed;
mod share;
mod stage;
mod state;
mod sync;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, RwLock, rank};
use base::{ObjectId, ObjectSetId, Txg};
use format::{BlockPointer, DnodePhys, ObjectType};

use crate::dnode_header::{DnodeHeader, Footprint};
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object_set::Shared;
use crate::tree::{Reader, Tree};
use crate::tx::Tx;
use crate::zap::ZapState;

pub use early::Early;
pub use piece::FreePiece;
pub use share::{StoredBlock, StoredBlocks};
use state::SlotState;
pub(crate) use state::State;
pub(crate) use sync::{Synced, Work};

static STATE: LockClass = LockClass::new("dmu.object", rank::DMU + 30);

/// An object in memory.
pub struct Object {
    id: ObjectId,
    shared: Arc<Shared>,
    pub(crate) state: RwLock<State>,
    /// How many txgs hold changes of this object that the dnodes on disk do not show yet.
    dirty_txgs: AtomicU32,
    /// Whether it was looked up since the table's hand last passed.
    pub(crate) referenced: AtomicBool,
    /// Copies of fields for readers that must not wait.
    used_bytes: AtomicU64,
    pub(crate) block_size: AtomicU32,
    pub(crate) zap: OnceLock<Box<ZapState>>,
}

/// What an object looks like to an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The object's type.
    pub object_type: ObjectType,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Data block size in bytes.
    pub block_size: u32,
    /// Height of the block tree, as last synced.
    pub levels: u8,
    /// Log2 of the indirect block size.
    pub indirect_shift: u8,
    /// The highest block id.
    pub max_block: u64,
    /// Space of all its blocks, as last synced.
    pub used_bytes: u64,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Bonus bytes that fit without a spill block.
    pub bonus_capacity: u16,
    /// Slots of the dnode.
    pub slots: u8,
    /// Checksum override; 0 = inherit.
    pub checksum: u8,
    /// Compression override; 0 = inherit.
    pub compress: u8,
    /// Whether there is a spill block.
    pub has_spill: bool,
    /// Whether some change has not been synced.
    pub is_dirty: bool,
}

impl Object {
    /// An object as its dnode on disk says.
    pub(crate) fn from_phys(shared: &Arc<Shared>, id: ObjectId, phys: &DnodePhys) -> Arc<Self> {
        let tree = Tree {
            object_type: phys.object_type,
            pointers: phys.pointers,
            pointer_count: phys.pointer_count,
            levels: phys.levels,
            indirect_shift: phys.indirect_shift,
            block_size: phys.data_block_size(),
            max_block: phys.max_block_id,
            seen: base::Txg(0),
        };
        Self::assemble(
            shared,
            id,
            State::new(
                DnodeHeader::from_phys(phys),
                tree,
                Footprint::from_phys(phys),
            ),
        )
    }

    /// An object that is not on disk yet.
    pub(crate) fn create(shared: &Arc<Shared>, id: ObjectId, phys: &DnodePhys) -> Arc<Self> {
        Self::from_phys(shared, id, phys)
    }

    /// Makes a new object part of the transaction's txg.
    pub(crate) fn enter_new(self: &Arc<Self>, tx: &Tx) -> Result<()> {
        self.stage(tx)?;
        let mut state = self.state.write();
        self.change(tx, &mut state).map(|_| ())
    }

    fn assemble(shared: &Arc<Shared>, id: ObjectId, state: State) -> Arc<Self> {
        Arc::new(Self {
            id,
            shared: Arc::clone(shared),
            used_bytes: AtomicU64::new(state.footprint.used_bytes),
            block_size: AtomicU32::new(state.tree.block_size),
            state: RwLock::new(&STATE, state),
            dirty_txgs: AtomicU32::new(0),
            referenced: AtomicBool::new(true),
            zap: OnceLock::new(),
        })
    }

    /// The object number.
    #[must_use]
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    /// The object set it belongs to.
    #[must_use]
    pub fn object_set(&self) -> ObjectSetId {
        self.shared.id
    }

    /// Whether its object set is open for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.shared.is_writable()
    }

    /// Space of all its blocks, as last synced; takes no lock.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Data block size in bytes; takes no lock.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size.load(Ordering::Relaxed)
    }

    /// Up to which size it grows as a micro ZAP.
    pub(crate) fn micro_zap_bytes_max(&self) -> usize {
        self.shared.micro_zap_bytes_max()
    }

    /// What the object looks like now.
    #[must_use]
    pub fn info(&self) -> ObjectInfo {
        let state = self.state.read();
        let header = &state.header;
        ObjectInfo {
            object_type: header.object_type,
            bonus_type: header.bonus_type,
            block_size: u32::from(header.block_sectors) * 512,
            levels: state.tree.levels,
            indirect_shift: header.indirect_shift,
            max_block: header.max_block,
            used_bytes: state.footprint.used_bytes,
            bonus_len: header.bonus_len,
            bonus_capacity: u16::try_from(header.bonus_capacity(false)).unwrap_or(u16::MAX),
            slots: header.extra_slots.saturating_add(1),
            checksum: header.checksum,
            compress: header.compress,
            has_spill: state.has_spill(),
            is_dirty: state.newest_txg().is_some(),
        }
    }

    /// Whether the object exists (it was not freed).
    pub(crate) fn is_allocated(&self) -> bool {
        self.state.read().header.allocated
    }

    /// Whether the dnodes on disk do not show this object's last change yet.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty_txgs.load(Ordering::Acquire) != 0
    }

    /// The newest txg whose changes have not been synced.
    #[must_use]
    pub fn dirty_txg(&self) -> Option<Txg> {
        self.state.read().newest_txg()
    }

    /// Whether some data block or freed range has not been synced.
    #[must_use]
    pub fn has_dirty_data(&self) -> bool {
        self.state.read().has_dirty_data()
    }

    /// The pointer of a data block as last synced.
    ///
    /// # Errors
    /// An indirect block cannot be read.
    pub fn block_pointer(&self, block: u64) -> Result<BlockPointer> {
        let tree = self.tree_of(&self.state.read());
        tree.lookup(&self.reader(), block)
    }

    /// The pointers in the dnode as last synced, and the spill pointer.
    #[must_use]
    pub fn top_pointers(&self) -> (Vec<BlockPointer>, Option<BlockPointer>) {
        let state = self.state.read();
        let count = usize::from(state.tree.pointer_count).min(3);
        (state.tree.pointers[..count].to_vec(), state.footprint.spill)
    }

    /// The tree, for reading. Under the state's lock nobody replaces it, so that it is in use now.
    pub(crate) fn tree_of(&self, state: &State) -> Tree {
        Tree {
            seen: self.shared.store.now(),
            ..state.tree.clone()
        }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader {
            store: self.shared.store.as_ref(),
            object_set: self.shared.id,
            object: self.id,
        }
    }

    pub(crate) fn unsuitable(&self, what: &'static str) -> DmuError {
        DmuError::Unsuitable {
            object_set: self.shared.id,
            object: self.id,
            what,
        }
    }

    /// Opens the state for changes in `tx`: the object is on its txg's dirty list afterwards.
    fn change<'a>(self: &Arc<Self>, tx: &Tx, state: &'a mut State) -> Result<&'a mut State> {
        if !self.shared.is_writable() {
            return Err(DmuError::ReadOnly {
                object_set: self.shared.id,
            });
        }
        if !state.header.allocated {
            return Err(DmuError::NoSuchObject {
                object_set: self.shared.id,
                object: self.id,
            });
        }
        self.enter(tx, state)?;
        Ok(state)
    }

    /// Puts the object on the dirty list of the transaction's txg, once.
    fn enter(self: &Arc<Self>, tx: &Tx, state: &mut State) -> Result<()> {
        const DNODE_BYTES: u64 = 1024;
        const DNODE_BLOCK_BYTES: u64 = 16 * 1024;
        /// Of the blocks above a block of dnodes, what they compress to: neighbours share them.
        const DNODE_INDIRECT_BYTES: u64 = 4 * 1024;
        let txg = tx.txg();
        let slot = &mut state.slots[txg.slot()];
        match slot {
            Some(slot) if slot.txg == txg => {
                #[cfg(test)]
                if crate::object_set::REQUEUES.get() {
                    let _ = self.shared.dirty.push(txg, Arc::clone(self));
                }
                Ok(())
            }
            Some(_) => Err(self.unsuitable("a change of an older txg was never synced")),
            None => {
                *slot = Some(Box::new(SlotState::new(txg)));
                self.dirty_txgs.fetch_add(1, Ordering::AcqRel);
                METERS.dirty_entries.increment();
                if self.shared.dirty.push(txg, Arc::clone(self)) {
                    tx.writes(DNODE_BLOCK_BYTES, true);
                    tx.writes(DNODE_INDIRECT_BYTES, true);
                }
                tx.dirtied(DNODE_BYTES);
                Ok(())
            }
        }
    }

    /// What `txg` changed was undone: the object leaves that txg's dirty list.
    pub(crate) fn withdraw(&self, txg: Txg) {
        if self.shared.dirty.withdraw(txg, self) {
            self.leave();
        }
    }

    /// The creation of this object was undone.
    pub(crate) fn unmake(&self) {
        self.state.write().header.allocated = false;
    }

    /// The dnodes on disk show what `txg` changed: the object may leave the core again.
    pub(crate) fn leave(&self) {
        self.dirty_txgs.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({} of {})", self.id, self.shared.id)
    }
}

#[cfg(test)]
mod tests;
