//! Vdevs that a pool gets (`zpool add`), and log vdevs that it gives up (`zpool remove`); how the changes of single
//! devices wait for their txg ([`super::regroup`] makes them).
//!
//! A new vdev gets labels whose txg 0 says that they do not count yet; the txg that puts it into the configuration
//! writes the real ones. Blocks go there only once that txg is on disk: an intent log that is read after a crash
//! must not lead to a vdev that the pool does not know.
//!
//! A log vdev is emptied by ending the chains of all logs. Its place stays as a hole, whose number is not used again.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::lock::{LockClass, Mutex, MutexGuard, rank};
use base::{ObjectId, VdevId};
use dmu::Zap;
use format::config::{VdevType, directory, keys};
use format::features;
use format::nvlist::{NvList, Value};
use space::{PoolSpace, VdevSpace};
use vdev::{Leaf, Top};

use crate::allocation::maps::VdevMaps;
use crate::allocation::opening::geometry;
use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::pool::status::VdevRole;
use crate::sync::tasks::{FirstPass, SyncTask};
use crate::vdevs::objects::VdevObjects;
use crate::vdevs::regroup::DeviceChange;
use crate::vdevs::spare_rooms;

static ONE: LockClass = LockClass::new("pool.vdev_change", rank::POOL + 2);
static CHANGES: LockClass = LockClass::new("pool.vdev_changes", rank::LAST - 28);

/// A change that waits for a txg.
pub(super) enum Change {
    Add {
        config: Box<VdevConfig>,
        role: VdevRole,
        top: Arc<Top>,
    },
    Remove(VdevId),
    /// A change of devices that may be refused in its txg. The number is that under which the outcome is found.
    Devices(u64, DeviceChange),
    /// Devices whose place others were to take go where these have everything.
    EndReplacements,
    /// Vdevs take all that their devices have.
    Grow(Vec<VdevId>),
    /// A vdev that has no metaslabs gets them.
    FirstMetaslabs(VdevId),
}

#[derive(Default)]
struct State {
    /// For the next txg.
    next: Vec<Change>,
    /// Space of vdevs that are in the txg that syncs.
    space: Vec<VdevSpace>,
    /// How many changes of devices there were.
    count: u64,
    /// What became of changes of devices.
    outcomes: BTreeMap<u64, Result<()>>,
    /// Leaves that go with the txg that syncs.
    leaving: Vec<Arc<Leaf>>,
    /// Leaves that are gone for good: their devices are to forget the pool.
    gone: Vec<Arc<Leaf>>,
}

/// Changes that wait for a txg, and what waits for its end.
pub(crate) struct VdevChanges {
    /// One change at a time: ids are given in order.
    one: Mutex<()>,
    state: Mutex<State>,
}

impl VdevChanges {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            one: Mutex::new(&ONE, ()),
            state: Mutex::new(&CHANGES, State::default()),
        })
    }

    /// While this lives, nobody else changes vdevs.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// Makes a change of devices with the next txg; answers the number of its outcome.
    pub(crate) fn change_devices(&self, change: DeviceChange) -> u64 {
        let mut state = self.state.lock();
        state.count += 1;
        let number = state.count;
        state.next.push(Change::Devices(number, change));
        number
    }

    /// Has replacements end with the next txg that have nothing to wait for.
    pub(crate) fn end_replacements_next(&self) {
        self.change_next([Change::EndReplacements]);
    }

    /// What became of a change of devices whose txg is over.
    pub(crate) fn outcome(&self, number: u64) -> Result<()> {
        let outcome = self.state.lock().outcomes.remove(&number);
        outcome.unwrap_or(Err(PoolError::Busy))
    }

    /// The leaves that are gone since this was last asked.
    pub(super) fn take_gone(&self) -> Vec<Arc<Leaf>> {
        std::mem::take(&mut self.state.lock().gone)
    }

    /// These leaves go with the txg that syncs.
    pub(crate) fn leave(&self, leaves: Vec<Arc<Leaf>>) {
        self.state.lock().leaving.extend(leaves);
    }

    /// Makes changes with the next txg.
    pub(super) fn change_next(&self, changes: impl IntoIterator<Item = Change>) {
        self.state.lock().next.extend(changes);
    }
}

