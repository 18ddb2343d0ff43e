//! What is stored of a removal: the mapping, when what was copied, and how far it has come.

use std::sync::Arc;

use base::{ByteOrder, Txg};
use dmu::{Object, ObjectSet, Tx};
use format::ObjectType;
use format::config::{directory, keys};
use format::indirect::{BirthEntryPhys, BirthsPhys, MappingEntry, Removing};
use format::zap::Value;

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::mos::mapping::{MappingObject, shape};
use crate::pool::services::PoolServices;

/// The objects of a removal.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) mapping: MappingObject,
    pub(super) births: Arc<Object>,
}

impl Stored {
    /// Makes them, empty.
    pub(super) fn create(mos: &Arc<ObjectSet>, tx: &Tx, with_counts: bool) -> Result<Self> {
        let mapping = MappingObject::create(mos, tx, with_counts)?;
        let shape = shape(ObjectType::OTN_U64_METADATA, BirthsPhys::SIZE);
        let births = mos.allocate(tx, &shape)?;
        Ok(Self { mapping, births })
    }

    /// Opens those of a vdev that is being removed.
    pub(super) fn open(mos: &Arc<ObjectSet>, top: &VdevConfig) -> Result<Self> {
        let object = |key: &str| {
            let text = || PoolError::Damaged(format!("vdev {} has no {key}", top.id()));
            top.object(key).ok_or_else(text)
        };
        Ok(Self {
            mapping: MappingObject::open(mos, object(keys::INDIRECT_OBJECT)?)?,
            births: mos.object(object(keys::INDIRECT_BIRTHS)?)?,
        })
    }

    /// Adds entries that were copied in the txg that syncs.
    pub(super) fn add(&self, tx: &Tx, entries: &[MappingEntry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let in_use: Vec<_> = entries.iter().map(|entry| (*entry, 0)).collect();
        let end = self.mapping.add(tx, &in_use)?;
        self.add_birth(tx, end)
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
        self.mapping.destroy(mos, tx)?;
        Ok(mos.free(tx, self.births.id())?)
    }
}

/// Stores how a removal stands.
pub(super) fn store(services: &PoolServices, tx: &Tx, removing: &Removing) -> Result<()> {
    let key = directory::REMOVING.as_bytes();
    let value = Value::words(&removing.to_words());
    Ok(services.directory.update_value(tx, key, &value)?)
}
