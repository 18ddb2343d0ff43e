//! OBJECT records: objects that come into being, change their shape, or stay.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use dmu::{AllocateObject, DmuError, Object, ObjectInfo, Reservation, Tx};
use dsl::DatasetFeature;
use format::ObjectType;
use format::stream::{OBJECT_HAS_SPILL, ObjectRecord};

use super::ReceiveError;
use super::apply::{Applier, BLOCK_MAX, object_type};

type Result<T, E = ReceiveError> = std::result::Result<T, E>;

/// Checksums and compressions have lower numbers.
pub(super) const CHECKSUMS: u8 = 15;
pub(super) const COMPRESSIONS: u8 = 17;
/// Slots of a dnode, at most.
pub(super) const SLOTS_MAX: u8 = 32;

/// What a stream says of an object, checked.
struct Wanted {
    id: ObjectId,
    shape: AllocateObject,
    checksum: u8,
    compression: u8,
    bonus: Vec<u8>,
    has_spill: bool,
}

impl Wanted {
    fn of(record: &ObjectRecord, bonus: &[u8]) -> Result<Self> {
        let slots = record.slots.max(1);
        let bonus_len = u16::try_from(record.bonus_length).ok();
        let capacity = usize::from(slots) * 512 - 64 - 128;
        let bonus_len = bonus_len.filter(|len| usize::from(*len) <= capacity);
        let bonus_kind = u8::try_from(record.bonus_kind).ok().map(ObjectType);
        let is_valid = record.checksum < CHECKSUMS
            && record.compression < COMPRESSIONS
            && record.block_size.is_multiple_of(512)
            && (512..=BLOCK_MAX).contains(&u64::from(record.block_size))
            && slots <= SLOTS_MAX
            && record.flags & !OBJECT_HAS_SPILL == 0
            && record.raw_bonus_length == 0
            && (record.indirect_shift, record.levels, record.pointers) == (0, 0, 0)
            && record.max_block == 0;
        let (Some(bonus_len), Some(bonus_kind), true) = (bonus_len, bonus_kind, is_valid) else {
            return Err(ReceiveError::Invalid("an object of no valid shape"));
        };
        if bonus_kind != ObjectType::NONE && !bonus_kind.is_valid() {
            return Err(ReceiveError::Invalid("no such type of objects"));
        }
        let bonus = bonus.get(..usize::from(bonus_len)).unwrap_or(bonus);
        Ok(Self {
            id: record.object,
            shape: placed(
                record.object,
                AllocateObject {
                    object_type: kind_of_object(record.kind)?,
                    block_size: record.block_size,
                    indirect_shift: 0,
                    bonus_type: bonus_kind,
                    bonus_len,
                    slots,
                },
            )?,
            checksum: record.checksum,
            compression: record.compression,
            bonus: bonus.to_vec(),
            has_spill: record.flags & OBJECT_HAS_SPILL != 0,
        })
    }
}

/// A shape, if an object of that number can have it.
pub(super) fn placed(id: ObjectId, shape: AllocateObject) -> Result<AllocateObject> {
    let is_valid = shape.fits_at(id);
    is_valid
        .then_some(shape)
        .ok_or(ReceiveError::Invalid("an object of no valid number"))
}

/// The type of an object. A dnode of no type is a free one; and whoever follows pointers takes blocks of dnodes and
/// object sets for such, wherever they are.
pub(super) fn kind_of_object(number: u32) -> Result<ObjectType> {
    let kind = object_type(number)?;
    let is_none = [ObjectType::NONE, ObjectType::DNODE, ObjectType::OBJECT_SET].contains(&kind);
    (!is_none)
        .then_some(kind)
        .ok_or(ReceiveError::Invalid("no such type of objects"))
}

