//! Cache devices (L2ARC): what a pool lists of them, and taking them into use.
//!
//! The pool stores a list of them, under the name `l2cache` of its directory. A cache device has a label that names no
//! pool; whose it is, its header says (`format::l2arc`). Nothing of the pool depends on one: what cannot be opened is
//! left out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use base::{Guid, ObjectId, ObjectSetId, Txg};
use device::{Access, BlockDevice};
use dsl::Dsl;
use dsl::property::CachePolicy;
use dsl::property::dataset::SECONDARYCACHE;
use format::config::keys;
use format::label::{self, PoolState};
use format::{BlockPointer, NvList, Uberblock, l2arc as layout, version};
use l2arc::{Admission, CacheDeviceState, CacheDeviceStatistics};
use sys::BufferMut;
use vdev::{Leaf, LeafConfig};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::options::{ImportOptions, Rewind};
use crate::pool::Pool;
use crate::vdevs::device_lists::{self, labelled_as};
use crate::vdevs::new::{NewDevice, leaf_config, min_ashift, open_device, require};
use crate::vdevs::remote;
use crate::vdevs::spares::is_there;

/// A cache device, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its guid.
    pub guid: Guid,
    /// `file` or `disk`.
    pub kind: String,
    /// Where it is.
    pub path: String,
    /// Whether it is there.
    pub is_there: bool,
    /// What it did and holds, if it is in use.
    pub statistics: Option<CacheDeviceStatistics>,
}

impl CacheStatus {
    /// Whether it is out of use because of its errors.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        let found = self.statistics.as_ref();
        found.is_some_and(|found| found.state == CacheDeviceState::Faulted)
    }
}

/// Which datasets have their blocks on cache devices: the property `secondarycache`.
struct ByProperty(Weak<Dsl>);

impl Admission for ByProperty {
    fn admits(&self, set: ObjectSetId, is_metadata: bool) -> bool {
        // The pool's own blocks.
        if set.0 == 0 {
            return true;
        }
        let Some(dsl) = self.0.upgrade() else {
            return false;
        };
        let dataset = dsl.dataset_by_id(ObjectId(set.0));
        let policy = dataset.and_then(|dataset| dataset.get(SECONDARYCACHE));
        match policy.map(|found| found.value) {
            Ok(CachePolicy::All) => true,
            Ok(CachePolicy::Metadata) => is_metadata,
            Ok(CachePolicy::None) | Err(_) => false,
        }
    }
}

/// The guid of the cache device that a device is labelled as.
fn labelled_as_cache(path: &Path, device: &dyn BlockDevice) -> Option<Guid> {
    labelled_as(PoolState::Cache, path, device)
}

/// Gives a device the label of a cache device, and no header.
fn write_label(
    (version, guid, ashift): (u64, Guid, u32),
    path: &Path,
    device: &Arc<dyn BlockDevice>,
) -> Result<()> {
    let path = path.display().to_string();
    let mut list = NvList::new();
    list.set(keys::VERSION, version)
        .set(keys::STATE, PoolState::Cache.number())
        .set(keys::GUID, guid.0)
        .set(keys::ASHIFT, u64::from(ashift))
        .set(keys::PATH, path.as_str());
    let config = LeafConfig {
        guid,
        path,
        ashift,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(Arc::clone(device)));
    let blank = Uberblock::new(version, Txg(0), 0, 0, BlockPointer::HOLE);
    clear_header(device.as_ref())?;
    Ok(leaf.initialise_labels(&list, &blank)?)
}

/// Leaves no header on a device that is, or was, a cache device.
fn clear_header(device: &dyn BlockDevice) -> Result<()> {
    let largest = layout::header_size(*label::ASHIFT_RANGE.end());
    Ok(device.write(layout::HEADER_OFFSET, &BufferMut::zeroed(largest))?)
}

