//! `zpool split`: one side of each mirror becomes a pool of its own.
//!
//! It takes two txgs, each of which happens whole or not at all. In the first the sides leave the pool as devices do
//! that are detached, but for their labels, which stay: on the sides is the state of the txg before, whole, and without
//! a log that waits for its replay. The second is the first txg of the new pool: that state, opened from the sides
//! alone, gets a guid and a name of its own and forgets the devices that stayed behind. After a crash before the first
//! the pool is as it was; between the two it is without the sides, which belong to no pool then and can be attached
//! again; after the second there are both.

use std::path::PathBuf;
use std::sync::Arc;

use base::Guid;
use format::config::keys;
use vdev::{Condition, Leaf};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::discover;
use crate::import::options::{ImportOptions, OfSplit, Selection};
use crate::pool::{Pool, Writer};
use crate::scan::phys::FUNCTION_RESILVER;
use crate::sync::tasks::FirstPass;
use crate::vdevs::devices::{Devices, OpenLeaf};
use crate::vdevs::regroup::{DeviceChange, NO_REPLICAS, being_removed};

/// Why a pool cannot be split.
const MIRRORS_ONLY: &str = "Source pool must be composed only of mirrors";
/// Why devices cannot be the sides that go.
const ONE_A_MIRROR: &str = "Device list must include at most one disk from each mirror";
/// Why nothing is split while devices lack data.
const RESILVERING: &str = "currently resilvering";

impl Pool {
    /// The sides of mirrors that would make another pool: these, and of every other mirror the last.
    ///
    /// # Errors
    /// The pool has vdevs that are no mirrors, or the devices are not sides of different ones.
    pub fn sides_to_split(&self, named: &[Guid]) -> Result<Vec<Guid>> {
        let config = self.config();
        let mut sides = Vec::new();
        for top in config.root.children.iter().filter(|top| has_side(top)) {
            if !top.has_sides() {
                return Err(PoolError::refused(MIRRORS_ONLY));
            }
            let is_named = |side: &&VdevConfig| named.contains(&side.guid());
            let mut chosen = top.children.iter().filter(is_named);
            let side = chosen.next().or_else(|| top.children.last());
            if chosen.next().is_some() {
                return Err(PoolError::refused(ONE_A_MIRROR));
            }
            sides.extend(side.map(VdevConfig::guid));
        }
        if sides.is_empty() {
            return Err(PoolError::refused(MIRRORS_ONLY));
        }
        if named.iter().any(|guid| !sides.contains(guid)) {
            return Err(PoolError::refused(ONE_A_MIRROR));
        }
        Ok(sides)
    }

    /// Makes a pool of this name from sides of all mirrors, as [`Pool::sides_to_split`] says them. It is open when this
    /// returns.
    ///
    /// # Errors
    /// A side lacks something or is not in use; devices come or go, or there is a checkpoint; a log waits for its
    /// replay; the pool cannot be written. Where the sides are gone from this pool and the other one could not be made,
    /// the error says so.
    pub fn split(self: &Arc<Self>, name: &str, sides: &[Guid]) -> Result<Arc<Self>> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        self.check_no_checkpoint()?;
        let resilvers = |scan: crate::scan::phys::ScanPhys| scan.function == FUNCTION_RESILVER;
        if writer.scrub.current().is_some_and(resilvers) {
            return Err(PoolError::Scan(RESILVERING));
        }
        let leaves = self.leaves_of(sides)?;
        let parted = self.part(writer, sides);
        writer.logs.go_on();
        parted?;
        let devices = leaves
            .iter()
            .filter_map(|leaf| release(writer, leaf))
            .collect();
        let made = self.open_split(name, sides, devices);
        made.map_err(|error| PoolError::SplitUnfinished {
            reason: error.to_string(),
        })
    }

    fn leaves_of(&self, sides: &[Guid]) -> Result<Vec<Arc<Leaf>>> {
        let leaves = crate::vdevs::dtl::leaves(&self.vdevs);
        let leaf = |guid: &Guid| {
            let found = leaves.iter().find(|leaf| leaf.guid() == *guid);
            found.cloned().ok_or(PoolError::NoSuchVdev { guid: *guid })
        };
        sides.iter().map(leaf).collect()
    }

    /// The sides leave the pool.
    fn part(&self, writer: &Writer, sides: &[Guid]) -> Result<()> {
        // What a log has lies on the sides as well, and is nobody's once the other pool has changed.
        let ended = self.wind_up_logs(writer);
        if let Err(PoolError::Busy) = ended {
            let reason = "an intent log waits to be replayed; mount its dataset first";
            return Err(PoolError::refused(reason));
        }
        ended?;
        let sides = sides.to_vec();
        let number = writer
            .vdev_changes
            .change_devices(DeviceChange::Part(sides));
        writer.engine.wait_synced(None)?;
        writer.vdev_changes.outcome(number)
    }

    /// Opens what the sides hold as a pool of its own.
    fn open_split(&self, name: &str, sides: &[Guid], devices: Vec<OpenLeaf>) -> Result<Arc<Self>> {
        let services = &self.services;
        let from = self.config();
        let paths = devices.iter().map(|(_, path, _)| path.clone()).collect();
        let mut options = ImportOptions::new(paths, Selection::Guid(from.guid()));
        options.new_name = Some(name.to_owned());
        options.force = true;
        options.without_logs = true;
        options.clock = Arc::clone(&services.clock);
        options.rng = Arc::clone(&services.rng);
        options.of_split = Some(OfSplit {
            guid: Guid(services.rng.nonzero_u64()),
            sides: sides.to_vec(),
            from: (from.name().to_owned(), from.guid()),
        });
        let devices = Devices::of_open(devices);
        let found = discover::assemble(devices.found()).into_iter();
        let mut found = found.filter(|found| found.guid == from.guid());
        let found = found.next().ok_or_else(|| PoolError::NoSuchPool {
            wanted: from.guid().to_string(),
        })?;
        Self::import_from((&found, None), devices, &options)
    }
}

