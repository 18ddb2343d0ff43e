//! Records of raw streams: blocks of an encrypted dataset as they are stored, which takes no key.
//!
//! What proves a block covers its place in the tree too: the shape of each object, with its levels and its last block,
//! and the dnodes beside it. So all of that becomes what it was where it came from, and what is wrong in the stream is
//! found when the key is loaded.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use codec::Compression;
use dmu::{AllocateObject, DmuError, Object, ObjectInfo, Reservation, SealedBlock, Tx};
use format::ObjectType;
use format::block_pointer::SealedForm;
use format::dnode::{BLOCK_SIZE, LEVELS_MAX, SLOTS_PER_BLOCK, bonus_capacity, pointer_count_for};
use format::stream::{
    OBJECT_HAS_SPILL, ObjectRangeRecord, ObjectRecord, RAW_BYTE_SWAP, SpillRecord, WriteRecord,
};
use sys::BufferMut;

use super::ReceiveError;
use super::apply::{Applier, BLOCK_MAX};
use super::objects::{CHECKSUMS, COMPRESSIONS, SLOTS_MAX, kind_of_object, placed};

type Result<T, E = ReceiveError> = std::result::Result<T, E>;

/// What a raw stream says of an object, checked.
struct Wanted<'a> {
    id: ObjectId,
    shape: AllocateObject,
    checksum: u8,
    compression: u8,
    levels: u8,
    max_block: u64,
    /// All bytes that there is room for.
    bonus: &'a [u8],
    has_spill: bool,
}

impl<'a> Wanted<'a> {
    fn of(record: &ObjectRecord, bonus: &'a [u8]) -> Result<Self> {
        let slots = record.slots.max(1);
        let bonus_len = u16::try_from(record.bonus_length).unwrap_or(u16::MAX);
        let bonus_kind = u8::try_from(record.bonus_kind).map_or(ObjectType(u8::MAX), ObjectType);
        let has_spill = record.flags & OBJECT_HAS_SPILL != 0;
        let pointers = pointer_count_for(usize::from(slots), bonus_kind, usize::from(bonus_len));
        let capacity = bonus_capacity(usize::from(slots), pointers, has_spill);
        let is_valid = record.checksum < CHECKSUMS
            && record.compression < COMPRESSIONS
            && record.block_size.is_multiple_of(512)
            && (512..=BLOCK_MAX).contains(&u64::from(record.block_size))
            && slots <= SLOTS_MAX
            && record.pointers == pointers
            && (12..=17).contains(&record.indirect_shift)
            && (1..=LEVELS_MAX).contains(&record.levels)
            && (record.max_block == 0 || record.block_size.is_power_of_two())
            && (bonus.is_empty() || bonus.len() == capacity)
            && usize::from(bonus_len) <= bonus.len()
            && (bonus_kind == ObjectType::NONE || bonus_kind.is_valid());
        if !is_valid {
            return Err(ReceiveError::Invalid("an object of no valid shape"));
        }
        Ok(Self {
            id: record.object,
            shape: placed(
                record.object,
                AllocateObject {
                    object_type: kind_of_object(record.kind)?,
                    block_size: record.block_size,
                    indirect_shift: record.indirect_shift,
                    bonus_type: bonus_kind,
                    bonus_len,
                    slots,
                },
            )?,
            checksum: record.checksum,
            compression: record.compression,
            levels: record.levels,
            max_block: record.max_block,
            bonus,
            has_spill,
        })
    }

    /// Whether a dnode can take this shape without being made anew.
    fn fits(&self, info: &ObjectInfo) -> bool {
        let slots = self.shape.slots;
        let bonus_len = usize::from(self.shape.bonus_len);
        let pointers = pointer_count_for(usize::from(slots), self.shape.bonus_type, bonus_len);
        info.slots == slots
            && usize::from(info.bonus_capacity)
                == bonus_capacity(usize::from(slots), pointers, false)
            && info.indirect_shift == self.shape.indirect_shift
            && info.levels <= self.levels
    }
}

