//! Finding pools: labels of files and devices, grouped by pool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::{Guid, Txg, VdevId};
use device::{Access, BlockDevice, DeviceKind};
use format::config::{VdevType, keys};
use format::features;
use format::label::PoolState;
use format::{NvList, Uberblock};
use vdev::{DeviceLabels, read_labels};

use crate::config::{PoolConfig, VdevConfig};
use crate::error::{LastUser, MissingFeature, Result};

/// Where devices are looked for when nobody says where.
const DEFAULT_FOLDERS: [&str; 3] = ["/dev/disk/by-id", "/dev/mapper", "/dev"];

/// A device that carries a label of a pool.
#[derive(Clone, Debug)]
pub struct FoundDevice {
    /// Its path.
    pub path: PathBuf,
    /// The leaf that it is.
    pub guid: Guid,
    /// Its size in bytes.
    pub size: u64,
    /// What its labels say.
    pub labels: DeviceLabels,
}

/// A pool, as its labels describe it.
#[derive(Clone, Debug)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: Guid,
    /// Its state.
    pub state: PoolState,
    /// The newest label's txg.
    pub txg: Txg,
    /// Its version.
    pub version: u64,
    /// Who used it last.
    pub last_user: LastUser,
    /// Its comment.
    pub comment: Option<String>,
    /// The configuration put together from all labels.
    pub config: PoolConfig,
    /// The devices found.
    pub devices: Vec<FoundDevice>,
    /// Leaves that no device was found for.
    pub missing: Vec<Guid>,
}

impl FoundPool {
    /// The newest uberblock on any of its devices.
    #[must_use]
    pub fn newest_uberblock(&self) -> Option<&Uberblock> {
        let found = self.devices.iter();
        found
            .filter_map(|device| device.labels.best_uberblock(None))
            .map(|candidate| &candidate.uberblock)
            .max_by(|a, b| a.compare_age(b))
    }

    /// Leaves whose device has less room than the pool's data needs: images that were cut off.
    #[must_use]
    pub fn truncated(&self) -> Vec<Guid> {
        let mut found = Vec::new();
        for top in &self.config.root.children {
            let is_known = top.layout().is_some();
            let leaves = top.leaves();
            let cut = leaves.iter().filter(|leaf| {
                let size = self.device(leaf.guid()).map(|device| device.size);
                size.is_some_and(|size| format::label::leaf_asize(size) < top.leaf_size_min())
            });
            found.extend(cut.filter(|_| is_known).map(|leaf| leaf.guid()));
        }
        found
    }

    /// The device of a leaf.
    #[must_use]
    pub fn device(&self, leaf: Guid) -> Option<&FoundDevice> {
        self.devices.iter().find(|device| device.guid == leaf)
    }
}

/// Finds the pools on these files, devices and folders of such; without any, on the machine's
/// devices. What cannot be opened or has no label is passed over.
///
/// # Errors
/// A path that was named does not exist.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<FoundPool>> {
    Ok(assemble(labelled_devices(paths)?))
}

/// The devices among these files and folders that have a label of a pool, or of a spare.
pub(crate) fn labelled_devices(paths: &[PathBuf]) -> Result<Vec<FoundDevice>> {
    let candidates = candidates(paths)?.into_iter();
    Ok(candidates.flat_map(|path| inspect(&path)).collect())
}

/// The files to look at.
fn candidates(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut folders = Vec::new();
    if paths.is_empty() {
        folders.extend(DEFAULT_FOLDERS.map(PathBuf::from));
    }
    for path in paths {
        if path.is_dir() {
            folders.push(path.clone());
        } else {
            found.push(path.clone());
        }
    }
    for folder in folders {
        // A folder that cannot be read is like an empty one: others may hold the devices.
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut inside: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        inside.sort();
        found.extend(inside.into_iter().filter(|path| is_storage(path)));
    }
    // The same device under several names counts once, under the first.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|path| match path.canonicalize() {
        Ok(real) => seen.insert(real),
        Err(_) if device::is_remote(path) => seen.insert(path.clone()),
        Err(_) => true,
    });
    Ok(found)
}

fn is_storage(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    let kind = metadata.file_type();
    let large = metadata.len() >= format::label::DEVICE_SIZE_MIN;
    kind.is_block_device() || (kind.is_file() && large)
}

