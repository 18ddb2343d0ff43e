//! The state under an object's lock: what open transactions see, and what each txg changed.

use std::collections::BTreeMap;

use base::Txg;
use format::BlockPointer;
use format::dnode::DnodeFlags;
use sys::Buffer;

use crate::accounting::{Charge, OwnerIds};
use crate::dnode_header::{DnodeHeader, Footprint};
use crate::ranges::RangeSet;
use crate::store::SealedBlock;
use crate::tree::Tree;
use crate::tx::REFERENCE_BYTES;

/// What a txg does to the spill block.
#[derive(Clone)]
pub(crate) enum SpillChange {
    Set(Buffer),
    /// As another pool stores it.
    Sealed(Box<SealedBlock>),
    Remove,
}

/// A data block as a txg leaves it.
#[derive(Clone)]
pub(crate) enum DirtyBlock {
    /// Its bytes.
    Data(Buffer),
    /// The bytes of a stored block, to which the sync is to refer: nothing of it is in memory. It is in use until the
    /// txg has synced, whatever becomes of the object that it was taken from.
    Stored(Box<BlockPointer>),
    /// The bytes as another pool stores them, sealed with a key that nobody is asked for.
    Sealed(Box<SealedBlock>),
    /// Nothing: the block was left out of what is received.
    Redacted,
}

impl DirtyBlock {
    /// Its bytes, where they are in memory.
    pub(crate) fn data(&self) -> Option<&Buffer> {
        match self {
            Self::Data(data) => Some(data),
            Self::Stored(_) | Self::Sealed(_) | Self::Redacted => None,
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Stored(_) | Self::Redacted => REFERENCE_BYTES,
            Self::Sealed(block) => block.stored.len() as u64,
        }
    }

    /// Whether nothing has changed it since it was `then`.
    fn is_still(&self, then: &Self) -> bool {
        match (self, then) {
            (Self::Data(now), Self::Data(then)) => now.same_memory(then),
            (Self::Stored(now), Self::Stored(then)) => now == then,
            (Self::Sealed(now), Self::Sealed(then)) => now.stored.same_memory(&then.stored),
            (Self::Redacted, Self::Redacted) => true,
            (Self::Data(_) | Self::Stored(_) | Self::Sealed(_) | Self::Redacted, _) => false,
        }
    }
}

/// What one txg changed and has not synced.
#[derive(Clone)]
pub(crate) struct SlotState {
    pub(crate) txg: Txg,
    /// Data blocks, as they are at the end of this txg.
    pub(crate) blocks: BTreeMap<u64, DirtyBlock>,
    /// Data blocks freed in this txg, before any in `blocks` were written again.
    pub(crate) freed: RangeSet,
    pub(crate) spill: Option<SpillChange>,
    /// Data blocks that were written before the sync, with what was written.
    pub(crate) early: BTreeMap<u64, (DirtyBlock, BlockPointer)>,
    /// Data blocks that were copied from stored ones: what they were then, and where that is stored.
    pub(crate) shared: BTreeMap<u64, (DirtyBlock, BlockPointer)>,
    /// Data blocks that are written anew as they are, with the bytes that they had.
    pub(crate) anew: BTreeMap<u64, DirtyBlock>,
    /// The dnode's fields at the end of this txg, once a later txg has changed them.
    pub(crate) header: Option<Box<DnodeHeader>>,
}

impl SlotState {
    pub(crate) const fn new(txg: Txg) -> Self {
        Self {
            txg,
            blocks: BTreeMap::new(),
            freed: RangeSet::EMPTY,
            spill: None,
            early: BTreeMap::new(),
            shared: BTreeMap::new(),
            anew: BTreeMap::new(),
            header: None,
        }
    }

    /// Where the block lies that was written early, if it has not changed since.
    pub(crate) fn early_pointer(&self, block: u64) -> Option<BlockPointer> {
        self.unchanged(&self.early, block)
    }

    /// Where the block is stored that this one was copied from, if it has not changed since.
    pub(crate) fn shared_pointer(&self, block: u64) -> Option<BlockPointer> {
        self.unchanged(&self.shared, block)
    }

    /// Whether the block is written anew with what it had before this txg, which has not changed it since.
    pub(crate) fn is_anew(&self, block: u64) -> bool {
        let (now, then) = (self.blocks.get(&block), self.anew.get(&block));
        now.zip(then).is_some_and(|(now, then)| now.is_still(then))
    }

    fn unchanged(
        &self,
        known: &BTreeMap<u64, (DirtyBlock, BlockPointer)>,
        block: u64,
    ) -> Option<BlockPointer> {
        let (then, pointer) = known.get(&block)?;
        self.blocks.get(&block)?.is_still(then).then_some(*pointer)
    }
}

/// An object's state.
pub(crate) struct State {
    /// The dnode's fields, newest.
    pub(crate) header: DnodeHeader,
    /// The block tree as last synced.
    pub(crate) tree: Tree,
    pub(crate) footprint: Footprint,
    /// What owners are charged for this object, as last synced.
    pub(crate) charge: Option<Charge>,
    /// Rises whenever `tree` is swapped: what was read through the old one may be out of date.
    pub(crate) generation: u64,
    pub(crate) slots: [Option<Box<SlotState>>; Txg::SLOTS],
}

