//! Vdevs that a pool gets (`zpool add`), and log vdevs that it gives back (`zpool remove`).
//!
//! A new vdev gets labels whose txg 0 says that they do not count yet; the txg that puts it into the configuration
//! writes the real ones. Blocks go there only once that txg is on disk: an intent log that is read after a crash
//! must not lead to a vdev that the pool does not know.
//!
//! A log vdev is emptied by ending the chains of all logs. Its place stays as a hole, whose number is not used again.

use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectId, Txg, VdevId};
use dmu::{Tx, Zap};
use dsl::property::pool::ASHIFT;
use format::BlockPointer;
use format::Uberblock;
use format::config::{directory, keys, vdev_types, vdev_zap};
use format::features;
use format::nvlist::{NvList, Value};
use intent::Log;
use space::{PoolSpace, VdevSpace};
use vdev::Top;

use crate::allocation::maps::VdevMaps;
use crate::allocation::opening::geometry;
use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::pool::status::VdevRole;
use crate::pool::{Pool, Writer};
use crate::sync::syncer::Syncer;
use crate::vdevs::devices::{Devices, open_top};
use crate::vdevs::new::{NewVdev, Preparation, prepare_top};
use crate::vdevs::objects::VdevObjects;

static ONE: LockClass = LockClass::new("pool.vdev_change", rank::POOL + 2);
static CHANGES: LockClass = LockClass::new("pool.vdev_changes", rank::LAST - 28);

/// Txgs after which what a chain held is free again.
const TXGS_TO_EMPTY: usize = 6;

enum Change {
    Add {
        config: Box<VdevConfig>,
        role: VdevRole,
        top: Arc<Top>,
    },
    Remove(VdevId),
}

#[derive(Default)]
struct State {
    /// For the next txg.
    next: Vec<Change>,
    /// Space of vdevs that are in the txg that syncs.
    space: Vec<VdevSpace>,
}

/// Changes that wait for a txg, and what waits for its end.
pub(crate) struct VdevChanges {
    /// One change at a time: ids are given in order.
    one: Mutex<()>,
    state: Mutex<State>,
}

impl VdevChanges {
    pub(crate) fn new() -> Self {
        Self {
            one: Mutex::new(&ONE, ()),
            state: Mutex::new(&CHANGES, State::default()),
        }
    }

    /// The txg is on disk: new vdevs may be used.
    pub(crate) fn finish(&self, space: &PoolSpace) {
        let ready = std::mem::take(&mut self.state.lock().space);
        ready.into_iter().for_each(|vdev| space.set_vdev(vdev));
    }
}

impl Syncer {
    /// Puts waiting changes into the pool; in pass 1.
    pub(crate) fn change_vdevs(&self, txg: Txg) -> Result<()> {
        let waiting = std::mem::take(&mut self.vdev_changes.state.lock().next);
        for change in waiting {
            match change {
                Change::Add { config, role, top } => self.add_vdev(txg, *config, role, top)?,
                Change::Remove(id) => self.remove_vdev(txg, id)?,
            }
        }
        Ok(())
    }

    fn vdev_zaps(&self) -> Result<Zap> {
        let services = self.sync_tasks.services();
        let map = services
            .directory
            .lookup(directory::VDEV_ZAP_MAP.as_bytes())?;
        let map = map.ok_or_else(|| PoolError::Damaged("it has no table of vdev ZAPs".into()))?;
        Ok(Zap::open(&self.objects.object(ObjectId(map))?)?)
    }

    fn add_vdev(
        &self,
        txg: Txg,
        mut config: VdevConfig,
        role: VdevRole,
        top: Arc<Top>,
    ) -> Result<()> {
        let tx = Tx::syncing(txg);
        let services = self.sync_tasks.services();
        config.list.set(keys::CREATE_TXG, txg.0);
        for leaf in &mut config.children {
            leaf.list.set(keys::CREATE_TXG, txg.0);
        }
        let objects = VdevObjects {
            objects: &self.objects,
            tx: &tx,
            logged: self.space.has_logs(),
        };
        objects.top(&self.vdev_zaps()?, &mut config, role)?;
        if role.has_feature() {
            services.change_feature(&tx, &features::ALLOCATION_CLASSES, 1)?;
        }
        let maps = VdevMaps::of_new(&self.objects, &config)?;
        self.maps.set_vdev(config.id(), maps);
        let space = VdevSpace::new(geometry(&config, role.class())?, &[], &self.findings);
        self.vdevs.set(config.id(), Some(top));
        let text = config.path().unwrap_or(config.kind()).to_owned();
        let guid = config.guid();
        self.config.change(|whole| {
            whole.root.children.push(config);
            let count = whole.root.children.len() as u64;
            whole.list.set(keys::VDEV_CHILDREN, count);
        });
        self.vdev_changes.state.lock().space.push(space);
        services.events.vdev("vdev_add", guid);
        let now_s = services.clock.now_s();
        let history = &services.history;
        Ok(history.internal(&tx, "vdev add", &text, None, now_s)?)
    }