impl Applier<'_> {
    /// What the next block of dnodes is sealed with.
    pub(super) fn object_range(&mut self, record: &ObjectRangeRecord) -> Result<()> {
        const SLOTS: u64 = SLOTS_PER_BLOCK as u64;
        if !self.substream.is_sealed {
            return Err(ReceiveError::Invalid("a range of raw objects"));
        }
        if !record.first.0.is_multiple_of(SLOTS) || record.slots != SLOTS {
            return Err(ReceiveError::Invalid("a range that is no block of dnodes"));
        }
        self.check_order(record.flags)?;
        let form = SealedForm {
            lsize: BLOCK_SIZE as u64,
            compression: Compression::Off,
            salt: record.salt,
            iv: record.iv,
            mac: record.mac,
        };
        self.set.seal_dnodes(record.first.0 / SLOTS, form);
        Ok(())
    }

    /// Blocks are kept in the order that they were written in.
    fn check_order(&self, flags: u8) -> Result<()> {
        let is_swapped = flags & RAW_BYTE_SWAP != 0;
        if is_swapped == (self.order == ByteOrder::NATIVE) {
            let what = "encrypted blocks of the other byte order";
            return Err(ReceiveError::Unsupported(what));
        }
        Ok(())
    }

    /// An object that comes into being, changes its shape, or stays.
    pub(super) fn sealed_object(&mut self, record: &ObjectRecord, bonus: &[u8]) -> Result<()> {
        let wanted = Wanted::of(record, bonus)?;
        self.check_order(record.flags)?;
        if !self.set.has_seal(wanted.id.0 / SLOTS_PER_BLOCK as u64)? {
            return Err(ReceiveError::Invalid("an object outside of its range"));
        }
        self.highest = self.highest.max(wanted.id);
        self.note_object(wanted.id);
        self.max_block = wanted.max_block;
        self.empty_slots(wanted.id, wanted.shape.slots)?;
        let existing = match self.set.object(wanted.id) {
            Err(DmuError::NoSuchObject { .. }) => None,
            found => Some(found?),
        };
        if let Some(existing) = existing {
            if wanted.fits(&existing.info()) {
                return self.change_sealed(&existing, &wanted);
            }
            drop(existing);
            self.free_one(wanted.id)?;
            self.wait_synced()?;
        }
        self.create_as(wanted.id, &wanted.shape, |applier, tx, object| {
            applier.dress_sealed(tx, object, &wanted)
        })
    }

    fn change_sealed(&self, object: &Arc<Object>, wanted: &Wanted<'_>) -> Result<()> {
        let info = object.info();
        let size = wanted.shape.block_size;
        if info.block_size != size {
            self.cut(object, 0, u64::MAX)?;
        }
        let tx = self.begin_object()?;
        if info.object_type != wanted.shape.object_type {
            object.set_type(&tx, wanted.shape.object_type)?;
        }
        if info.block_size != size {
            object.set_block_size(&tx, size, 0)?;
        }
        if info.has_spill && !wanted.has_spill {
            object.set_spill(&tx, None)?;
        }
        self.dress_sealed(&tx, object, wanted)
    }

    /// What a new object gets, and one that stays.
    fn dress_sealed(&self, tx: &Tx, object: &Arc<Object>, wanted: &Wanted<'_>) -> Result<()> {
        let info = object.info();
        if (info.checksum, info.compress) != (wanted.checksum, wanted.compression) {
            object.set_overrides(tx, wanted.checksum, wanted.compression)?;
        }
        let shape = &wanted.shape;
        object.set_sealed_bonus(tx, shape.bonus_type, shape.bonus_len, wanted.bonus)?;
        object.raise(tx, wanted.levels, wanted.max_block)?;
        self.note_slots(shape.slots)?;
        self.note(tx, wanted.id, 0);
        Ok(())
    }

    /// An object whose end was freed has its last block where the stream says all the same.
    pub(super) fn keep_length(&self, object: &Arc<Object>) -> Result<()> {
        if object.info().max_block >= self.max_block {
            return Ok(());
        }
        let tx = self.begin_object()?;
        Ok(object.raise(&tx, 0, self.max_block)?)
    }

    /// A block of data as it is stored.
    pub(super) fn write_sealed(
        &mut self,
        object: &Arc<Object>,
        record: &WriteRecord,
        payload: BufferMut,
    ) -> Result<()> {
        self.check_order(record.flags)?;
        let size = u64::from(object.block_size());
        if record.logical_size != size || !record.offset.is_multiple_of(size) {
            return Err(ReceiveError::Invalid(
                "a block of another size than the object's",
            ));
        }
        let form = SealedForm {
            lsize: size,
            compression: compression(record.compression)?,
            salt: record.salt,
            iv: record.iv,
            mac: record.mac,
        };
        let write_bytes = payload.len() as u64;
        let sealed = sealed_block(form, record.compressed_size, payload)?;
        self.comes_next(object.id(), record.offset)?;
        let tx = self.begin(Reservation {
            write_bytes,
            block_bytes: object.block_size(),
            objects: 1,
            ..Reservation::default()
        })?;
        object.write_sealed(&tx, record.offset / size, sealed)?;
        self.note(&tx, object.id(), record.offset);
        Ok(())
    }

    /// A spill block as it is stored.
    pub(super) fn set_sealed_spill(
        &self,
        object: &Arc<Object>,
        record: &SpillRecord,
        payload: BufferMut,
    ) -> Result<()> {
        self.check_order(record.flags)?;
        let form = SealedForm {
            lsize: record.length,
            compression: compression(record.compression)?,
            salt: record.salt,
            iv: record.iv,
            mac: record.mac,
        };
        let write_bytes = payload.len() as u64;
        let sealed = sealed_block(form, record.compressed_size, payload)?;
        let tx = self.begin(Reservation {
            write_bytes,
            objects: 1,
            ..Reservation::default()
        })?;
        Ok(object.set_sealed_spill(&tx, sealed)?)
    }
}

/// How the contents of a stored block are compressed.
fn compression(number: u8) -> Result<Compression> {
    let found = Compression::from_id(number).ok();
    let found = found.filter(|found| *found != Compression::Empty);
    found.ok_or(ReceiveError::Invalid("no such compression"))
}

/// A stored block, if it has the size that the record says and a block can have.
fn sealed_block(form: SealedForm, size: u64, payload: BufferMut) -> Result<SealedBlock> {
    let stored = payload.len() as u64;
    let is_sized = if form.compression == Compression::Off {
        stored == form.lsize
    } else {
        stored <= form.lsize
    };
    let is_valid = stored == size
        && is_sized
        && stored != 0
        && stored.is_multiple_of(512)
        && form.lsize.is_multiple_of(512)
        && form.lsize <= BLOCK_MAX;
    if !is_valid {
        return Err(ReceiveError::Invalid("a stored block of no valid size"));
    }
    Ok(SealedBlock {
        stored: payload.freeze(),
        form,
    })
}