/// The device, when its labels belong to a pool; or those partitions inside an image whose labels do.
fn inspect(path: &Path) -> Vec<FoundDevice> {
    let open = |path: &Path| device::open(path, Access::ReadOnly).ok();
    let Some(device) = open(path) else {
        return Vec::new();
    };
    let found = labelled(path, device.as_ref());
    // The kernel shows the partitions of disks.
    if found.is_some() || device.kind() != DeviceKind::File {
        return found.into_iter().collect();
    }
    let parts = device::partitions_in(path).into_iter();
    let parts = parts.filter_map(|part| labelled(&part, open(&part)?.as_ref()));
    parts.collect()
}

/// The newest configuration in a device's labels.
pub(crate) fn newest(labels: &DeviceLabels) -> Option<&NvList> {
    labels.best_config(None).map(|label| &label.config)
}

/// The device at `path`, when its labels belong to a pool.
pub(crate) fn labelled(path: &Path, device: &dyn BlockDevice) -> Option<FoundDevice> {
    let labels = read_labels(device);
    let config = newest(&labels)?;
    let guid = Guid(config.u64(keys::GUID)?);
    Some(FoundDevice {
        path: path.to_owned(),
        guid,
        size: device.size(),
        labels,
    })
}

/// Groups devices by the pool that they belong to.
pub(crate) fn assemble(devices: Vec<FoundDevice>) -> Vec<FoundPool> {
    let mut pools: BTreeMap<Guid, Vec<FoundDevice>> = BTreeMap::new();
    let renamed = renamed_pools(&devices);
    for device in devices {
        let Some(config) = newest(&device.labels) else {
            continue;
        };
        // A label of txg 0 was never committed; spares and caches name no pool.
        let committed = config.u64(keys::TXG).is_some_and(|txg| txg != 0);
        if let Some(pool) = config.u64(keys::POOL_GUID).filter(|_| committed) {
            let pool = renamed.get(&Guid(pool)).copied().unwrap_or(Guid(pool));
            pools.entry(pool).or_default().push(device);
        }
    }
    let pools = pools.into_iter();
    pools
        .filter_map(|(guid, devices)| assemble_pool(guid, devices))
        .collect()
}

/// Pools whose guid was being changed: a crash among the labels of that txg leaves devices whose labels name the one
/// and the other, and some that name the old one only. By the old guid, the new one; which of them the pool has is for
/// its own configuration to say.
fn renamed_pools(devices: &[FoundDevice]) -> BTreeMap<Guid, Guid> {
    let mut renamed = BTreeMap::new();
    for device in devices {
        let pool_of = |config: &NvList| config.u64(keys::POOL_GUID).map(Guid);
        let newest = newest(&device.labels);
        let Some(new) = newest.and_then(pool_of) else {
            continue;
        };
        // A side of a mirror that became a pool of its own: the one that it was split from has its guid still.
        let split = newest
            .and_then(|config| config.u64(keys::SPLIT_GUID))
            .map(Guid);
        let labels = device.labels.configs.iter().map(|label| &label.config);
        let own = labels.filter(|config| {
            let is_committed = config.u64(keys::TXG).is_some_and(|txg| txg != 0);
            is_committed && config.u64(keys::GUID) == Some(device.guid.0)
        });
        let others = own.filter_map(pool_of);
        let others = others.filter(|old| *old != new && Some(*old) != split);
        renamed.extend(others.map(|old| (old, new)));
    }
    renamed
}

/// Of copies of one device the one that was written last, or else the first: what is shown is what is opened.
fn one_each(devices: Vec<FoundDevice>) -> Vec<FoundDevice> {
    let written = |device: &FoundDevice| {
        let newest = device.labels.best_uberblock(None);
        newest.map(|newest| newest.uberblock.txg)
    };
    let mut kept: Vec<FoundDevice> = Vec::with_capacity(devices.len());
    let mut places: BTreeMap<Guid, usize> = BTreeMap::new();
    for device in devices {
        match places
            .get(&device.guid)
            .and_then(|place| kept.get_mut(*place))
        {
            Some(known) if written(&device) > written(known) => *known = device,
            Some(_) => {}
            None => {
                places.insert(device.guid, kept.len());
                kept.push(device);
            }
        }
    }
    kept
}

