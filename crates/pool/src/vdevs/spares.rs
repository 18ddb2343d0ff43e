//! Hot spares: devices that a pool keeps for the place of one that fails.
//!
//! The pool stores a list of them, under the name `spares` of its directory. A spare that waits has a label that names
//! no pool, so several pools may list it. One that stands in is a leaf of the pool as others, of the same guid, under a
//! vdev `spare` beside the one that it stands in for; its entry in the list stays.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use base::thread;
use base::{Guid, Txg};
use device::{Access, BlockDevice};
use format::config::{VdevType, keys};
use format::label::{self, PoolState};
use format::{BlockPointer, NvList, Uberblock, features, version};
use vdev::{Leaf, LeafConfig};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::events::is_failed;
use crate::import::discover;
use crate::pool::Pool;
use crate::rebuild::fill::Fill;
use crate::vdevs::device_lists::{self, labelled_as};
use crate::vdevs::disks::AttachOptions;
use crate::vdevs::dtl;
use crate::vdevs::new::{NewDevice, leaf_config, open_device, require};
use crate::vdevs::remote;
use crate::vdevs::spare_rooms;

/// A spare, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareStatus {
    /// Its guid.
    pub guid: Guid,
    /// `file` or `disk`.
    pub kind: String,
    /// Where it is.
    pub path: String,
    /// Whether it stands in for another device.
    pub is_used: bool,
    /// Whether it is there: one that is not can be no help.
    pub is_there: bool,
}

/// The guid of the spare that a device is labelled as; none if it is none, or stands in.
fn labelled_as_spare(path: &Path, device: &dyn BlockDevice) -> Option<Guid> {
    labelled_as(PoolState::Spare, path, device)
}

/// Gives a device the label of a spare that waits.
pub(super) fn write_label(
    version: u64,
    guid: Guid,
    path: &Path,
    device: &Arc<dyn BlockDevice>,
) -> Result<()> {
    let path = path.display().to_string();
    let mut list = NvList::new();
    list.set(keys::VERSION, version)
        .set(keys::STATE, PoolState::Spare.number())
        .set(keys::GUID, guid.0)
        .set(keys::PATH, path.as_str());
    let ashift = *label::ASHIFT_RANGE.start();
    let config = LeafConfig {
        guid,
        path,
        ashift,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(Arc::clone(device)));
    let blank = Uberblock::new(version, Txg(0), 0, 0, BlockPointer::HOLE);
    Ok(leaf.initialise_labels(&list, &blank)?)
}

/// Whether the device of a spare, or for a cache, is where the list says.
pub(crate) fn is_there(spare: &VdevConfig) -> bool {
    if spare.is_distributed_spare() {
        return true;
    }
    let path = PathBuf::from(spare.path().unwrap_or_default());
    let device = device::open_again(&path, Access::ReadOnly);
    device.is_ok_and(|device| {
        discover::labelled(&path, device.as_ref()).is_some_and(|found| found.guid == spare.guid())
    })
}

/// Wipes the label of a spare that is none any more.
fn release(path: &Path, guid: Guid) {
    // It may be gone, or be somebody else's by now.
    if let Ok(device) = device::open_again(path, Access::ReadWrite)
        && labelled_as_spare(path, device.as_ref()) == Some(guid)
    {
        let _ = vdev::clear_labels(device.as_ref());
    }
}

