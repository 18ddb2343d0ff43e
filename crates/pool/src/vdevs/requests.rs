//! What users ask of vdevs: `zpool add`, and `zpool remove` of log vdevs.

use std::sync::Arc;

use base::{Guid, Txg, VdevId};
use dsl::property::pool::ASHIFT;
use format::config::keys;
use format::{BlockPointer, Uberblock, features, version};
use intent::Log;

use crate::config::{PoolConfig, VdevConfig};
use crate::error::{PoolError, Result};
use crate::pool::status::VdevRole;
use crate::pool::{Pool, Writer};
use crate::vdevs::changes::Change;
use crate::vdevs::devices::{Devices, open_top};
use crate::vdevs::new::{NewVdev, Preparation, prepare_top, require};

/// Txgs after which what a chain held is free again.
const TXGS_TO_EMPTY: usize = 6;

impl Pool {
    /// The property `ashift`, for vdevs that are added without being told; none when that is automatic.
    fn default_ashift(&self) -> Result<Option<u32>> {
        let shift = self.get(ASHIFT)?.value;
        Ok(u32::try_from(shift).ok().filter(|shift| *shift != 0))
    }

    /// Adds top-level vdevs; they are in use when this returns. `force`: devices may belong to another pool.
    ///
    /// # Errors
    /// The devices cannot be used, or the pool cannot be written.
    pub fn add_vdevs(
        &self,
        new: &[(VdevRole, NewVdev)],
        ashift: Option<u32>,
        force: bool,
    ) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        let (mut config, devices) = self.with_tops(new, ashift, force)?;
        let first = config.root.children.len() - new.len();
        let count = config.root.children.len() as u64;
        config.list.set(keys::VDEV_CHILDREN, count);
        config.list.set(keys::TXG, 0_u64);
        let blank = Uberblock::new(
            self.version(),
            Txg(0),
            config.root.guid_sum(),
            0,
            BlockPointer::HOLE,
        );
        let mut changes = Vec::with_capacity(new.len());
        for (node, (role, _)) in config.root.children[first..].iter().zip(new) {
            let top = open_top(node.id(), node, &devices);
            let top = top.ok_or_else(|| PoolError::UnsupportedVdev {
                kind: node.kind().to_owned(),
            })?;
            for leaf in top.leaves() {
                leaf.initialise_labels(&config.to_label(node, leaf.guid()), &blank)?;
            }
            changes.push(Change::Add {
                config: Box::new(node.clone()),
                role: *role,
                top,
            });
        }
        writer.vdev_changes.change_next(changes);
        Ok(writer.engine.wait_synced(None)?)
    }

    /// Whether top-level vdevs could be added as things are; nothing is changed.
    ///
    /// # Errors
    /// Those of [`Self::add_vdevs`] before it writes.
    pub fn check_vdevs(
        &self,
        new: &[(VdevRole, NewVdev)],
        ashift: Option<u32>,
        force: bool,
    ) -> Result<()> {
        let writer = self.writer()?;
        let _one = writer.vdev_changes.alone();
        self.with_tops(new, ashift, force).map(drop)
    }

    /// The configuration with new top-level vdevs at its end, and their devices.
    fn with_tops(
        &self,
        new: &[(VdevRole, NewVdev)],
        ashift: Option<u32>,
        force: bool,
    ) -> Result<(PoolConfig, Devices)> {
        let classed = new.iter().any(|(role, _)| role.has_feature());
        let lacks = |feature| !self.features().is_enabled(feature);
        let mut of_layouts = new.iter().filter_map(|(_, vdev)| vdev.feature());
        if classed && lacks(&features::ALLOCATION_CLASSES) || of_layouts.any(lacks) {
            return Err(PoolError::Invalid {
                reason: "pool must be upgraded to add these vdevs".to_owned(),
            });
        }
        for (role, vdev) in new {
            role.check_version(self.version())?;
            vdev.check_version(self.version())?;
        }
        let mut config = self.config();
        check_layouts(&config, new)?;
        let mut devices = Devices::default();
        let ashift = match ashift {
            None => self.default_ashift()?,
            given => given,
        };
        let preparation = Preparation {
            ashift,
            force,
            txg: Txg(0),
            rng: self.services.rng.as_ref(),
        };
        let first = config.root.children.len();
        for (index, (role, vdev)) in new.iter().enumerate() {
            let top = prepare_top(first + index, *role, vdev, &preparation, &mut devices)?;
            check_sectors(&config, &top, *role)?;
            config.root.children.push(top);
        }
        Ok((config, devices))
    }

    /// Removes a top-level log vdev.
    ///
    /// # Errors
    /// There is none of that guid, it is not for logs, a log waits for its replay, or the pool cannot be written.
    pub fn remove_log(&self, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        self.check_no_checkpoint()?;
        let config = self.config();
        let top = config.root.children.iter().find(|top| top.guid() == guid);
        let top = top.ok_or(PoolError::NoSuchVdev { guid })?;
        if !top.flag(keys::IS_LOG) {
            return Err(PoolError::Invalid {
                reason: "only log devices can be removed by this version".to_owned(),
            });
        }
        require(self.version(), version::HOLES, "log devices that can go")?;
        let id = top.id();
        let barred = writer.syncer.log_devices.bar(id);
        let result = self.empty_logs(writer, id);
        writer.logs.go_on();
        result?;
        writer.trim.bar(id, true);
        writer.initialize.bar(id, true);
        let vdev = self.vdevs.top(id);
        writer.vdev_changes.change_next([Change::Remove(id)]);
        let removed = writer.engine.wait_synced(None);
        writer.trim.bar(id, false);
        writer.initialize.bar(id, false);
        if let Err(error) = removed {
            barred.keep();
            return Err(error.into());
        }
        drop(barred);
        // The device may be gone; if it is there, nobody is to take it for a part of the pool.
        let leaves = vdev.map(|top| top.leaves().to_vec()).unwrap_or_default();
        for device in leaves.iter().filter_map(|leaf| leaf.device()) {
            let _ = vdev::clear_labels(device.as_ref());
        }
        Ok(())
    }

    /// Ends the chains of all logs, and waits until what they held is free: until they are to go on, none begins.
    pub(crate) fn wind_up_logs(&self, writer: &Writer) -> Result<()> {
        // Kept open, so that none is closed and opened again meanwhile.
        let mut logs: Vec<Arc<Log>> = Vec::new();
        for head in self.dsl.heads_under(&self.dsl.root_directory()?)? {
            if head.phys()?.block_pointer.is_hole() {
                continue;
            }
            let log = self.intent_log(&head)?;
            if log.as_ref().is_some_and(|log| log.is_owed()) {
                return Err(PoolError::Busy);
            }
            logs.extend(log);
        }
        writer.logs.wind_up();
        for _ in 0..TXGS_TO_EMPTY {
            self.services.ageing.want();
            writer.engine.wait_synced(None)?;
        }
        Ok(())
    }

    /// Ends the chains of all logs, and waits until nothing is left of them on the vdev.
    pub(super) fn empty_logs(&self, writer: &Writer, id: VdevId) -> Result<()> {
        self.wind_up_logs(writer)?;
        let top = self.vdevs.top(id)?;
        let works = top.condition().state.is_usable();
        let space = self.space.as_ref().and_then(|space| space.vdev(id));
        let left = space.map_or(0, |space| space.allocated_bytes() + space.deferred_bytes());
        // What a vdev that is gone still seems to hold was lost with it.
        if works && left > 0 {
            return Err(PoolError::Busy);
        }
        Ok(())
    }
}