fn assemble_pool(guid: Guid, devices: Vec<FoundDevice>) -> Option<FoundPool> {
    let devices = one_each(devices);
    let configs = devices.iter().filter_map(|device| newest(&device.labels));
    let txg = |config: &NvList| config.u64(keys::TXG).unwrap_or(0);
    let latest = configs.clone().max_by_key(|config| txg(config))?.clone();
    let mut tops: BTreeMap<u64, &NvList> = BTreeMap::new();
    for config in configs {
        let top = config.u64(keys::TOP_GUID).unwrap_or(0);
        let known = tops.entry(top).or_insert(config);
        if txg(config) > txg(known) {
            *known = config;
        }
    }
    // A place may have been another vdev's before: the newest label counts.
    let mut tops: Vec<&NvList> = tops.into_values().collect();
    tops.sort_by_key(|config| txg(config));
    let root = assemble_root(guid, &latest, tops.into_iter());
    let mut list = latest;
    for key in [
        keys::VDEV_TREE,
        keys::TOP_GUID,
        keys::GUID,
        keys::IS_LOG,
        keys::IS_SPARE,
    ] {
        list.remove(key);
    }
    let config = PoolConfig { list, root };
    let missing = config
        .root
        .leaves()
        .iter()
        .map(|leaf| leaf.guid())
        .filter(|guid| !devices.iter().any(|device| device.guid == *guid))
        .collect();
    let mut pool = FoundPool {
        name: config.name().to_owned(),
        guid,
        state: config.state().unwrap_or(PoolState::Active),
        txg: config.txg(),
        version: config.version(),
        last_user: last_user(&config.list),
        comment: config.list.str(keys::COMMENT).map(ToOwned::to_owned),
        config,
        devices,
        missing,
    };
    pool.last_user.timestamp = pool
        .newest_uberblock()
        .map_or(0, |uberblock| uberblock.timestamp);
    Some(pool)
}

/// Who wrote a label; when, its uberblocks say.
pub(crate) fn last_user(label: &NvList) -> LastUser {
    LastUser {
        host_name: label.str(keys::HOST_NAME).unwrap_or_default().to_owned(),
        host_id: label.u64(keys::HOST_ID).unwrap_or(0),
        timestamp: 0,
    }
}

/// Puts the top-level vdevs that the labels tell of under a root.
fn assemble_root<'a>(
    guid: Guid,
    newest: &NvList,
    labels: impl Iterator<Item = &'a NvList>,
) -> VdevConfig {
    /// More top-level vdevs than any pool has; a label that claims more is not believed.
    const CHILDREN_MAX: u64 = 1 << 16;
    let mut tops: BTreeMap<u64, VdevConfig> = BTreeMap::new();
    for label in labels {
        let tree = label.list(keys::VDEV_TREE).map(VdevConfig::from_list);
        if let Some(Ok(top)) = tree {
            tops.insert(top.id().0, top);
        }
    }
    let last = tops.keys().next_back().map_or(0, |id| id.saturating_add(1));
    let count = newest.u64(keys::VDEV_CHILDREN).unwrap_or(0).max(last);
    let holes = newest.u64s(keys::HOLE_ARRAY);
    let children = (0..count.min(CHILDREN_MAX)).map(|id| {
        tops.remove(&id).unwrap_or_else(|| {
            let kind = if holes.contains(&id) {
                VdevType::Hole
            } else {
                VdevType::Missing
            };
            VdevConfig::absent(kind, VdevId(id))
        })
    });
    let mut list = NvList::new();
    list.set(keys::TYPE, VdevType::Root.name())
        .set(keys::ID, 0_u64)
        .set(keys::GUID, guid.0);
    VdevConfig {
        list,
        children: children.collect(),
    }
}

/// The features that a label names and nobody here knows.
pub(crate) fn unknown_label_features(config: &NvList) -> Vec<MissingFeature> {
    let Some(features) = config.list(keys::FEATURES_FOR_READ) else {
        return Vec::new();
    };
    let names = features
        .iter()
        .map(|(guid, _)| String::from_utf8_lossy(guid).into_owned());
    names
        .filter(|guid| features::by_guid(guid).is_none())
        .map(|guid| MissingFeature {
            guid,
            description: String::new(),
        })
        .collect()
}