impl Pool {
    /// Adds hot spares. One that is a spare of another pool is shared with it.
    ///
    /// # Errors
    /// A device cannot be used, or the pool cannot be written.
    pub fn add_spares(&self, new: &[NewDevice], force: bool) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        require(self.version(), version::DOUBLE_PARITY, "hot spares")?;
        let _one = writer.vdev_changes.alone();
        let mut labelled = Vec::new();
        let added = self.prepare_spares(new, force, &mut labelled);
        let added = added.inspect_err(|_| {
            labelled
                .iter()
                .for_each(|(path, guid)| release(path, *guid));
        })?;
        let spares = &self.services.spares;
        for spare in added {
            self.services.events.vdev("vdev_add", spare.guid());
            spares.add(spare);
        }
        Ok(writer.engine.wait_synced(None)?)
    }

    /// Labels devices as spares, those apart that are spares of other pools.
    fn prepare_spares(
        &self,
        new: &[NewDevice],
        force: bool,
        labelled: &mut Vec<(PathBuf, Guid)>,
    ) -> Result<Vec<VdevConfig>> {
        let spares = &self.services.spares;
        let mut added: Vec<VdevConfig> = Vec::new();
        for device in new {
            remote::check_not_remote(device)?;
            // What it is labelled as is looked at below.
            let (path, opened) = open_device(device, true)?;
            let shared = labelled_as_spare(&path, opened.as_ref());
            if shared.is_none() && !force {
                open_device(&NewDevice::Open(path.clone(), Arc::clone(&opened)), false)?;
            }
            let guid = shared.unwrap_or_else(|| Guid(self.services.rng.nonzero_u64()));
            let is_known = |spare: &VdevConfig| spare.guid() == guid;
            if added.iter().any(is_known) || spares.list().iter().any(is_known) {
                return Err(PoolError::Locked {
                    path: path.display().to_string(),
                });
            }
            if shared.is_none() {
                labelled.push((path.clone(), guid));
                write_label(self.version(), guid, &path, &opened)?;
            }
            let mut node = leaf_config(0, guid, &path, opened.kind(), Txg(0));
            for key in [keys::ID, keys::CREATE_TXG] {
                node.list.remove(key);
            }
            node.list.set(keys::IS_SPARE, 1_u64);
            added.push(node);
        }
        Ok(added)
    }

    /// Takes a hot spare from the pool.
    ///
    /// # Errors
    /// There is none of that guid, it stands in, or the pool cannot be written.
    pub fn remove_spare(&self, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        let spare = self.services.spares.find(guid);
        let spare = spare.ok_or(PoolError::NoSuchVdev { guid })?;
        if spare.is_distributed_spare() {
            return Err(PoolError::refused("dRAID spares cannot be removed"));
        }
        if self.config().root.find(guid).is_some() {
            return Err(PoolError::refused("device is in use"));
        }
        self.services.spares.remove(guid);
        self.services.events.vdev("vdev_remove_aux", guid);
        writer.engine.wait_synced(None)?;
        release(&PathBuf::from(spare.path().unwrap_or_default()), guid);
        Ok(())
    }

    /// The hot spares.
    #[must_use]
    pub fn spares(&self) -> Vec<SpareStatus> {
        let root = self.config().root;
        let status = |spare: &VdevConfig| {
            let is_used = root.find(spare.guid()).is_some();
            SpareStatus {
                guid: spare.guid(),
                kind: spare.kind().to_owned(),
                path: spare.path().unwrap_or_default().to_owned(),
                is_used,
                is_there: is_used || is_there(spare),
            }
        };
        self.services.spares.list().iter().map(status).collect()
    }

    /// The spare at a path, if it waits.
    ///
    /// # Errors
    /// If it is a distributed spare that stands in already: its name says nothing to whoever opens devices.
    pub(super) fn waiting_spare(&self, path: &Path) -> Result<Option<VdevConfig>> {
        let whole = device::absolute(path);
        let is_called = |spare: &VdevConfig| {
            // A distributed spare has a name, not a path.
            let called = if spare.is_distributed_spare() {
                path
            } else {
                &whole
            };
            spare.path().is_some_and(|own| Path::new(own) == called)
        };
        let mut list = self.services.spares.list().into_iter();
        let Some(spare) = list.find(is_called) else {
            return Ok(None);
        };
        let config = self.config();
        match (config.root.find(spare.guid()), spare.is_distributed_spare()) {
            (None, _) => Ok(Some(spare)),
            (Some(_), false) => Ok(None),
            (Some(_), true) => Err(PoolError::DeviceInUse {
                path: path.display().to_string(),
                pool: config.name().to_owned(),
                state: "active",
            }),
        }
    }

    /// From now on spares step in for devices that fail.
    pub(crate) fn watch_devices(self: &Arc<Self>) {
        let (pool, is_busy) = (Arc::downgrade(self), Arc::new(AtomicBool::new(false)));
        let spares = Arc::clone(&self.services.spares);
        let (vdevs, is_looking) = (Arc::clone(&self.vdevs), Arc::new(AtomicBool::new(false)));
        remote::look_for_servers(Weak::clone(&pool), &vdevs, &is_looking);
        // By the thread that syncs, too: the pool is not held here, or this might be who lets go of it.
        let look = move || {
            remote::look_for_servers(Weak::clone(&pool), &vdevs, &is_looking);
            if spares.list().is_empty() {
                return;
            }
            if is_busy.swap(true, Ordering::AcqRel) {
                return;
            }
            let (pool, own) = (Weak::clone(&pool), Arc::clone(&is_busy));
            // The thread that found the failure may be the one that syncs.
            let thread = thread::named("pool-spares", sys::thread::BACKGROUND);
            let started = thread.spawn(move || {
                own.store(false, Ordering::Release);
                if let Some(pool) = pool.upgrade() {
                    pool.step_in();
                }
            });
            if started.is_err() {
                is_busy.store(false, Ordering::Release);
            }
        };
        self.services.events.on_failed(Box::new(look));
        self.step_in();
    }

    /// Has spares stand in for devices that failed, as far as there are some that can.
    pub(crate) fn step_in(self: &Arc<Self>) {
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        for leaf in leaves.filter(|leaf| is_failed(leaf.condition())) {
            let mut tops = self.config().root.children.into_iter();
            let Some(top) = tops.find(|top| top.find(leaf.guid()).is_some()) else {
                continue;
            };
            for spare in self.services.spares.list() {
                let path = PathBuf::from(spare.path().unwrap_or_default());
                let can_help = spare_rooms::can_help(&spare, &top);
                if !matches!(self.waiting_spare(&path), Ok(Some(_)))
                    || !can_help
                    || !is_there(&spare)
                {
                    continue;
                }
                let options = AttachOptions {
                    replace: true,
                    fill: self.fill_of(&spare),
                    ..AttachOptions::default()
                };
                let new = NewDevice::Path(path);
                // One that is too small, or busy with another pool, is none; another one may do.
                let attached = self.writer().and_then(|writer| {
                    self.check_running()?;
                    self.fill_device(writer, leaf.guid(), &new, &options)
                });
                if attached.is_ok() {
                    break;
                }
            }
        }
    }

    /// How a spare gets what it is to have, when it steps in by itself.
    fn fill_of(&self, spare: &VdevConfig) -> Fill {
        let is_enabled = self.features().is_enabled(&features::DEVICE_REBUILD);
        match spare.is_distributed_spare() && is_enabled {
            true => Fill::Sequential,
            false => Fill::Healing,
        }
    }

    /// Devices that are found again after they were away get what they missed; then the spares may go that stand in
    /// for them. One that lacks nothing was replaced by hand, and keeps its spare.
    pub(crate) fn release_spares(&self) {
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let back = leaves.filter(|leaf| leaf.is_writable() && !leaf.missing().is_empty());
        let back: Vec<Guid> = back.map(|leaf| leaf.guid()).collect();
        let config = &self.services.config;
        let is_spared = |root: &VdevConfig, leaf: Guid| {
            let above = root.parent_of(leaf);
            above.is_some_and(|above| above.is_a(VdevType::Spare))
        };
        if config.with(|whole| back.iter().any(|leaf| is_spared(&whole.root, *leaf))) {
            config.change(|whole| back.iter().for_each(|leaf| whole.root.note_unspare(*leaf)));
        }
    }

    /// Spares that were moved are found among these files and folders.
    pub(crate) fn locate_spares(&self, paths: &[PathBuf]) -> Result<()> {
        let root = self.config().root;
        let list = self.services.spares.list().into_iter();
        for spare in list.clone() {
            let used = root.find(spare.guid()).and_then(VdevConfig::path);
            if let Some(path) = used.filter(|path| spare.path() != Some(path)) {
                self.services.spares.set_path(spare.guid(), path);
            }
        }
        let away = list.filter(|spare| root.find(spare.guid()).is_none() && !is_there(spare));
        let away: Vec<Guid> = away.map(|spare| spare.guid()).collect();
        device_lists::find_again(&self.services.spares, &away, paths)
    }

    /// Spares that a crash left with a label of the pool, from which they went, get their own.
    pub(crate) fn relabel_spares(&self) {
        let root = self.config().root;
        let config = self.config();
        for spare in self.services.spares.list() {
            if root.find(spare.guid()).is_some() || spare.is_distributed_spare() {
                continue;
            }
            let path = PathBuf::from(spare.path().unwrap_or_default());
            let Ok(device) = device::open_again(&path, Access::ReadWrite) else {
                continue;
            };
            let Some(found) = discover::labelled(&path, device.as_ref()) else {
                continue;
            };
            let label = discover::newest(&found.labels);
            let pool = label.and_then(|label| label.u64(keys::POOL_GUID));
            if found.guid == spare.guid() && pool == Some(config.guid().0) {
                // The next import finds it as it is.
                let _ = write_label(self.version(), spare.guid(), &path, &device);
            }
        }
    }
}