/// Refuses vdevs that what is, or was, removed cannot be moved to.
fn check_layouts(config: &PoolConfig, new: &[(VdevRole, NewVdev)]) -> Result<()> {
    let mut tops = config.root.children.iter();
    let is_removed = |top: &VdevConfig| top.is_indirect() || top.flag(keys::REMOVING);
    if !new.iter().any(|(_, vdev)| vdev.has_parity()) || !tops.any(is_removed) {
        return Ok(());
    }
    let reason = "invalid config; a pool with removing/removed vdevs does not support adding raidz \
                  or dRAID vdevs";
    Err(PoolError::refused(reason))
}

/// Refuses a vdev of other sectors than one has that is being removed: what that holds could not be moved to it.
fn check_sectors(config: &PoolConfig, new: &VdevConfig, role: VdevRole) -> Result<()> {
    let ashift = |top: &VdevConfig| top.list.u64(keys::ASHIFT);
    let mut tops = config.root.children.iter();
    let differs = tops.any(|top| top.flag(keys::REMOVING) && ashift(top) != ashift(new));
    if !differs || role == VdevRole::Log {
        return Ok(());
    }
    let reason =
        "a device with sectors of another size cannot be added while a device is being removed";
    Err(PoolError::refused(reason))
}

#[cfg(test)]
mod tests;
