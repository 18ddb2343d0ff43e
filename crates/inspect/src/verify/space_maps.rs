//! What the space maps say is allocated.

use std::ops::Range;

use base::{ByteOrder, ObjectId, VdevId};
use format::config::{directory, keys, vdev_zap};
use format::nvlist::NvList;
use format::record::get_at;
use format::space_map::{self, Action, Entry};
use layout::{Kind, Layout};

use super::usage::SectorSet;
use crate::error::{InspectError, Result};
use crate::raw::{RawObject, RawPool, ZapKey};

/// Log space maps count in sectors of 512 bytes, whatever the vdevs' are.
const LOG_SHIFT: u32 = 9;

/// Of a vdev whose devices are not there: 64 TiB.
const MISSING_ROOM_MAX: u64 = 1 << 46;

/// What is known of a top-level vdev for accounting.
pub(crate) struct TopSpace {
    pub(crate) id: u64,
    pub(crate) ashift: u32,
    pub(crate) asize: u64,
    pub(crate) metaslab_shift: u32,
    /// What places begin at multiples of.
    layout: Layout,
    pub(crate) class: &'static str,
    pub(crate) top_zap: Option<ObjectId>,
    metaslab_array: Option<ObjectId>,
    /// What the space maps say.
    pub(crate) allocated: SectorSet,
    /// What some pointer refers to.
    pub(crate) referenced: SectorSet,
}

/// An entry that contradicts those before it, or makes no sense.
#[derive(Clone, Debug)]
pub(crate) struct MapFault {
    pub(crate) vdev: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) problem: &'static str,
}

/// How large a vdev could be by each of its devices.
fn sizes(pool: &RawPool, id: u64) -> Vec<u64> {
    let Ok(top) = pool.pipeline.vdevs().top(VdevId(id)) else {
        return Vec::new();
    };
    let devices = top.leaves().iter().filter_map(|leaf| leaf.device());
    let by_device = |size| top.layout().size(size);
    devices.map(|device| by_device(device.size())).collect()
}

/// A vdev's layout; of one that is not there no more is known than its sectors.
fn layout(pool: &RawPool, id: u64, ashift: u32) -> Layout {
    let top = pool.pipeline.vdevs().top(VdevId(id));
    top.map_or_else(
        |_| Layout::new(Kind::Single, ashift),
        |top| top.layout().clone(),
    )
}

/// How many bytes of a vdev can be in use: it is no larger than its largest device makes it, whatever a configuration
/// says.
fn room(asize: u64, sizes: &[u64]) -> u64 {
    let largest = sizes.iter().max().copied();
    asize.min(largest.unwrap_or(MISSING_ROOM_MAX))
}

impl TopSpace {
    pub(crate) fn new(pool: &RawPool, config: &NvList) -> Result<Self> {
        let number = |key| config.u64(key).unwrap_or(0);
        let object = |key| config.u64(key).filter(|&id| id != 0).map(ObjectId);
        let ashift = number(keys::ASHIFT).clamp(9, 16) as u32;
        let asize = number(keys::ASIZE);
        let room = room(asize, &sizes(pool, number(keys::ID)));
        let top_zap = object(keys::VDEV_ZAP_TOP);
        let mut class = if number(keys::IS_LOG) != 0 {
            "log"
        } else {
            "normal"
        };
        if let Some(zap) = top_zap {
            let bias = pool
                .mos
                .object(zap)?
                .zap_lookup(vdev_zap::ALLOCATION_BIAS.as_bytes())?;
            class = match bias.as_ref().and_then(|bias| bias.as_text()) {
                Some("special") => "special",
                Some("dedup") => "dedup",
                Some("log") => "log",
                _ => class,
            };
        }
        Ok(Self {
            id: number(keys::ID),
            ashift,
            asize,
            metaslab_shift: number(keys::METASLAB_SHIFT).clamp(20, 60) as u32,
            layout: layout(pool, number(keys::ID), ashift),
            class,
            top_zap,
            metaslab_array: object(keys::METASLAB_ARRAY),
            allocated: SectorSet::new(room, ashift),
            referenced: SectorSet::new(room, ashift),
        })
    }

    pub(crate) fn metaslab_count(&self) -> u64 {
        self.asize >> self.metaslab_shift
    }

    /// Where a metaslab lies: what of its share of the vdev places can begin at. Its own map counts from there.
    pub(crate) fn metaslab(&self, index: usize) -> Range<u64> {
        self.layout.metaslab(index as u64, self.metaslab_shift)
    }

    /// The space map object of every metaslab; none for those never used.
    pub(crate) fn map_objects(&self, pool: &RawPool) -> Result<Vec<Option<ObjectId>>> {
        let Some(array) = self.metaslab_array else {
            return Ok(Vec::new());
        };
        let array = pool.mos.object(array)?;
        let count = self.metaslab_count().min(1 << 24) as usize;
        let bytes = array.read_at(0, count * 8)?;
        Ok((0..count)
            .map(|index| get_at::<u64>(&bytes, index * 8, ByteOrder::NATIVE))
            .map(|id| (id != 0).then_some(ObjectId(id)))
            .collect())
    }

    /// The table of [`TopSpace::unflushed_txgs`], if there is one.
    pub(crate) fn unflushed_object(&self, pool: &RawPool) -> Result<Option<ObjectId>> {
        let Some(zap) = self.top_zap else {
            return Ok(None);
        };
        let name = vdev_zap::UNFLUSHED_TXGS.as_bytes();
        let value = pool.mos.object(zap)?.zap_lookup(name)?;
        Ok(value.and_then(|value| value.as_word()).map(ObjectId))
    }