/// Whether a side of a top-level vdev goes into the other pool.
fn has_side(top: &VdevConfig) -> bool {
    !top.is_hole() && !top.is_indirect() && !top.flag(keys::IS_LOG)
}

/// Takes the device of a leaf that has left the pool.
fn release(writer: &Writer, leaf: &Arc<Leaf>) -> Option<OpenLeaf> {
    writer.trim.forget(leaf.guid());
    writer.initialize.forget(leaf.guid());
    let device = leaf.device();
    leaf.reopen(None);
    Some((leaf.guid(), PathBuf::from(&*leaf.path()), device?))
}

impl FirstPass<'_> {
    /// Takes sides of mirrors out of the pool, or says why not.
    pub(super) fn part(&self, sides: &[Guid]) -> Result<Result<()>> {
        let root = self.services.config.with(|config| config.root.clone());
        if let Err(refusal) = self.check_part(&root, sides) {
            return Ok(Err(refusal));
        }
        for side in sides {
            self.detach(*side)?;
        }
        Ok(Ok(()))
    }

    fn check_part(&self, root: &VdevConfig, sides: &[Guid]) -> Result<()> {
        let mut tops = root.children.iter();
        if tops.any(|top| top.flag(keys::REMOVING)) {
            return Err(being_removed());
        }
        for top in root.children.iter().filter(|top| has_side(top)) {
            let side = top.children.iter().find(|one| sides.contains(&one.guid()));
            let side = side.filter(|side| side.is_leaf() && top.has_sides());
            let side = side.ok_or_else(|| PoolError::refused(MIRRORS_ONLY))?;
            let guid = side.guid();
            let (vdev, leaf) = self.top_of(guid).ok_or(PoolError::NoSuchVdev { guid })?;
            if leaf.condition() != Condition::HEALTHY || !leaf.missing().is_empty() {
                let path = side.path().unwrap_or_default();
                let text = format!("{path} is not up to date, or not in use");
                return Err(PoolError::Invalid { reason: text });
            }
            if !vdev.outage(&|other| other.guid() == guid).is_empty() {
                return Err(PoolError::refused(NO_REPLICAS));
            }
        }
        Ok(())
    }

    /// In the first txg of a pool that is made of sides of another: it forgets what it does not have of that, and is
    /// another pool.
    pub(super) fn begin_split(&self, split: &OfSplit) -> Result<()> {
        let root = self.services.config.with(|config| config.root.clone());
        for top in &root.children {
            if top.flag(keys::IS_LOG) {
                self.make_hole(top)?;
                continue;
            }
            let leaves = top.leaves().into_iter();
            for leaf in leaves.filter(|leaf| !split.sides.contains(&leaf.guid())) {
                self.take_away(leaf.guid())?;
            }
        }
        let services = self.services;
        self.set_guid(split.guid);
        let (old_name, old) = &split.from;
        services.config.change(|whole| {
            whole.list.set(keys::SPLIT_GUID, old.0);
        });
        let now_s = services.clock.now_s();
        let text = format!("from pool {old_name}");
        Ok(services
            .history
            .internal(self.tx, "split", &text, None, now_s)?)
    }
}

#[cfg(test)]
mod tests;
