//! What of removed vdevs nothing refers to any more.
//!
//! A block that lies on a removed vdev gives back the space on the vdevs that it was moved to. What of the mapping led
//! there is not needed any more; that is noted in a map of the removed vdev (`com.delphix:indirect_obsolete_sm`), from
//! which OpenZFS shortens the mapping when enough has come together. Whether it does changes nothing of what is read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use base::VdevId;
use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, registry};
use dmu::{Tx, Zap};
use dsl::NamedList;
use format::config::keys;
use format::features;
use format::space_map::{Action, Encoder, Entry, Form};
use space::{Extent, MapAppend, SpaceStore};
use vdev::{Place, VdevTree};

use crate::allocation::maps::MosSpaceStore;
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;

static WAITING: LockClass = LockClass::new("pool.obsolete_ranges", rank::LAST - 8);

/// So many pointers are taken off the list with a txg.
const LISTED_PER_TXG: u64 = 10_000;

/// What can be watched here, for the whole process.
struct Meters {
    /// Ranges that were given back and are not mapped: they stay in use.
    unmapped: Arc<Counter>,
    /// Ranges that could not be noted.
    unnoted: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    unmapped: registry().counter("pool.removed_ranges_unmapped"),
    unnoted: registry().counter("pool.obsolete_ranges_lost"),
});

/// What is given back of removed vdevs.
pub(crate) struct ObsoleteSpace {
    vdevs: Arc<VdevTree>,
    /// Whether there are any.
    any: AtomicBool,
    /// What is to be noted with the txg that syncs.
    waiting: Mutex<BTreeMap<VdevId, Vec<Range<u64>>>>,
}

impl ObsoleteSpace {
    /// That of these vdevs.
    pub(crate) fn new(vdevs: &Arc<VdevTree>) -> Self {
        Self {
            vdevs: Arc::clone(vdevs),
            any: AtomicBool::new(!vdevs.removed().is_empty()),
            waiting: Mutex::new(&WAITING, BTreeMap::new()),
        }
    }

    /// Where a range lies that is given back, if it lies on a removed vdev; what is not needed any more is noted.
    pub(crate) fn give_back(&self, extent: &Extent) -> Option<Vec<Extent>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let top = self.vdevs.top(extent.vdev).ok()?;
        if !top.is_indirect() {
            return None;
        }
        let Ok(moved) = self.vdevs.moved(extent.vdev, extent.range.clone()) else {
            METERS.unmapped.increment();
            return Some(Vec::new());
        };
        self.note_later(moved.through);
        Some(places(moved.places))
    }

    fn note_later(&self, found: Vec<(VdevId, Range<u64>)>) {
        let mut waiting = self.waiting.lock();
        for (vdev, range) in found {
            waiting.entry(vdev).or_default().push(range);
        }
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

    /// Notes what was given back; in each pass.
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
    let top = config.root.children.iter().find(|top| top.id() == vdev);
    let Some(zap) = top.and_then(|top| top.object(keys::VDEV_ZAP_TOP)) else {
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
