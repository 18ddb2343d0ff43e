//! Vdevs that were removed: where what they held lies now. Nothing of the engine is used to find out.
//!
//! Labels do not know them; the configuration in the meta object set does. What cannot be read of a mapping, or
//! contradicts the rest, is left out: blocks that lie there are unreadable, and no others.

use std::sync::Arc;

use base::{ByteOrder, Guid, ObjectId, Txg, VdevId};
use format::config::{VdevType, directory, keys};
use format::indirect::{
    BirthEntryPhys, BirthsPhys, MappingEntry, MappingEntryPhys, MappingPhys, NO_VDEV, Removing,
};
use format::nvlist::NvList;
use vdev::{Interior, InteriorKind, MappingBuilder, Node, Top, TopConfig, VdevTree};

use super::{RawObject, RawPool};
use crate::error::Result;

/// So much of an object is read at once.
const READ_BYTES: usize = 1 << 20;

/// Adds the removed vdevs to the pool's tree, the one that was removed last first: the mappings of the others may lie
/// on it.
pub(super) fn load(pool: &RawPool) {
    let Ok(config) = pool.config() else { return };
    let tree = config.list(keys::VDEV_TREE);
    let tops = tree.map_or(&[][..], |tree| tree.lists(keys::CHILDREN));
    let removed: Vec<&NvList> = tops.iter().filter(|top| is_removed(top)).collect();
    let mut next = match last_removed(pool) {
        Ok(last) => last,
        Err(_) => return,
    };
    // A chain in a circle ends.
    for _ in 0..removed.len() {
        let has_id = |top: &&&NvList| top.u64(keys::ID) == next;
        let Some(top) = removed.iter().find(has_id) else {
            return;
        };
        add(pool, top);
        next = top.u64(keys::PREVIOUS_INDIRECT);
    }
}

fn is_removed(top: &NvList) -> bool {
    VdevType::of(top) == Some(VdevType::Indirect) && top.lists(keys::CHILDREN).is_empty()
}

/// Where the chain begins.
fn last_removed(pool: &RawPool) -> Result<Option<u64>> {
    let directory = pool.mos.object(directory::OBJECT)?;
    let value = directory.zap_lookup(directory::REMOVING.as_bytes())?;
    let removing = value.and_then(|value| Removing::from_words(&value.to_words()));
    let last = removing.map(|removing| removing.last);
    Ok(last.filter(|last| *last != NO_VDEV))
}

fn add(pool: &RawPool, config: &NvList) {
    let number = |key| config.u64(key).unwrap_or(0);
    let (id, guid) = (VdevId(number(keys::ID)), Guid(number(keys::GUID)));
    let top = TopConfig {
        id,
        guid,
        ashift: number(keys::ASHIFT).clamp(9, 16) as u32,
        asize: number(keys::ASIZE),
        is_log: false,
    };
    let asize = top.asize;
    let node = Node::Interior(Interior {
        guid,
        kind: InteriorKind::Indirect,
        children: Vec::new(),
    });
    let vdevs: &Arc<VdevTree> = pool.pipeline.vdevs();
    // Also over what the label of a device says that was part of it.
    vdevs.set(id, Some(Top::new(top, node)));
    let mut builder = MappingBuilder::new(id, asize);
    let mapping = object(pool, config, keys::INDIRECT_OBJECT);
    let _as_far_as_it_is_there = mapping.and_then(|object| {
        let phys = MappingPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
        let size = MappingEntryPhys::SIZE;
        records(&object, phys.entries, size, &mut |bytes| {
            let entry = MappingEntry::decode(bytes, ByteOrder::NATIVE);
            let _sound = entry.map(|entry| builder.push(&entry, &|id| vdevs.destination(id)));
        })
    });
    let births = object(pool, config, keys::INDIRECT_BIRTHS).and_then(|object| births(&object));
    let mapping = builder.finish(births.unwrap_or_default());
    let _is_removed = vdevs.set_mapping(id, mapping);
}

fn object(pool: &RawPool, config: &NvList, key: &str) -> Result<RawObject> {
    pool.mos.object(ObjectId(config.u64(key).unwrap_or(0)))
}

/// Visits the records of a fixed size that an object begins with, as far as they can be read.
fn records(
    object: &RawObject,
    count: u64,
    size: usize,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    let bytes = count.saturating_mul(size as u64).min(object.length_max());
    let mut at = 0;
    while at < bytes {
        let whole = (READ_BYTES / size * size) as u64;
        let data = object.read_at(at, whole.min(bytes - at) as usize)?;
        data.chunks_exact(size).for_each(&mut *visit);
        at += whole;
    }
    Ok(())
}

fn births(object: &RawObject) -> Result<Vec<(u64, Txg)>> {
    let phys = BirthsPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
    let mut births: Vec<(u64, Txg)> = Vec::new();
    records(object, phys.entries, BirthEntryPhys::SIZE, &mut |bytes| {
        let entry = BirthEntryPhys::decode_padded(bytes, ByteOrder::NATIVE);
        if births.last().is_none_or(|(end, _)| *end < entry.end) {
            births.push((entry.end, Txg(entry.birth)));
        }
    })?;
    Ok(births)
}
