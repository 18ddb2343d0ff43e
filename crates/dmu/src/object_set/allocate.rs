//! Creating and freeing objects.

use std::sync::Arc;

use base::ObjectId;
use format::ObjectType;
use format::dnode::{DnodePhys, SLOTS_PER_BLOCK, Slot};

use super::ObjectSet;
use super::numbers::{Dnodes, Entered, NUMBERS_END};
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object::Object;
use crate::tx::Tx;

/// The shape of a new object.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocateObject {
    /// What the object is.
    pub object_type: ObjectType,
    /// Data block size in bytes; 0 = 512.
    pub block_size: u32,
    /// Log2 of the indirect block size; 0 = 17.
    pub indirect_shift: u8,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Slots of the dnode; 0 = 1.
    pub slots: u8,
}

impl AllocateObject {
    fn phys(&self) -> DnodePhys {
        const INDIRECT_SHIFT: u8 = 17;
        let shift = if self.indirect_shift == 0 {
            INDIRECT_SHIFT
        } else {
            self.indirect_shift
        };
        DnodePhys::new(
            self.object_type,
            self.block_size,
            shift,
            self.bonus_type,
            self.bonus_len,
            self.slots.max(1),
        )
    }

    fn slot_count(&self) -> u32 {
        u32::from(self.slots.clamp(1, SLOTS_PER_BLOCK as u8))
    }

    /// Whether an object can have that number: the numbers go so far, and a dnode lies in one block.
    #[must_use]
    pub fn fits_at(&self, id: ObjectId) -> bool {
        let place = id.0 % SLOTS_PER_BLOCK as u64;
        (1..NUMBERS_END).contains(&id.0)
            && place + u64::from(self.slot_count()) <= SLOTS_PER_BLOCK as u64
    }
}

impl ObjectSet {
    /// Creates an object under a free number.
    ///
    /// # Errors
    /// Dnodes cannot be read, or no number is left.
    pub fn allocate(&self, tx: &Tx, shape: &AllocateObject) -> Result<Arc<Object>> {
        self.require_writable()?;
        let (slots, phys) = (shape.slot_count(), shape.phys());
        let enter = |id, generation| self.enter(id, slots, generation, &phys);
        let object = self.numbers.hand_out(self, tx.txg(), slots, enter)?;
        METERS.objects_created.increment();
        self.enter_new(tx, &object)?;
        Ok(object)
    }

    /// Creates an object under a given number.
    ///
    /// # Errors
    /// The number is taken, or was freed in a txg that has not synced; dnodes cannot be read.
    pub fn claim(&self, tx: &Tx, id: ObjectId, shape: &AllocateObject) -> Result<Arc<Object>> {
        self.require_writable()?;
        let in_use = || DmuError::ObjectInUse {
            object_set: self.shared.id,
            object: id,
        };
        if !shape.fits_at(id) {
            return Err(in_use());
        }
        let (slots, phys) = (shape.slot_count(), shape.phys());
        let enter = |generation| self.enter(id, slots, generation, &phys);
        let object = self.numbers.claim(self, tx.txg(), id, slots, enter)?;
        let object = object.ok_or_else(in_use)?;
        self.enter_new(tx, &object)?;
        Ok(object)
    }

    /// Puts a new object into the core, if its slots are free there and the dnodes are those of `generation`.
    fn enter(
        &self,
        id: ObjectId,
        slots: u32,
        generation: u64,
        phys: &DnodePhys,
    ) -> Entered<Arc<Object>> {
        let others = id.0 + 1..id.0 + u64::from(slots);
        if others
            .into_iter()
            .any(|slot| self.table.peek(ObjectId(slot)).is_some())
        {
            return Entered::Taken;
        }
        let object = Object::create(&self.shared, id, phys);
        self.table
            .insert_new(object, || self.shared.meta.generation() == generation)
    }

    /// Makes a new object, which the table knows, part of the transaction.
    fn enter_new(&self, tx: &Tx, object: &Arc<Object>) -> Result<()> {
        let (table, made) = (Arc::clone(&self.table), Arc::clone(object));
        tx.on_undo(move || {
            made.unmake();
            table.remove_new(&made);
        });
        object.enter_new(tx)
    }

    /// Frees an object with all its blocks.
    ///
    /// # Errors
    /// There is no such object.
    pub fn free(&self, tx: &Tx, id: ObjectId) -> Result<()> {
        let object = self.object(id)?;
        object.free(tx)?;
        self.table.note_freed(tx.txg(), id);
        self.numbers.note_freed();
        Ok(())
    }

    fn require_writable(&self) -> Result<()> {
        if self.shared.is_writable() {
            Ok(())
        } else {
            Err(DmuError::ReadOnly {
                object_set: self.shared.id,
            })
        }
    }
}

impl Dnodes for ObjectSet {
    fn generation(&self) -> u64 {
        self.shared.meta.generation()
    }

    fn numbers_per_indirect(&self) -> u64 {
        (1 << self.shared.meta.entries_shift()) * SLOTS_PER_BLOCK as u64
    }

    fn objects_under(&self, indirect: u64) -> Result<u64> {
        Ok(self.shared.meta.pointer(&self.shared, 1, indirect)?.fill())
    }

    fn no_number_left(&self) -> DmuError {
        DmuError::Unsuitable {
            object_set: self.shared.id,
            object: ObjectId(0),
            what: "no object number is left",
        }
    }

    // The core is asked before the disk: an object that has left memory by then is in the dnodes that are read after.
    fn taken(&self, block: u64) -> Result<u32> {
        let base = block * SLOTS_PER_BLOCK as u64;
        let mut taken = 0u32;
        let mut take = |index: usize, slots: usize| {
            for slot in index..(index + slots).min(SLOTS_PER_BLOCK) {
                taken |= 1 << slot;
            }
        };
        for index in 0..SLOTS_PER_BLOCK {
            if let Some(object) = self.table.peek(ObjectId(base + index as u64)) {
                take(index, usize::from(object.info().slots));
            }
        }
        let pointer = self.shared.meta.pointer(&self.shared, 0, block)?;
        if pointer.is_hole() {
            return Ok(taken);
        }
        if pointer.fill() >= SLOTS_PER_BLOCK as u64 {
            return Ok(u32::MAX);
        }
        let data = self.shared.meta.read_block(&self.shared, block)?;
        for (index, slot) in format::dnode::slots(&data) {
            if let Slot::Allocated { slots } = slot {
                take(index, slots);
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