/// Where the newest contents of a block are.
pub(crate) enum Newest {
    /// Unsynced, here.
    Dirty(Buffer),
    /// In a stored block that this unsynced txg refers to.
    Stored(Box<BlockPointer>, Txg),
    /// Unsynced, and sealed or left out: it cannot be read.
    Sealed,
    /// A hole.
    Hole,
    /// Wherever the tree says.
    OnDisk,
}

impl State {
    pub(crate) fn new(header: DnodeHeader, tree: Tree, footprint: Footprint) -> Self {
        let charge = footprint
            .flags
            .contains(DnodeFlags::USER_ACCOUNTED)
            .then(|| OwnerIds::of_bonus(header.bonus_type, header.bonus_bytes()))
            .flatten()
            .map(|owners| Charge {
                owners,
                bytes: footprint.used_bytes,
            });
        let slots = [const { None }; Txg::SLOTS];
        Self {
            header,
            tree,
            footprint,
            charge,
            generation: 0,
            slots,
        }
    }

    /// The unsynced txgs, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &SlotState> {
        let mut order: [Option<&SlotState>; Txg::SLOTS] = [None; Txg::SLOTS];
        let mut count = 0;
        for slot in self.slots.iter().flatten() {
            order[count] = Some(slot);
            count += 1;
        }
        order[..count].sort_unstable_by_key(|slot| std::cmp::Reverse(slot.map(|slot| slot.txg)));
        order.into_iter().flatten()
    }

    pub(crate) fn newest_txg(&self) -> Option<Txg> {
        self.slots.iter().flatten().map(|slot| slot.txg).max()
    }

    pub(crate) fn has_dirty_data(&self) -> bool {
        self.slots
            .iter()
            .flatten()
            .any(|slot| !slot.blocks.is_empty() || !slot.freed.is_empty())
    }

    /// The first block at or after `block` that some unsynced txg wrote.
    pub(crate) fn dirty_from(&self, block: u64) -> Option<u64> {
        let slots = self.slots.iter().flatten();
        slots
            .filter_map(|slot| slot.blocks.range(block..).next().map(|(&block, _)| block))
            .min()
    }

    /// Where the newest contents of `block` are.
    pub(crate) fn newest(&self, block: u64) -> Newest {
        for slot in self.newest_first() {
            match slot.blocks.get(&block) {
                Some(DirtyBlock::Data(data)) => return Newest::Dirty(data.clone()),
                Some(DirtyBlock::Stored(pointer)) => {
                    return Newest::Stored(pointer.clone(), slot.txg);
                }
                Some(DirtyBlock::Sealed(_) | DirtyBlock::Redacted) => return Newest::Sealed,
                None => {}
            }
            if slot.freed.contains(block) {
                return Newest::Hole;
            }
        }
        if self.tree.is_empty() || block > self.tree.max_block {
            return Newest::Hole;
        }
        Newest::OnDisk
    }

    /// Whether a block is there that `txg` has not changed, and that can be read.
    pub(crate) fn is_as_before(&self, txg: Txg, block: u64) -> bool {
        let is_changed = self
            .slot(txg)
            .is_some_and(|slot| slot.blocks.contains_key(&block));
        let is_there = match self.newest(block) {
            Newest::Dirty(_) | Newest::Stored(..) | Newest::OnDisk => true,
            Newest::Sealed | Newest::Hole => false,
        };
        !is_changed && is_there
    }

    /// The stored blocks that unsynced txgs refer to in a range, as the newest of them leaves it.
    pub(crate) fn stored_in(&self, first: u64, last: u64) -> BTreeMap<u64, BlockPointer> {
        let mut found = BTreeMap::new();
        for slot in self.slots.iter().flatten() {
            for (&block, dirty) in slot.blocks.range(first..=last) {
                if matches!(dirty, DirtyBlock::Stored(_))
                    && let Newest::Stored(pointer, _) = self.newest(block)
                {
                    found.insert(block, *pointer);
                }
            }
        }
        found
    }

    /// Whether the object has a spill block, unsynced changes included.
    pub(crate) fn has_spill(&self) -> bool {
        for slot in self.newest_first() {
            match slot.spill {
                Some(SpillChange::Set(_) | SpillChange::Sealed(_)) => return true,
                Some(SpillChange::Remove) => return false,
                None => {}
            }
        }
        self.footprint.spill.is_some()
    }

    /// The fields, to be changed in `txg`: older unsynced txgs keep their own copy first.
    pub(crate) fn header_mut(&mut self, txg: Txg) -> &mut DnodeHeader {
        for slot in self.slots.iter_mut().flatten() {
            if slot.txg < txg && slot.header.is_none() {
                slot.header = Some(Box::new(self.header.clone()));
            }
        }
        &mut self.header
    }

    /// The changes of `txg`, if there are any.
    pub(crate) fn slot_mut(&mut self, txg: Txg) -> Option<&mut SlotState> {
        self.slots[txg.slot()]
            .as_deref_mut()
            .filter(|slot| slot.txg == txg)
    }

    pub(crate) fn slot(&self, txg: Txg) -> Option<&SlotState> {
        self.slots[txg.slot()]
            .as_deref()
            .filter(|slot| slot.txg == txg)
    }
}