    /// From which txg on the changes of each metaslab are in the logs.
    pub(crate) fn unflushed_txgs(&self, pool: &RawPool) -> Result<Vec<u64>> {
        let Some(id) = self.unflushed_object(pool)? else {
            return Ok(Vec::new());
        };
        let count = self.metaslab_count().min(1 << 24) as usize;
        let bytes = pool.mos.object(id)?.read_at(0, count * 8)?;
        Ok((0..count)
            .map(|index| get_at(&bytes, index * 8, ByteOrder::NATIVE))
            .collect())
    }

    fn apply(&self, entry: &Entry, start: u64, faults: &mut Vec<MapFault>) {
        let offset = start.saturating_add(entry.offset);
        let (result, problem) = match entry.action {
            Action::Allocate => (
                self.allocated.insert(offset, entry.length),
                "allocated twice",
            ),
            Action::Free => (
                self.allocated.remove(offset, entry.length),
                "freed while free",
            ),
        };
        let problem = match result {
            Ok(0) => return,
            Ok(_) => problem,
            Err(_) => "outside of the vdev",
        };
        faults.push(MapFault {
            vdev: self.id,
            offset,
            length: entry.length,
            problem,
        });
    }

    /// Loads the metaslabs' own maps.
    fn load_maps(&self, pool: &RawPool, faults: &mut Vec<MapFault>) -> Result<()> {
        for (index, id) in self.map_objects(pool)?.into_iter().enumerate() {
            let Some(id) = id else { continue };
            let start = self.metaslab(index).start;
            let map = pool.mos.object(id)?;
            for_each_entry(&map, self.ashift, &mut |entry| {
                self.apply(&entry, start, faults)
            })?;
        }
        Ok(())
    }
}

/// Visits the entries of a space map object in order.
pub(crate) fn for_each_entry(
    map: &RawObject,
    shift: u32,
    visit: &mut dyn FnMut(Entry),
) -> Result<()> {
    // The bonus says how many bytes count; what follows in the last block is garbage.
    let length = map.bonus_word(1).min(map.length_max());
    let size = map.block_size();
    let mut at = 0;
    while at < length {
        let block = map.read_block(at / size)?;
        let valid = block.len().min((length - at) as usize);
        for entry in space_map::decode(&block[..valid], shift) {
            visit(entry.map_err(|source| map.format_error(source))?);
        }
        at += size;
    }
    Ok(())
}

/// The log space maps in the order of their txgs.
pub(crate) fn log_maps(pool: &RawPool) -> Result<Vec<(u64, ObjectId)>> {
    let mut logs = Vec::new();
    if let Some(zap) = pool.directory_word(directory::LOG_SPACE_MAPS)? {
        pool.mos.object(ObjectId(zap))?.zap_entries(&mut |entry| {
            if let (ZapKey::Name(name), Some(id)) = (&entry.key, entry.value.as_word()) {
                let txg = std::str::from_utf8(name).ok();
                if let Some(txg) = txg.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                    logs.push((txg, ObjectId(id)));
                }
            }
        })?;
    }
    logs.sort_unstable();
    Ok(logs)
}

/// Fills every vdev's set of allocated sectors: the metaslabs' own maps, then the logs.
pub(crate) fn load(pool: &RawPool, tops: &[TopSpace]) -> Result<Vec<MapFault>> {
    let mut faults = Vec::new();
    let mut unflushed = Vec::new();
    for top in tops {
        top.load_maps(pool, &mut faults)?;
        unflushed.push(top.unflushed_txgs(pool)?);
    }
    for (txg, id) in log_maps(pool)? {
        let log = pool.mos.object(id)?;
        for_each_entry(&log, LOG_SHIFT, &mut |entry| {
            let Some(place) = tops.iter().position(|top| top.id == entry.vdev) else {
                return;
            };
            let (top, flushed) = (&tops[place], &unflushed[place]);
            let metaslab = (entry.offset >> top.metaslab_shift) as usize;
            // What the metaslab's own map has already is not applied again.
            if flushed.get(metaslab).is_none_or(|&from| txg >= from) {
                top.apply(&entry, 0, &mut faults);
            }
        })?;
    }
    Ok(faults)
}

/// Ranges that a checkpoint keeps: freed since, but still allocated on its behalf.
pub(crate) fn for_each_checkpointed(
    pool: &RawPool,
    top: &TopSpace,
    visit: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let Some(zap) = top.top_zap else {
        return Ok(());
    };
    let name = vdev_zap::CHECKPOINT_SPACE_MAP.as_bytes();
    let Some(value) = pool.mos.object(zap)?.zap_lookup(name)? else {
        return Ok(());
    };
    let Some(id) = value.as_word() else {
        return Ok(());
    };
    let map = pool.mos.object(ObjectId(id))?;
    for_each_entry(&map, top.ashift, &mut |entry| {
        visit(entry.offset, entry.length)
    })
}

impl From<&MapFault> for String {
    fn from(fault: &MapFault) -> Self {
        let MapFault {
            vdev,
            offset,
            length,
            problem,
        } = fault;
        format!("space map of vdev {vdev}: offset {offset:#x}, size {length:#x}: {problem}")
    }
}

/// Errors of maps are fatal to accounting, not to the checking of checksums.
pub(crate) fn describe(error: &InspectError) -> String {
    format!("space maps cannot be read: {error}")
}

#[cfg(test)]
mod tests;
