//! What of removed vdevs nothing refers to any more.
//!
//! A block that lies on a removed vdev frees the space on the vdevs that it was moved to. What of the mapping led
//! there is not needed any more; that is noted in a map of the removed vdev (`com.delphix:indirect_obsolete_sm`), by
//! which the mapping is shortened when enough has come together (`condensing`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use base::VdevId;
use base::lock::{LockClass, Mutex, RwLock, rank};
use base::metrics::{Counter, registry};
use dmu::{Tx, Zap};
use dsl::NamedList;
use format::config::keys;
use format::features;
use format::indirect::MappingEntry;
use format::space_map::{Action, Encoder, Entry, Form};
use space::{Extent, MapAppend, SpaceStore};
use vdev::{MappingBuilder, Place, VdevTree};

use crate::allocation::maps::MosSpaceStore;
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;

static REMOVING: LockClass = LockClass::new("pool.removing_mapping", rank::LAST - 26);
static WAITING: LockClass = LockClass::new("pool.obsolete_ranges", rank::LAST - 8);

/// So many pointers are taken off the list with a txg.
const LISTED_PER_TXG: u64 = 10_000;

/// What can be watched here, for the whole process.
struct Meters {
    /// Ranges that were freed and are not mapped: they stay in use.
    unmapped: Arc<Counter>,
    /// Ranges that could not be noted.
    unnoted: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    unmapped: registry().counter("pool.removed_ranges_unmapped"),
    unnoted: registry().counter("pool.obsolete_ranges_lost"),
});

/// A vdev that is being removed, and what of it is mapped so far.
pub(crate) type Partial = (VdevId, MappingBuilder);

/// What is freed of removed vdevs.
pub(crate) struct ObsoleteSpace {
    vdevs: Arc<VdevTree>,
    /// Whether there are any.
    any: AtomicBool,
    /// What of a vdev that is being removed is copied already. Changed in syncing context, before anything is freed.
    removing: RwLock<Option<Partial>>,
    /// What is to be noted with the txg that syncs.
    waiting: Mutex<BTreeMap<VdevId, Vec<Range<u64>>>>,
    /// Something was noted since this was last asked.
    noted: AtomicBool,
}

impl ObsoleteSpace {
    /// That of these vdevs.
    pub(crate) fn new(vdevs: &Arc<VdevTree>) -> Self {
        Self {
            vdevs: Arc::clone(vdevs),
            any: AtomicBool::new(!vdevs.removed().is_empty()),
            removing: RwLock::new(&REMOVING, None),
            waiting: Mutex::new(&WAITING, BTreeMap::new()),
            noted: AtomicBool::new(true),
        }
    }

    /// The vdevs that places are on.
    pub(crate) const fn vdevs(&self) -> &Arc<VdevTree> {
        &self.vdevs
    }

    /// What is being removed, and what of it is mapped; none: nothing is.
    pub(crate) fn set_removing(&self, partial: Option<Partial>) {
        self.any.store(true, Ordering::Relaxed);
        *self.removing.write() = partial;
    }

    /// What was set, and grew since; then nothing is being removed.
    pub(crate) fn take_removing(&self) -> Option<Partial> {
        self.removing.write().take()
    }

    /// More of what is being removed is mapped.
    pub(crate) fn extend_removing(&self, entries: &[MappingEntry]) -> Result<()> {
        let Some((id, mut mapping)) = self.take_removing() else {
            return Ok(());
        };
        for entry in entries {
            let pushed = mapping.push(entry, &|id| self.vdevs.destination(id));
            pushed.map_err(|error| PoolError::Damaged(error.to_string()))?;
        }
        self.set_removing(Some((id, mapping)));
        Ok(())
    }

    /// Whether all of a range of what is being removed is mapped.
    pub(crate) fn is_copied(&self, range: &Range<u64>) -> bool {
        let removing = self.removing.read();
        let mapped = removing
            .as_ref()
            .map(|(_, mapping)| mapping.mapped(range.clone()));
        let bytes: u64 = mapped.iter().flatten().map(|part| part.len).sum();
        bytes == range.end.saturating_sub(range.start)
    }

