//! The mapping of a removed vdev as an object, with the numbers of what of its entries is obsolete.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use dmu::{AllocateObject, Object, ObjectSet, Tx};
use format::ObjectType;
use format::indirect::{MappingEntry, MappingEntryPhys, MappingPhys};

use crate::error::Result;

const BLOCK_SIZE: u32 = 128 << 10;
const COUNT_SIZE: u64 = size_of::<u32>() as u64;

/// See the module.
#[derive(Clone)]
pub(crate) struct MappingObject {
    entries: Arc<Object>,
    /// With numbers of what is not used any more, where the pool has that feature.
    counts: Option<Arc<Object>>,
}

/// What a new object with records of a removed vdev looks like.
pub(crate) fn shape(object_type: ObjectType, bonus: usize) -> AllocateObject {
    let bonus_type = if bonus == 0 {
        ObjectType::NONE
    } else {
        ObjectType::OTN_U64_METADATA
    };
    AllocateObject {
        object_type,
        block_size: BLOCK_SIZE,
        bonus_type,
        bonus_len: u16::try_from(bonus).unwrap_or(u16::MAX),
        ..AllocateObject::default()
    }
}

impl MappingObject {
    /// Makes one, empty.
    pub(crate) fn create(mos: &Arc<ObjectSet>, tx: &Tx, with_counts: bool) -> Result<Self> {
        let (size, counts) = if with_counts {
            let counts = mos.allocate(tx, &shape(ObjectType::OTN_U32_METADATA, 0))?;
            (MappingPhys::SIZE, Some(counts))
        } else {
            (MappingPhys::SIZE_PLAIN, None)
        };
        let entries = mos.allocate(tx, &shape(ObjectType::OTN_U64_METADATA, size))?;
        let phys = MappingPhys {
            max_offset: 0,
            mapped: 0,
            entries: 0,
            counts: counts.as_ref().map_or(0, |counts| counts.id().0),
        };
        entries.modify_bonus(tx, |bonus| phys.encode(bonus, ByteOrder::NATIVE))?;
        Ok(Self { entries, counts })
    }

    /// Opens one.
    pub(crate) fn open(mos: &Arc<ObjectSet>, id: ObjectId) -> Result<Self> {
        let entries = mos.object(id)?;
        let phys = entries.with_bonus(|bonus| MappingPhys::decode_padded(bonus, ByteOrder::NATIVE));
        let counts = Some(ObjectId(phys.counts)).filter(|id| id.0 != 0);
        Ok(Self {
            counts: counts.map(|id| mos.object(id)).transpose()?,
            entries,
        })
    }

    /// The object with the entries.
    pub(crate) const fn entries(&self) -> &Arc<Object> {
        &self.entries
    }

    /// Whether it has numbers of what is obsolete.
    pub(crate) const fn has_counts(&self) -> bool {
        self.counts.is_some()
    }

    /// What its bonus says.
    pub(crate) fn phys(&self) -> MappingPhys {
        let entries = &self.entries;
        entries.with_bonus(|bonus| MappingPhys::decode_padded(bonus, ByteOrder::NATIVE))
    }

    /// Of so many entries from the one of that number on: how many bytes are obsolete.
    pub(crate) fn counts(&self, first: usize, count: usize) -> Result<Vec<u32>> {
        let Some(counts) = &self.counts else {
            return Ok(vec![0; count]);
        };
        let mut bytes = vec![0; count * size_of::<u32>()];
        counts.read((first as u64).saturating_mul(COUNT_SIZE), &mut bytes)?;
        let words = bytes.as_chunks().0.iter();
        Ok(words.map(|word| u32::from_ne_bytes(*word)).collect())
    }

    /// Adds entries, each with the number of its bytes that are obsolete. Answers where the last one ends.
    pub(crate) fn add(&self, tx: &Tx, added: &[(MappingEntry, u32)]) -> Result<u64> {
        let order = ByteOrder::NATIVE;
        let mut phys = self.phys();
        let size = MappingEntryPhys::SIZE;
        let mut bytes = vec![0; added.len() * size];
        for ((entry, _), bytes) in added.iter().zip(bytes.chunks_exact_mut(size)) {
            entry.encode(bytes, order);
            phys.mapped = phys.mapped.saturating_add(entry.destination.asize);
            phys.max_offset = entry.source.saturating_add(entry.destination.asize);
        }
        if added.is_empty() {
            return Ok(phys.max_offset);
        }
        let at = phys.entries.saturating_mul(size as u64);
        self.entries.write(tx, at, &bytes)?;
        if let Some(counts) = &self.counts {
            let words = added.iter().flat_map(|(_, count)| count.to_ne_bytes());
            let at = phys.entries.saturating_mul(COUNT_SIZE);
            counts.write(tx, at, &words.collect::<Vec<u8>>())?;
        }
        phys.entries = phys.entries.saturating_add(added.len() as u64);
        self.entries
            .modify_bonus(tx, |bonus| phys.encode(bonus, order))?;
        Ok(phys.max_offset)
    }

    /// Frees it, with its numbers.
    pub(crate) fn destroy(&self, mos: &ObjectSet, tx: &Tx) -> Result<()> {
        for object in std::iter::once(&self.entries).chain(&self.counts) {
            mos.free(tx, object.id())?;
        }
        Ok(())
    }
}