impl Applier<'_> {
    pub(super) fn object(&mut self, record: &ObjectRecord, bonus: &[u8]) -> Result<()> {
        let mut wanted = Wanted::of(record, bonus)?;
        self.swap(wanted.shape.bonus_type, &mut wanted.bonus);
        self.highest = self.highest.max(wanted.id);
        self.note_object(wanted.id);
        self.empty_slots(wanted.id, wanted.shape.slots)?;
        let existing = match self.set.object(wanted.id) {
            Err(DmuError::NoSuchObject { .. }) => None,
            found => Some(found?),
        };
        if let Some(existing) = existing {
            if fits(&existing.info(), &wanted.shape) {
                return self.change(&existing, &wanted);
            }
            drop(existing);
            self.free_one(wanted.id)?;
            self.wait_synced()?;
        }
        self.create(&wanted)
    }

    /// Frees the objects whose dnodes lie where one's of so many slots is to be.
    pub(super) fn empty_slots(&self, id: ObjectId, slots: u8) -> Result<()> {
        let mut freed = false;
        for slot in id.0 + 1..id.0 + u64::from(slots) {
            match self.set.object(ObjectId(slot)) {
                Err(DmuError::NoSuchObject { .. }) => {}
                found => {
                    drop(found?);
                    self.free_one(ObjectId(slot))?;
                    freed = true;
                }
            }
        }
        if freed {
            self.wait_synced()?;
        }
        Ok(())
    }

    fn create(&mut self, wanted: &Wanted) -> Result<()> {
        self.create_as(wanted.id, &wanted.shape, |applier, tx, object| {
            applier.dress(tx, object, wanted)
        })
    }

    /// Creates an object under its number, and gives it what it has in the same transaction.
    pub(super) fn create_as(
        &self,
        id: ObjectId,
        shape: &AllocateObject,
        dress: impl Fn(&Self, &Tx, &Arc<Object>) -> Result<()>,
    ) -> Result<()> {
        for last_try in [false, true] {
            let tx = self.begin_object()?;
            self.note_slots(shape.slots)?;
            match self.set.claim(&tx, id, shape) {
                // Its number may have been freed a moment ago.
                Err(DmuError::ObjectInUse { .. }) if !last_try => {
                    drop(tx);
                    self.wait_synced()?;
                }
                Err(DmuError::ObjectInUse { .. }) => {
                    return Err(ReceiveError::Invalid("an object in the place of another"));
                }
                made => {
                    return dress(self, &tx, &made?);
                }
            }
        }
        Ok(())
    }

    /// Gives an object the shape that the stream says, with its data as far as that allows.
    fn change(&self, object: &Arc<Object>, wanted: &Wanted) -> Result<()> {
        let info = object.info();
        let keeps_size = self.keeps_size(object, &info, wanted)?;
        if !keeps_size && info.block_size != wanted.shape.block_size {
            self.cut(object, 0, u64::MAX)?;
        }
        let tx = self.begin_object()?;
        if info.object_type != wanted.shape.object_type {
            object.set_type(&tx, wanted.shape.object_type)?;
        }
        if !keeps_size {
            object.set_block_size(&tx, wanted.shape.block_size, 0)?;
        }
        if info.has_spill && !wanted.has_spill && self.substream.says_spill {
            object.set_spill(&tx, None)?;
        }
        self.dress(&tx, object, wanted)
    }

    /// Whether an object keeps its block size, though the stream has another: a file of many blocks that was cut to
    /// smaller ones for an earlier stream.
    fn keeps_size(&self, object: &Object, info: &ObjectInfo, wanted: &Wanted) -> Result<bool> {
        let size = wanted.shape.block_size;
        if info.block_size == size {
            return Ok(true);
        }
        let is_file = info.object_type == ObjectType::PLAIN_FILE;
        if self.substream.is_full || !is_file || info.max_block == 0 {
            return Ok(false);
        }
        let before = object.with_bonus(|bytes| generation(info.bonus_type, bytes));
        if before != generation(wanted.shape.bonus_type, &wanted.bonus) {
            return Ok(false);
        }
        if size < info.block_size {
            return Err(ReceiveError::Invalid("a file whose blocks become smaller"));
        }
        Ok(true)
    }

    pub(super) fn begin_object(&self) -> Result<Tx> {
        self.begin(Reservation {
            objects: 1,
            ..Reservation::default()
        })
    }

    /// Notes that there is, or is about to be, an object of so many slots.
    pub(super) fn note_slots(&self, slots: u8) -> Result<()> {
        if slots > 1 {
            self.receiving.note_feature(DatasetFeature::LargeDnode)?;
        }
        Ok(())
    }

    /// What a new object gets, and one that stays.
    fn dress(&self, tx: &Tx, object: &Arc<Object>, wanted: &Wanted) -> Result<()> {
        let info = object.info();
        if (info.checksum, info.compress) != (wanted.checksum, wanted.compression) {
            object.set_overrides(tx, wanted.checksum, wanted.compression)?;
        }
        object.set_bonus(tx, wanted.shape.bonus_type, &wanted.bonus)?;
        self.note_slots(wanted.shape.slots)?;
        self.note(tx, wanted.id, 0);
        Ok(())
    }
}

/// Whether a dnode can take a shape without being made anew: its slots and the room for its bonus stay.
fn fits(info: &ObjectInfo, shape: &AllocateObject) -> bool {
    info.slots == shape.slots.max(1) && shape.bonus_len <= info.bonus_capacity
}

/// What tells a file from another one that had its number before.
fn generation(bonus: ObjectType, bytes: &[u8]) -> Option<u64> {
    const MAGIC: u32 = 0x002F_505A;
    const OF_ATTRIBUTES: usize = 16;
    const OF_ZNODE: usize = 64;
    let word = |at: usize, order: ByteOrder| {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(order.u64(*word))
    };
    if bonus == ObjectType::ZNODE {
        return word(OF_ZNODE, ByteOrder::NATIVE);
    }
    if bonus != ObjectType::SYSTEM_ATTRIBUTES {
        return None;
    }
    // A file untouched since another machine wrote it is still in that machine's order.
    let order = [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| {
            bytes
                .first_chunk()
                .is_some_and(|head| order.u32(*head) == MAGIC)
        })?;
    let layout = order.u16(*bytes.get(4..)?.first_chunk()?);
    word(usize::from(layout >> 10) * 8 + OF_ATTRIBUTES, order)
}