impl Pool {
    /// Adds cache devices.
    ///
    /// # Errors
    /// A device cannot be used, or the pool cannot be written.
    pub fn add_caches(&self, new: &[NewDevice], ashift: Option<u32>, force: bool) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        require(self.version(), version::CACHE_DEVICES, "cache devices")?;
        let _one = writer.vdev_changes.alone();
        let mut added = Vec::new();
        for device in new {
            remote::check_not_remote(device)?;
            let (path, opened) = open_device(device, force)?;
            let guid = Guid(self.services.rng.nonzero_u64());
            let ashift = ashift.unwrap_or_else(|| min_ashift(opened.as_ref(), None));
            write_label((self.version(), guid, ashift), &path, &opened)?;
            let mut node = leaf_config(0, guid, &path, opened.kind(), Txg(0));
            for key in [keys::ID, keys::CREATE_TXG] {
                node.list.remove(key);
            }
            node.list.set(keys::ASHIFT, u64::from(ashift));
            added.push((node, opened));
        }
        for (node, opened) in added {
            self.services.events.vdev("vdev_add", node.guid());
            self.use_cache(&node, opened)?;
            self.services.caches.add(node);
        }
        Ok(writer.engine.wait_synced(None)?)
    }

    /// Takes a cache device from the pool.
    ///
    /// # Errors
    /// There is none of that guid, or the pool cannot be written.
    pub fn remove_cache(&self, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        let cache = self.services.caches.find(guid);
        let cache = cache.ok_or(PoolError::NoSuchVdev { guid })?;
        let used = self.pipeline.second_level().remove(guid);
        self.services.caches.remove(guid);
        self.services.events.vdev("vdev_remove_aux", guid);
        writer.engine.wait_synced(None)?;
        release(&cache, used);
        Ok(())
    }

    /// The pool is destroyed: its cache devices are nobody's.
    pub(crate) fn release_caches(&self) {
        let caches = self.services.caches.list();
        caches.iter().for_each(|cache| release(cache, None));
    }

    /// The cache devices.
    #[must_use]
    pub fn caches(&self) -> Vec<CacheStatus> {
        let status = |cache: &VdevConfig| {
            let statistics = self.pipeline.second_level().statistics(cache.guid());
            CacheStatus {
                guid: cache.guid(),
                kind: cache.kind().to_owned(),
                path: cache.path().unwrap_or_default().to_owned(),
                is_there: statistics.is_some() || is_there(cache),
                statistics,
            }
        };
        self.services.caches.list().iter().map(status).collect()
    }

    /// Forgets the errors of some cache devices, and uses them again; answers how many.
    pub fn clear_caches(&self, named: &dyn Fn(&CacheStatus) -> bool) -> usize {
        let picked = self.caches().into_iter().filter(|cache| named(cache));
        let cleared = picked.map(|cache| self.pipeline.second_level().clear(cache.guid));
        cleared.count()
    }

    /// Takes the cache devices that the pool lists into use, where they are now.
    pub(crate) fn open_caches(&self, options: &ImportOptions) -> Result<()> {
        self.find_caches(&options.paths)?;
        let is_rewound = options.to_checkpoint || options.rewind != Rewind::Never;
        for cache in self.services.caches.list() {
            let Some(device) = open(&cache) else {
                continue;
            };
            // What was read in a txg that is no more has the name of what will be written in the new one.
            if is_rewound && clear_header(device.as_ref()).is_err() {
                continue;
            }
            let _left_out = self.use_cache(&cache, device);
        }
        Ok(())
    }

    /// Takes those into use that are there again.
    pub(crate) fn reopen_caches(&self) {
        for cache in self.services.caches.list() {
            let second_level = self.pipeline.second_level();
            if second_level.statistics(cache.guid()).is_none()
                && let Some(device) = open(&cache)
            {
                let _left_out = self.use_cache(&cache, device);
            }
        }
    }

    /// Cache devices that were moved are found among these files and folders.
    fn find_caches(&self, paths: &[PathBuf]) -> Result<()> {
        let list = self.services.caches.list().into_iter();
        let away = list
            .filter(|cache| !is_there(cache))
            .map(|cache| cache.guid());
        let away: Vec<Guid> = away.collect();
        device_lists::find_again(&self.services.caches, &away, paths)
    }

    fn use_cache(&self, cache: &VdevConfig, device: Arc<dyn BlockDevice>) -> Result<()> {
        let second_level = self.pipeline.second_level();
        second_level.set_admission(Arc::new(ByProperty(Arc::downgrade(&self.dsl))));
        let ashift = cache.list.u64(keys::ASHIFT);
        let ashift = ashift.and_then(|ashift| u32::try_from(ashift).ok());
        let ashift = ashift.unwrap_or_else(|| min_ashift(device.as_ref(), None));
        let pool = self.services.config.with(|config| config.guid());
        Ok(second_level.add(pool, cache.guid(), ashift, device)?)
    }
}

/// Leaves neither labels nor the header of a cache device on a device.
///
/// # Errors
/// It cannot be written.
pub fn clear_cache_labels(device: &dyn BlockDevice) -> Result<()> {
    clear_header(device)?;
    Ok(vdev::clear_labels(device)?)
}

/// Leaves nothing on a device that says what it was. It may be gone, or be somebody else's by now.
fn release(cache: &VdevConfig, used: Option<Arc<dyn BlockDevice>>) {
    let path = PathBuf::from(cache.path().unwrap_or_default());
    if let Some(device) = used.or_else(|| open(cache))
        && labelled_as_cache(&path, device.as_ref()) == Some(cache.guid())
    {
        let _ = clear_cache_labels(device.as_ref());
    }
}

/// Opens a cache device that is where the list says.
fn open(cache: &VdevConfig) -> Option<Arc<dyn BlockDevice>> {
    let path = PathBuf::from(cache.path()?);
    let device = device::open_again(&path, Access::ReadWrite).ok()?;
    let is_own = labelled_as_cache(&path, device.as_ref()) == Some(cache.guid());
    is_own.then_some(device)
}

#[cfg(test)]
mod tests;
