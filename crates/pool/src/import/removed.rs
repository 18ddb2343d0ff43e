//! Vdevs that were removed: reading where what they held lies now.
//!
//! The vdev that was removed last is mapped by an object that lies on vdevs that are there; the object of one that was
//! removed before may lie on it. So they are read in that order, and a mapping leads only to vdevs that are there or
//! are mapped already: it cannot lead in a circle.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{ByteOrder, ObjectId, Txg, VdevId};
use dmu::{Object, ObjectSet, Zap};
use format::config::{directory, keys};
use format::indirect::{
    BirthEntryPhys, BirthsPhys, MappingEntry, MappingEntryPhys, MappingPhys, NO_VDEV, Removing,
};
use vdev::{MappingBuilder, VdevTree};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};

/// So much of an object is read at once.
const READ_BYTES: usize = 1 << 20;
/// Nobody removes a vdev in more txgs.
const BIRTHS_MAX: u64 = 1 << 24;

/// How the removal of a vdev stands, as the directory has it.
pub(crate) fn removing(directory: &Zap) -> Result<Option<Removing>> {
    let value = directory.lookup_value(directory::REMOVING.as_bytes())?;
    let Some(value) = value else { return Ok(None) };
    let words = value.stored().chunks_exact(8);
    let words: Vec<u64> = words
        .map(|word| format::record::get_at(word, 0, ByteOrder::Big))
        .collect();
    let found = Removing::from_words(&words);
    let damaged = || PoolError::Damaged("what it says of a removal has another size".to_owned());
    found.map(Some).ok_or_else(damaged)
}

/// Tells the tree where what removed vdevs held lies.
pub(crate) fn load(
    mos: &ObjectSet,
    directory: &Zap,
    root: &VdevConfig,
    vdevs: &Arc<VdevTree>,
) -> Result<()> {
    let removed = root.children.iter().filter(|top| top.is_indirect());
    let mut left: BTreeSet<VdevId> = removed.map(VdevConfig::id).collect();
    if left.is_empty() {
        return Ok(());
    }
    let mut next = removing(directory)?.map(|removing| removing.last);
    while let Some(id) = next.filter(|id| *id != NO_VDEV).map(VdevId) {
        if !left.remove(&id) {
            let text = format!("the chain of removed vdevs leads to vdev {id}");
            return Err(PoolError::Damaged(text));
        }
        let top = root.children.iter().find(|top| top.id() == id);
        let top = top.ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let births = read_births(&*object(mos, top, keys::INDIRECT_BIRTHS)?)?;
        let mapping = read_mapping(mos, top, vdevs)?.finish(births);
        vdevs.set_mapping(id, mapping)?;
        next = top.list.u64(keys::PREVIOUS_INDIRECT);
    }
    match left.first() {
        None => Ok(()),
        Some(id) => Err(PoolError::Damaged(format!(
            "vdev {id} was removed, and is not in the chain of those"
        ))),
    }
}

fn object(mos: &ObjectSet, top: &VdevConfig, key: &str) -> Result<Arc<Object>> {
    let id: Option<ObjectId> = top.object(key);
    let missing = || PoolError::Damaged(format!("vdev {} was removed, and has no {key}", top.id()));
    Ok(mos.object(id.ok_or_else(missing)?)?)
}

/// Reads records of a fixed size from the beginning of an object, of which its bonus says how many there are.
fn records(
    object: &Object,
    count: u64,
    size: usize,
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let info = object.info();
    let there = (info.max_block.saturating_add(1)).saturating_mul(info.block_size.into());
    let bytes = count.checked_mul(size as u64);
    let bytes = bytes.filter(|bytes| *bytes <= there).ok_or_else(|| {
        let id = object.id();
        PoolError::Damaged(format!("object {id} says that it has {count} records"))
    })?;
    let whole = READ_BYTES / size * size;
    let (mut buffer, mut at) = (Vec::new(), 0);
    while at < bytes {
        let length = usize::try_from(bytes - at).unwrap_or(whole).min(whole);
        buffer.resize(length, 0);
        object.read(at, &mut buffer)?;
        buffer.chunks_exact(size).try_for_each(&mut *visit)?;
        at += length as u64;
    }
    Ok(())
}

/// The mapping of a vdev that was removed, or of what was copied so far of one that is being removed.
pub(crate) fn read_mapping(
    mos: &ObjectSet,
    top: &VdevConfig,
    vdevs: &VdevTree,
) -> Result<MappingBuilder> {
    mapping_in(&*object(mos, top, keys::INDIRECT_OBJECT)?, top, vdevs)
}

/// The mapping of a vdev, or the beginning of one, that an object has.
pub(crate) fn mapping_in(
    object: &Object,
    top: &VdevConfig,
    vdevs: &VdevTree,
) -> Result<MappingBuilder> {
    let phys = object.with_bonus(|bonus| MappingPhys::decode_padded(bonus, ByteOrder::NATIVE));
    let mut builder = MappingBuilder::new(top.id(), top.asize());
    let wrong = |text: String| PoolError::Damaged(text);
    records(object, phys.entries, MappingEntryPhys::SIZE, &mut |bytes| {
        let entry = MappingEntry::decode(bytes, ByteOrder::NATIVE);
        let empty = || {
            wrong(format!(
                "vdev {}: an entry of its mapping is empty",
                top.id()
            ))
        };
        let entry = entry.ok_or_else(empty)?;
        let pushed = builder.push(&entry, &|id| vdevs.destination(id));
        pushed.map_err(|error| wrong(error.to_string()))
    })?;
    Ok(builder)
}

/// Up to which offset what was copied in which txg.
pub(crate) fn read_births(object: &Object) -> Result<Vec<(u64, Txg)>> {
    let phys = object.with_bonus(|bonus| BirthsPhys::decode_padded(bonus, ByteOrder::NATIVE));
    let mut births: Vec<(u64, Txg)> = Vec::new();
    let damaged = || {
        let id = object.id();
        PoolError::Damaged(format!("object {id}: when what was copied is out of order"))
    };
    if phys.entries > BIRTHS_MAX {
        return Err(damaged());
    }
    records(object, phys.entries, BirthEntryPhys::SIZE, &mut |bytes| {
        let entry = BirthEntryPhys::decode_padded(bytes, ByteOrder::NATIVE);
        if births.last().is_some_and(|(end, _)| *end >= entry.end) {
            return Err(damaged());
        }
        births.push((entry.end, Txg(entry.birth)));
        Ok(())
    })?;
    Ok(births)
}