impl SyncTask for VdevChanges {
    /// Puts waiting changes into the pool.
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let waiting = std::mem::take(&mut self.state.lock().next);
        let mut some_went = false;
        for change in waiting {
            match change {
                Change::Add { config, role, top } => {
                    let space = pass.add_vdev(*config, role, top)?;
                    self.state.lock().space.push(space);
                }
                Change::Remove(id) => pass.remove_vdev(id)?,
                Change::Devices(number, change) => {
                    let (outcome, leaving) = pass.change_devices(change)?;
                    some_went |= !leaving.is_empty();
                    let mut state = self.state.lock();
                    state.outcomes.insert(number, outcome);
                    state.leaving.extend(leaving);
                }
                Change::EndReplacements => {
                    let leaving = pass.end_replacements()?;
                    some_went |= !leaving.is_empty();
                    self.state.lock().leaving.extend(leaving);
                }
                Change::FirstMetaslabs(id) => {
                    let space = pass.make_first_metaslabs(id)?;
                    self.state.lock().space.extend(space);
                }
                Change::Grow(tops) => {
                    let space = pass.grow(&tops)?;
                    self.state.lock().space.extend(space);
                }
            }
        }
        // What stays may be larger than what went.
        if some_went && pass.expands_by_itself() {
            let space = pass.grow_all()?;
            self.state.lock().space.extend(space);
        }
        Ok(())
    }

    /// New vdevs may be used.
    fn finish(&self, space: &PoolSpace) {
        let ready = {
            let mut state = self.state.lock();
            let leaving = std::mem::take(&mut state.leaving);
            state.gone.extend(leaving);
            std::mem::take(&mut state.space)
        };
        ready.into_iter().for_each(|vdev| space.set_vdev(vdev));
    }
}

impl FirstPass<'_> {
    fn vdev_zaps(&self) -> Result<Zap> {
        let map = self.vdev_zaps_if_any()?;
        map.ok_or_else(|| PoolError::Damaged("it has no table of vdev ZAPs".into()))
    }

    /// The table of the vdevs' ZAPs, which old pools lack.
    pub(crate) fn vdev_zaps_if_any(&self) -> Result<Option<Zap>> {
        let services = self.services;
        let key = directory::VDEV_ZAP_MAP.as_bytes();
        let Some(map) = services.directory.lookup(key)? else {
            return Ok(None);
        };
        Ok(Some(Zap::open(&services.mos.object(ObjectId(map))?)?))
    }

    fn add_vdev(&self, mut config: VdevConfig, role: VdevRole, top: Arc<Top>) -> Result<VdevSpace> {
        let (services, txg) = (self.services, self.tx.txg());
        config.list.set(keys::CREATE_TXG, txg.0);
        for leaf in &mut config.children {
            leaf.list.set(keys::CREATE_TXG, txg.0);
        }
        let objects = VdevObjects {
            objects: &self.services.mos,
            tx: self.tx,
            logged: self.space.has_logs(),
        };
        objects.top(&self.vdev_zaps()?, &mut config, role)?;
        if role.has_feature() {
            services.change_feature(self.tx, &features::ALLOCATION_CLASSES, 1)?;
        }
        if let Some(feature) = config.feature() {
            services.change_feature(self.tx, feature, 1)?;
        }
        let maps = VdevMaps::of_new(&self.services.mos, &config)?;
        self.maps.set_vdev(config.id(), maps);
        let space = VdevSpace::new(geometry(&config, role.class())?, &[], self.findings);
        self.vdevs.set(config.id(), Some(top));
        let rooms = spare_rooms::of_new(&config, services.rng.as_ref());
        rooms.into_iter().for_each(|room| services.spares.add(room));
        let text = config.path().unwrap_or(config.kind()).to_owned();
        let guid = config.guid();
        self.services.config.change(|whole| {
            whole.root.children.push(config);
            let count = whole.root.children.len() as u64;
            whole.list.set(keys::VDEV_CHILDREN, count);
        });
        services.events.vdev("vdev_add", guid);
        let now_s = services.clock.now_s();
        let history = &services.history;
        history.internal(self.tx, "vdev add", &text, None, now_s)?;
        Ok(space)
    }

    /// Makes a hole of an empty log vdev, and frees what the pool knows of it.
    fn remove_vdev(&self, id: VdevId) -> Result<()> {
        let top = self.services.config.with(|config| config.top(id).cloned());
        let Some(top) = top else {
            return Ok(());
        };
        self.make_hole(&top)?;
        let services = self.services;
        let now_s = services.clock.now_s();
        let text = format!(
            "{} vdev {id} (log)",
            services.config.with(|c| c.name().to_owned())
        );
        services.events.vdev("vdev_remove_dev", top.guid());
        let history = &services.history;
        Ok(history.internal(self.tx, "vdev remove completed", &text, None, now_s)?)
    }

    /// Nothing is left of a vdev but its place.
    pub(super) fn make_hole(&self, top: &VdevConfig) -> Result<()> {
        let id = top.id();
        self.forget_space(id)?;
        self.free_objects(top)?;
        self.vdevs.set(id, None);
        self.services.config.change(|config| {
            if let Some(slot) = config.top_mut(id) {
                *slot = hole(id);
            }
            let holes = config.root.children.iter().filter(|top| top.is_hole());
            let holes: Vec<u64> = holes.map(|top| top.id().0).collect();
            config.list.set(keys::HOLE_ARRAY, Value::Uint64Array(holes));
        });
        Ok(())
    }
}

/// The configuration of a place without a vdev, as OpenZFS writes it.
fn hole(id: VdevId) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, VdevType::Hole.name())
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
