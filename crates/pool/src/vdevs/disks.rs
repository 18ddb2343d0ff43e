//! What users ask of single devices: `zpool attach`, `detach`, `replace`, `offline` and `online`.

use std::path::PathBuf;
use std::sync::Arc;

use base::{Guid, Txg};
use device::{BlockDevice, DeviceError};
use format::config::keys;
use format::{BlockPointer, Uberblock};
use vdev::{Condition, Leaf, LeafConfig, Top, VdevState};

use crate::config::regroup::{Beside, OLD};
use crate::config::{PoolConfig, VdevConfig};
use crate::error::{PoolError, Result};
use crate::pool::{Pool, Writer};
use crate::rebuild::fill::Fill;
use crate::vdevs::new::{NewDevice, leaf_config, open_device};
use crate::vdevs::regroup::{
    Attachment, Chains, DeviceChange, OutOfUse, check_target, missed_since,
};
use crate::vdevs::{spare_rooms, spares};

/// How a device is to come beside another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttachOptions {
    /// Whether it is to take the other one's place.
    pub replace: bool,
    /// The sector size that is asked for, as a power of two.
    pub ashift: Option<u32>,
    /// Whether it may belong to another pool.
    pub force: bool,
    /// How it gets what the others have.
    pub fill: Fill,
}

pub(crate) const TOO_SMALL: &str = "device is too small";