    /// Where a range lies that is freed, if that is elsewhere than it says, or in two places as long as its vdev
    /// is being removed; what is not needed any more is noted.
    pub(crate) fn release(&self, extent: &Extent) -> Option<Vec<Extent>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let top = self.vdevs.top(extent.vdev);
        let mut found = vec![extent.clone()];
        if top.is_ok_and(|top| top.is_indirect()) {
            let Ok(moved) = self.vdevs.moved(extent.vdev, extent.range.clone()) else {
                METERS.unmapped.increment();
                return Some(Vec::new());
            };
            self.note_later(moved.through);
            found = places(moved.places);
        }
        let copies: Vec<Extent> = found.iter().flat_map(|place| self.copies(place)).collect();
        found.extend(copies);
        Some(found)
    }

    /// The copies of what lies on a vdev that is being removed; what led there is noted.
    fn copies(&self, place: &Extent) -> Vec<Extent> {
        let removing = self.removing.read();
        let removing = removing.as_ref().filter(|(vdev, _)| *vdev == place.vdev);
        let mapped = removing.map(|(_, mapping)| mapping.mapped(place.range.clone()));
        let mapped = mapped.unwrap_or_default();
        let led = mapped.iter().map(|part| {
            let range = part.source..part.source.saturating_add(part.len);
            (place.vdev, range)
        });
        self.note_later(led.collect());
        let copies = mapped.iter().map(|part| Extent {
            vdev: part.vdev,
            range: part.offset..part.offset.saturating_add(part.len),
        });
        copies.collect()
    }

    fn note_later(&self, found: Vec<(VdevId, Range<u64>)>) {
        let mut waiting = self.waiting.lock();
        for (vdev, range) in found {
            waiting.entry(vdev).or_default().push(range);
        }
    }

    /// Whether something was noted since the last call; at first, by who had the pool before.
    pub(crate) fn take_noted(&self) -> bool {
        self.any.load(Ordering::Relaxed) && self.noted.swap(false, Ordering::Relaxed)
    }

    /// Has [`ObsoleteSpace::take_noted`] say so.
    pub(crate) fn note_again(&self) {
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Whether something is to be noted still.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Takes some places off the pool's list of those that are obsolete since snapshots are gone, to be noted; in the
    /// first pass.
    pub(crate) fn take_listed(
        &self,
        tx: &Tx,
        services: &PoolServices,
        list: &NamedList,
    ) -> Result<()> {
        if !self.any.load(Ordering::Relaxed) || !list.exists()? {
            return Ok(());
        }
        let mut found = Vec::new();
        list.take(tx, LISTED_PER_TXG, &mut |pointer| {
            let removed = pointer.dvas().filter(|dva| {
                let top = self.vdevs.top(dva.vdev);
                top.is_ok_and(|top| top.is_indirect())
            });
            for dva in removed {
                found.push((dva.vdev, dva.offset..dva.offset.saturating_add(dva.asize)));
            }
        })?;
        self.note_later(found);
        if list.drop_empty(tx)? {
            services.change_feature(tx, &features::OBSOLETE_COUNTS, -1)?;
        }
        Ok(())
    }

    /// Notes what was freed; in each pass.
    pub(crate) fn sync(
        &self,
        tx: &Tx,
        pass: u32,
        services: &PoolServices,
        maps: &MosSpaceStore,
    ) -> Result<()> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        // Without the feature nobody counts.
        if waiting.is_empty() || !services.features.is_enabled(&features::OBSOLETE_COUNTS) {
            return Ok(());
        }
        self.note_again();
        for (vdev, ranges) in waiting {
            let count = ranges.len() as u64;
            // Only a shorter mapping is lost.
            match note(tx, (vdev, merged(ranges)), pass, services, maps) {
                Err(PoolError::Object(error)) if error.is_damage() => METERS.unnoted.add(count),
                noted => noted?,
            }
        }
        Ok(())
    }
}

fn places(places: Vec<Place>) -> Vec<Extent> {
    let extent = |place: Place| Extent {
        vdev: place.vdev,
        range: place.range,
    };
    places.into_iter().map(extent).collect()
}

/// Where a range lies: itself, unless its vdev was removed.
pub(crate) fn present(vdevs: &VdevTree, extent: Extent) -> Result<Vec<Extent>> {
    let top = vdevs.top(extent.vdev);
    if !top.is_ok_and(|top| top.is_indirect()) {
        return Ok(vec![extent]);
    }
    Ok(places(vdevs.moved(extent.vdev, extent.range)?.places))
}

/// Ranges in order, those that touch as one.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}

/// Adds ranges to the map of one removed vdev.
fn note(
    tx: &Tx,
    (vdev, ranges): (VdevId, Vec<Range<u64>>),
    pass: u32,
    services: &PoolServices,
    maps: &MosSpaceStore,
) -> Result<()> {
    let config = services.config.get();
    let Some(zap) = config
        .top(vdev)
        .and_then(|top| top.object(keys::VDEV_ZAP_TOP))
    else {
        METERS.unnoted.add(ranges.len() as u64);
        return Ok(());
    };
    let zap = Zap::open(&services.mos.object(zap)?)?;
    let (map, is_new) = maps.obsolete_map(&zap)?;
    if is_new {
        services.change_feature(tx, &features::OBSOLETE_COUNTS, 1)?;
    }
    let stored = |error: space::StoreError| PoolError::Space(error.to_string());
    let position = usize::try_from(maps.length(map).map_err(stored)?).unwrap_or(usize::MAX);
    let form = if services.features.is_active(&features::SPACEMAP_V2) {
        Form::Mixed
    } else {
        Form::OneWord
    };
    let block_size = maps.block_size(map).map_err(stored)?;
    let mut encoder = Encoder::new(0, form, block_size, position);
    encoder.debug(Action::Allocate, pass, tx.txg().0);
    let mut bytes: u64 = 0;
    for range in ranges {
        let length = range.end - range.start;
        bytes = bytes.saturating_add(length);
        encoder.push(Entry {
            action: Action::Allocate,
            vdev: 0,
            offset: range.start,
            length,
        });
    }
    let append = MapAppend {
        bytes: &encoder.finish(),
        allocated_change: i64::try_from(bytes).unwrap_or(i64::MAX),
        histogram: None,
    };
    maps.append(map, &append).map_err(stored)
}

#[cfg(test)]
mod tests;