    /// Makes a hole of an empty log vdev, and frees what the pool knows of it.
    fn remove_vdev(&self, txg: Txg, id: VdevId) -> Result<()> {
        let tx = Tx::syncing(txg);
        let top = self.config.with(|config| child(config, id).cloned());
        let Some(top) = top else {
            return Ok(());
        };
        let space = self.space.vdevs();
        let space = space.iter().find(|space| space.geometry().vdev == id);
        for map in space.map(|space| space.map_objects()).unwrap_or_default() {
            self.maps.destroy_map(&tx, map)?;
        }
        self.space.remove_vdev(id);
        self.maps.remove_vdev(id);
        // Logs of space maps that name the vdev go as well.
        self.flush_maps_next();
        self.free_objects(&tx, &top)?;
        self.vdevs.set(id, None);
        self.config.change(|config| {
            let index = usize::try_from(id.0).unwrap_or(usize::MAX);
            if let Some(slot) = config.root.children.get_mut(index) {
                *slot = hole(id);
            }
            let holes = config.root.children.iter().filter(|top| top.is_hole());
            let holes: Vec<u64> = holes.map(|top| top.id().0).collect();
            config.list.set(keys::HOLE_ARRAY, Value::Uint64Array(holes));
        });
        let services = self.sync_tasks.services();
        let now_s = services.clock.now_s();
        let text = format!(
            "{} vdev {id} (log)",
            services.config.with(|c| c.name().to_owned())
        );
        services.events.vdev("vdev_remove_dev", top.guid());
        let history = &services.history;
        Ok(history.internal(&tx, "vdev remove completed", &text, None, now_s)?)
    }

    fn free_objects(&self, tx: &Tx, top: &VdevConfig) -> Result<()> {
        let zaps = self.vdev_zaps()?;
        let mut nodes = vec![top];
        nodes.extend(&top.children);
        for node in nodes {
            for key in [keys::VDEV_ZAP_TOP, keys::VDEV_ZAP_LEAF] {
                let Some(id) = node.object(key) else { continue };
                let zap = Zap::open(&self.objects.object(id)?)?;
                if let Some(array) = zap.lookup(vdev_zap::UNFLUSHED_TXGS.as_bytes())? {
                    self.objects.free(tx, ObjectId(array))?;
                }
                self.objects.free(tx, id)?;
                zaps.remove_int(tx, id.0)?;
            }
            if let Some(missed) = node.object(keys::DTL) {
                self.maps.destroy_map(tx, missed)?;
            }
        }
        if let Some(array) = top.object(keys::METASLAB_ARRAY) {
            self.objects.free(tx, array)?;
        }
        Ok(())
    }
}

fn child(config: &crate::config::PoolConfig, id: VdevId) -> Option<&VdevConfig> {
    let index = usize::try_from(id.0).ok()?;
    config.root.children.get(index)
}

/// The configuration of a place without a vdev, as OpenZFS writes it.
fn hole(id: VdevId) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, vdev_types::HOLE)
        .set(keys::ID, id.0)
        .set(keys::GUID, 0_u64)
        .set(keys::WHOLE_DISK, 0_u64)
        .set(keys::METASLAB_ARRAY, 0_u64)
        .set(keys::METASLAB_SHIFT, 0_u64)
        .set(keys::ASHIFT, 0_u64)
        .set(keys::ASIZE, 0_u64)
        .set(keys::MIN_ALLOC, 1_u64)
        .set(keys::IS_LOG, 0_u64)
        .set(keys::IS_HOLE, 1_u64);
    VdevConfig {
        list,
        children: Vec::new(),
    }
}

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
        let _one = writer.syncer.vdev_changes.one.lock();
        let classed = new.iter().any(|(role, _)| role.has_feature());
        if classed && !self.features().is_enabled(&features::ALLOCATION_CLASSES) {
            return Err(PoolError::Invalid {
                reason: "pool must be upgraded to add these vdevs".to_owned(),
            });
        }
        let mut config = self.config();
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
            config.root.children.push(top);
        }
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
        writer.syncer.vdev_changes.state.lock().next.extend(changes);
        Ok(writer.engine.wait_synced(None)?)
    }

    /// Removes a top-level log vdev.
    ///
    /// # Errors
    /// There is none of that guid, it is not for logs, a log waits for its replay, or the pool cannot be written.
    pub fn remove_log(&self, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.syncer.vdev_changes.one.lock();
        let config = self.config();
        let top = config.root.children.iter().find(|top| top.guid() == guid);
        let top = top.ok_or(PoolError::NoSuchVdev { guid })?;
        if !top.flag(keys::IS_LOG) {
            return Err(PoolError::Invalid {
                reason: "only log devices can be removed by this version".to_owned(),
            });
        }
        let id = top.id();
        let devices = &writer.syncer.log_devices;
        devices.set_leaving(id, true);
        let result = self.empty_logs(writer, id);
        if result.is_err() {
            devices.set_leaving(id, false);
        }
        writer.logs.go_on();
        result?;
        writer.trim.bar(id, true);
        let vdev = self.vdevs.top(id);
        let changes = &writer.syncer.vdev_changes;
        changes.state.lock().next.push(Change::Remove(id));
        let removed = writer.engine.wait_synced(None);
        writer.trim.bar(id, false);
        removed?;
        devices.set_leaving(id, false);
        // The device may be gone; if it is there, nobody is to take it for a part of the pool.
        let leaves = vdev.map(|top| top.leaves().to_vec()).unwrap_or_default();
        for device in leaves.iter().filter_map(|leaf| leaf.device()) {
            let _ = vdev::clear_labels(device.as_ref());
        }
        Ok(())
    }

    /// Ends the chains of all logs, and waits until nothing is left of them on the vdev.
    fn empty_logs(&self, writer: &Writer, id: VdevId) -> Result<()> {
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
        let top = self.vdevs.top(id)?;
        let works = top.condition().state.is_usable();
        let spaces = self.space.as_ref().map(|space| space.vdevs());
        let mut spaces = spaces.iter().flatten();
        let space = spaces.find(|space| space.geometry().vdev == id);
        let left = space.map_or(0, |space| space.allocated_bytes() + space.deferred_bytes());
        // What a vdev that is gone still seems to hold was lost with it.
        if works && left > 0 {
            return Err(PoolError::Busy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
