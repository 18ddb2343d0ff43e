//! What is stored of a removal: the mapping, when what was copied, and how far it has come.

use std::sync::Arc;

use base::{ByteOrder, ObjectId, Txg};
use dmu::{AllocateObject, Object, ObjectSet, Tx};
use format::ObjectType;
use format::config::{directory, keys};
use format::indirect::{
    BirthEntryPhys, BirthsPhys, MappingEntry, MappingEntryPhys, MappingPhys, Removing,
};
use format::zap::Value;

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;

const BLOCK_SIZE: u32 = 128 << 10;

/// The objects of a removal.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) mapping: Arc<Object>,
    pub(super) births: Arc<Object>,
    /// With numbers of what is not used any more, where the pool has that feature.
    pub(super) counts: Option<Arc<Object>>,
}

fn shape(object_type: ObjectType, bonus: usize) -> AllocateObject {
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

impl Stored {
    /// Makes them, empty.
    pub(super) fn create(mos: &Arc<ObjectSet>, tx: &Tx, with_counts: bool) -> Result<Self> {
        let words = ObjectType::OTN_U64_METADATA;
        let (size, counts) = if with_counts {
            let counts = mos.allocate(tx, &shape(ObjectType::OTN_U32_METADATA, 0))?;
            (MappingPhys::SIZE, Some(counts))
        } else {
            (MappingPhys::SIZE_PLAIN, None)
        };
        let mapping = mos.allocate(tx, &shape(words, size))?;
        let births = mos.allocate(tx, &shape(words, BirthsPhys::SIZE))?;
        let phys = MappingPhys {
            max_offset: 0,
            mapped: 0,
            entries: 0,
            counts: counts.as_ref().map_or(0, |counts| counts.id().0),
        };
        mapping.modify_bonus(tx, |bonus| phys.encode(bonus, ByteOrder::NATIVE))?;
        Ok(Self {
            mapping,
            births,
            counts,
        })
    }

    /// Opens those of a vdev that is being removed.
    pub(super) fn open(mos: &Arc<ObjectSet>, top: &VdevConfig) -> Result<Self> {
        let object = |key: &str| {
            let text = || PoolError::Damaged(format!("vdev {} has no {key}", top.id()));
            let id = top.object(key).ok_or_else(text)?;
            Ok::<_, PoolError>(mos.object(id)?)
        };
        let mapping = object(keys::INDIRECT_OBJECT)?;
        let phys = mapping.with_bonus(|bonus| MappingPhys::decode_padded(bonus, ByteOrder::NATIVE));
        let counts = Some(ObjectId(phys.counts)).filter(|id| id.0 != 0);
        Ok(Self {
            births: object(keys::INDIRECT_BIRTHS)?,
            counts: counts.map(|id| mos.object(id)).transpose()?,
            mapping,
        })
    }

    /// Adds entries that were copied in the txg that syncs.
    pub(super) fn add(&self, tx: &Tx, entries: &[MappingEntry]) -> Result<()> {
        let Some(last) = entries.last() else {
            return Ok(());
        };
        let order = ByteOrder::NATIVE;
        let mut phys = self
            .mapping
            .with_bonus(|bonus| MappingPhys::decode_padded(bonus, order));
        let size = MappingEntryPhys::SIZE;
        let mut bytes = vec![0; entries.len() * size];
        for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(size)) {
            entry.encode(bytes, order);
            phys.mapped = phys.mapped.saturating_add(entry.destination.asize);
        }
        let at = phys.entries.saturating_mul(size as u64);
        self.mapping.write(tx, at, &bytes)?;
        if let Some(counts) = &self.counts {
            let at = phys.entries.saturating_mul(4);
            counts.write(tx, at, &vec![0; entries.len() * 4])?;
        }
        phys.entries = phys.entries.saturating_add(entries.len() as u64);
        phys.max_offset = last.source.saturating_add(last.destination.asize);
        self.mapping
            .modify_bonus(tx, |bonus| phys.encode(bonus, order))?;
        self.add_birth(tx, phys.max_offset)
    }

    fn add_birth(&self, tx: &Tx, end: u64) -> Result<()> {
        let order = ByteOrder::NATIVE;
        let count = self
            .births
            .with_bonus(|bonus| BirthsPhys::decode_padded(bonus, order).entries);
        let mut bytes = [0; BirthEntryPhys::SIZE];
        let Txg(birth) = tx.txg();
        BirthEntryPhys { end, birth }.encode(&mut bytes, order);
        let at = count.saturating_mul(BirthEntryPhys::SIZE as u64);
        self.births.write(tx, at, &bytes)?;
        let entries = count.saturating_add(1);
        let phys = BirthsPhys { entries };
        Ok(self
            .births
            .modify_bonus(tx, |bonus| phys.encode(bonus, order))?)
    }

    /// Frees them.
    pub(super) fn destroy(&self, mos: &ObjectSet, tx: &Tx) -> Result<()> {
        for object in [&self.mapping, &self.births]
            .into_iter()
            .chain(&self.counts)
        {
            mos.free(tx, object.id())?;
        }
        Ok(())
    }
}

/// Stores how a removal stands.
pub(super) fn store(services: &PoolServices, tx: &Tx, removing: &Removing) -> Result<()> {
    let key = directory::REMOVING.as_bytes();
    let value = Value::words(&removing.to_words());
    Ok(services.directory.update_value(tx, key, &value)?)
}