impl Pool {
    /// Puts a device beside the one called `target`: both hold the same from then on, or the new one takes the other's
    /// place as soon as it has everything. What it lacks it gets by a resilver, which has begun when this returns.
    ///
    /// # Errors
    /// The device cannot be used, no device can come there, or the pool cannot be written.
    pub fn attach_device(
        self: &Arc<Self>,
        target: Guid,
        new: &NewDevice,
        options: &AttachOptions,
    ) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        if let Some(top) = self.top_with(target) {
            self.check_fill(&top, options)?;
        }
        self.fill_device(writer, target, new, options)
    }

    /// [`Pool::attach_device`] beside whatever is under way.
    pub(super) fn fill_device(
        self: &Arc<Self>,
        writer: &Writer,
        target: Guid,
        new: &NewDevice,
        options: &AttachOptions,
    ) -> Result<()> {
        {
            let _one = writer.vdev_changes.alone();
            self.check_no_checkpoint()?;
            let attachment = self.prepare_attachment(target, new, options)?;
            let change = DeviceChange::Attach(Box::new(attachment));
            self.change_devices(writer, change)?;
        }
        self.resilver_if_needed()?;
        Ok(())
    }

    /// The vdev that has a leaf.
    pub(super) fn top_with(&self, leaf: Guid) -> Option<Arc<Top>> {
        let has = |top: &Arc<Top>| top.leaves().iter().any(|one| one.guid() == leaf);
        self.vdevs.tops().into_iter().find(has)
    }

    /// Takes a device away from a mirror, or from a replacement, which has everything without it.
    ///
    /// # Errors
    /// It is no side of a mirror, the others lack something, or the pool cannot be written.
    pub fn detach_device(self: &Arc<Self>, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        self.check_no_checkpoint()?;
        self.change_devices(writer, DeviceChange::Detach(guid))
    }

    /// Takes a device out of use. The intent logs leave a log vdev first that does not work without it.
    ///
    /// # Errors
    /// The pool needs it, a log waits for its replay, or the pool cannot be written.
    pub fn take_out(&self, guid: Guid, how: OutOfUse) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        match self.log_on(guid) {
            Some(id) => self.take_last_log_out(writer, id, (guid, how))?,
            None => {
                let change = DeviceChange::TakeOut(guid, how, Chains::Stay);
                self.change_devices(writer, change)?;
            }
        }
        self.services.events.observe(&self.vdevs);
        Ok(())
    }

    /// Takes a device into use again, and has it get what it missed. Answers how it is then.
    ///
    /// # Errors
    /// There is no such device, or the pool cannot be written.
    pub fn bring_online(self: &Arc<Self>, guid: Guid) -> Result<Condition> {
        let writer = self.writer()?;
        self.check_running()?;
        let leaf = {
            let _one = writer.vdev_changes.alone();
            let _until_it_is_stored = self.keep_logs_off(&|leaf| leaf.guid() == guid);
            let tops = self.vdevs.tops().into_iter();
            let mut found = tops.flat_map(|top| {
                let leaves = top.leaves().to_vec().into_iter();
                leaves.map(move |leaf| (Arc::clone(&top), leaf))
            });
            let found = found.find(|(_, leaf)| leaf.guid() == guid);
            let (top, leaf) = found.ok_or(PoolError::NoSuchVdev { guid })?;
            match leaf.condition().state {
                VdevState::Faulted | VdevState::Degraded | VdevState::Healthy => {}
                VdevState::Unknown
                | VdevState::Closed
                | VdevState::Offline
                | VdevState::Removed
                | VdevState::CantOpen => leaf.set_condition(self.look_again(writer, &top, &leaf)),
            }
            self.services.config.change(|whole| {
                if let Some(node) = whole.root.find_mut(guid) {
                    node.list.remove(keys::OFFLINE);
                }
                if leaf.is_writable() {
                    whole.root.note_unspare(guid);
                }
            });
            writer.engine.wait_synced(None)?;
            leaf
        };
        self.services.events.observe(&self.vdevs);
        if leaf.is_writable() {
            self.services.events.vdev("vdev_online", guid);
            self.resilver_if_needed()?;
        }
        self.follow_autoexpand()?;
        Ok(leaf.condition())
    }

    /// Looks at every device again that is not out of use by the operator's word or by its errors: also whether those
    /// in use still are there. `keep_scan`: no resilver begins while a scan is under way.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn reopen_devices(self: &Arc<Self>, keep_scan: bool) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        {
            let _one = writer.vdev_changes.alone();
            for top in self.vdevs.tops() {
                for leaf in top.leaves() {
                    match leaf.condition().state {
                        VdevState::Offline | VdevState::Faulted | VdevState::Degraded => {}
                        VdevState::Unknown
                        | VdevState::Closed
                        | VdevState::Removed
                        | VdevState::CantOpen
                        | VdevState::Healthy => {
                            let was_there = leaf.is_writable();
                            leaf.set_condition(self.look_again(writer, &top, leaf));
                            if leaf.is_writable() && !was_there {
                                let guid = leaf.guid();
                                let config = &self.services.config;
                                config.change(|whole| whole.root.note_unspare(guid));
                            }
                        }
                    }
                }
            }
        }
        self.services.events.observe(&self.vdevs);
        self.reopen_caches();
        self.follow_autoexpand()?;
        if !keep_scan || writer.scrub.current().is_none() {
            self.resilver_if_needed()?;
        }
        Ok(())
    }

    /// Gives the pool another guid, which no other pool has: this one, or a random one.
    ///
    /// # Errors
    /// A device is away, or the pool cannot be written.
    pub fn reguid(&self, guid: Option<Guid>) -> Result<Guid> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        self.check_no_checkpoint()?;
        let config = self.config();
        let guid = guid.unwrap_or_else(|| Guid(self.services.rng.nonzero_u64()));
        if guid.0 == 0 || config.root.find(guid).is_some() {
            return Err(PoolError::refused("a vdev or pool of that guid exists"));
        }
        self.change_devices(writer, DeviceChange::Reguid(guid))?;
        Ok(guid)
    }

    /// Devices go whose place others were to take that have everything now; waits for it.
    pub(crate) fn end_replacements(&self) -> Result<()> {
        let writer = self.writer()?;
        let is_replacing = |config: &crate::config::PoolConfig| {
            let root = &config.root;
            root.replaced(&|_| true).is_some() || root.relieved(&|_| true).is_some()
        };
        if !self.services.config.with(is_replacing) {
            return Ok(());
        }
        writer.vdev_changes.end_replacements_next();
        writer.engine.wait_synced(None)?;
        self.let_go(writer);
        Ok(())
    }

    pub(crate) fn change_devices(&self, writer: &Writer, change: DeviceChange) -> Result<()> {
        let number = writer.vdev_changes.change_devices(change);
        writer.engine.wait_synced(None)?;
        let outcome = writer.vdev_changes.outcome(number);
        self.let_go(writer);
        outcome
    }

    /// Nobody is to take the devices of leaves that are gone for parts of the pool.
    pub(crate) fn let_go(&self, writer: &Writer) {
        for leaf in writer.vdev_changes.take_gone() {
            writer.trim.forget(leaf.guid());
            writer.initialize.forget(leaf.guid());
            let device = leaf.device();
            leaf.reopen(None);
            let Some(device) = device else { continue };
            // It may be gone, as above. A spare waits again, with the labels that it had.
            let path = PathBuf::from(&*leaf.path());
            let _ = match self.services.spares.find(leaf.guid()) {
                Some(_) => spares::write_label(self.version(), leaf.guid(), &path, &device),
                None => vdev::clear_labels(device.as_ref()).map_err(PoolError::from),
            };
        }
    }

    /// A device with what is put in front of it.
    pub(crate) fn behind(&self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        match &self.between {
            Some(between) => between(device),
            None => device,
        }
    }

    /// Opens a device that the pool gets.
    fn open_behind(&self, new: &NewDevice, force: bool) -> Result<(PathBuf, Arc<dyn BlockDevice>)> {
        let (path, device) = open_device(new, force).map_err(|error| {
            if let PoolError::TooSmall { .. } = error {
                return PoolError::refused(TOO_SMALL);
            }
            error
        })?;
        Ok(match new {
            NewDevice::Path(_) => (path, self.behind(device)),
            NewDevice::Open(..) => (path, device),
        })
    }

    fn prepare_attachment(
        &self,
        target: Guid,
        new: &NewDevice,
        options: &AttachOptions,
    ) -> Result<Attachment> {
        let spare = match new {
            NewDevice::Path(path) | NewDevice::Open(path, _) if options.replace => {
                self.waiting_spare(path)?
            }
            NewDevice::Path(_) | NewDevice::Open(..) => None,
        };
        let beside = match (&spare, options.replace) {
            (Some(_), _) => Beside::Spare,
            (None, true) => Beside::Replacing,
            (None, false) => Beside::Mirror,
        };
        let mut whole = self.config();
        check_target(&whole.root, target, beside, self.space.as_deref())?;
        let is_above = |top: &&VdevConfig| top.find(target).is_some();
        let top = whole.root.children.iter().find(is_above).cloned();
        let top = top.ok_or(PoolError::NoSuchVdev { guid: target })?;
        let old = self.vdevs.top(top.id())?;
        let old = old.leaves().iter().find(|leaf| leaf.guid() == target);
        let old = old.ok_or(PoolError::NoSuchVdev { guid: target })?;
        let interior = Guid(self.services.rng.nonzero_u64());
        if let Some(room) = spare.as_ref().filter(|spare| spare.is_distributed_spare()) {
            let (config, leaf) = spare_rooms::leaf_of(room, &top)?;
            return Ok(Attachment {
                target,
                beside,
                interior,
                config,
                leaf,
                fill: options.fill,
                renamed: None,
            });
        }
        let (path, device) = self.open_behind(new, options.force || spare.is_some())?;
        check_fits(&top, device.as_ref(), options.ashift)?;
        let random = || Guid(self.services.rng.nonzero_u64());
        // A spare has its guid in all pools, and whether it stands in or waits.
        let guid = spare.as_ref().map_or_else(random, VdevConfig::guid);
        let mut config = leaf_config(0, guid, &path, device.kind(), Txg(0));
        if spare.is_some() {
            config.list.set(keys::IS_SPARE, 1_u64);
        }
        let text = path.display().to_string();
        let is_same = options.replace && *old.path() == *text;
        let leaf = |guid, path: String, device| {
            let ashift = top.ashift();
            let spare_room = None;
            let config = LeafConfig {
                guid,
                path,
                ashift,
                spare_room,
            };
            Leaf::new(config, device)
        };
        let renamed = is_same.then(|| leaf(target, format!("{text}{OLD}"), None));
        let leaf = leaf(guid, text, Some(device));
        whole
            .root
            .attach(target, config.clone(), (beside, interior));
        self.initialise_attached(whole, &leaf)?;
        Ok(Attachment {
            target,
            beside,
            interior,
            config,
            leaf,
            fill: options.fill,
            renamed,
        })
    }

    /// Gives a leaf that is attached in `whole` labels that do not count yet.
    fn initialise_attached(&self, mut whole: PoolConfig, leaf: &Leaf) -> Result<()> {
        whole.list.set(keys::TXG, 0_u64);
        let hole = BlockPointer::HOLE;
        let sum = whole.root.guid_sum();
        let blank = Uberblock::new(self.version(), Txg(0), sum, 0, hole);
        let guid = leaf.guid();
        let mut tops = whole.root.children.iter();
        let above = tops.find(|top| top.find(guid).is_some());
        let above = above.ok_or(PoolError::NoSuchVdev { guid })?;
        Ok(leaf.initialise_labels(&whole.to_label(above, guid), &blank)?)
    }

    /// How a leaf that was out of use is now: with the device that it has, or the one that is found in its place.
    pub(crate) fn look_again(&self, writer: &Writer, top: &Top, leaf: &Leaf) -> Condition {
        let was_usable = leaf.condition().state.is_usable();
        let condition = self.look_for_device(writer, top, leaf);
        if condition == Condition::HEALTHY && !was_usable {
            writer.diagnosis.begin_anew(leaf);
        }
        condition
    }

    fn look_for_device(&self, writer: &Writer, top: &Top, leaf: &Leaf) -> Condition {
        if leaf.spare_room().is_some() {
            // It has no device that could have gone.
            return Condition::HEALTHY;
        }
        let (id, ashift) = (top.id(), top.ashift());
        let asize_min = self.services.config.with(|config| {
            let mut tops = config.root.children.iter();
            let top = tops.find(|node| node.id() == id);
            top.map_or(0, VdevConfig::leaf_size_min)
        });
        if let Some(device) = leaf.device() {
            let condition = vdev::examine(device.as_ref(), asize_min, ashift);
            if condition == Condition::HEALTHY {
                return condition;
            }
        }
        // One that does not answer any more is closed, or its path could not be opened again.
        leaf.reopen(None);
        let last = writer.syncer.last.get().txg;
        let (device, newest) = match self.find_again(leaf, last) {
            Ok(found) => found,
            Err(condition) => return condition,
        };
        let condition = vdev::examine(device.as_ref(), asize_min, ashift);
        if condition == Condition::HEALTHY {
            let mut missing = leaf.missing();
            let open = writer.engine.open_txg();
            for (first, count) in missed_since(newest, open).iter() {
                missing.add(first, count);
            }
            leaf.set_missing(missing);
            leaf.reopen(Some(device));
        }
        condition
    }
}

/// Refuses a device on which the vdev has no room, or that cannot write its sectors.
pub(crate) fn check_fits(
    top: &VdevConfig,
    device: &dyn BlockDevice,
    ashift: Option<u32>,
) -> Result<()> {
    if format::label::leaf_asize(device.size()) < top.leaf_size_min() {
        return Err(PoolError::refused(TOO_SMALL));
    }
    let ashift = ashift.unwrap_or(0).max(device.sector_size().max(1).ilog2());
    if ashift > top.ashift() {
        return Err(PoolError::refused(
            "The new device cannot have a higher alignment requirement than the top-level vdev.",
        ));
    }
    Ok(())
}

/// Whether a device could not be opened because somebody has it open.
#[must_use]
pub fn is_in_use(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Device(DeviceError::Busy { .. }) | PoolError::Locked { .. }
    )
}

#[cfg(test)]
pub(crate) mod tests;
