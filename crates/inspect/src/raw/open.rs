//! Finding devices by their labels and putting the vdev tree together from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Guid, VdevId};
use device::{Access, BlockDevice, FileDevice};
use format::config::{VdevType, keys};
use format::nvlist::NvList;
use vdev::{
    DeviceLabels, Interior, InteriorKind, Leaf, LeafConfig, Node, Top, TopConfig, VdevTree,
    read_labels,
};

use crate::error::{InspectError, Result};

/// Deeper trees of mirrors do not exist.
const NESTING_MAX: u32 = 8;
/// No pool has as many top-level vdevs.
const TOPS_MAX: usize = 1 << 16;

/// A device with labels.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) labels: DeviceLabels,
}

impl Found {
    /// The newest configuration on it.
    pub(crate) fn config(&self) -> Option<&NvList> {
        self.labels.best_config(None).map(|label| &label.config)
    }
}

/// Every device at `paths`: images and disks themselves, and those in directories (not deeper).
/// What has no label is passed over, unless it was named itself.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for path in paths {
        let file_error = |source| InspectError::File {
            path: path.clone(),
            source,
        };
        if !std::fs::metadata(device::file_of(path))
            .map_err(file_error)?
            .is_dir()
        {
            found.extend(open_parts(path)?);
            continue;
        }
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
            .map_err(file_error)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .collect();
        entries.sort();
        let candidates = entries
            .iter()
            .filter(|path| !path.is_dir())
            .filter_map(|p| open(p).ok());
        found.extend(candidates.filter(|found| found.config().is_some()));
    }
    Ok(found)
}

/// What was named: a device, or the partitions inside it that have labels where it has none itself.
fn open_parts(path: &Path) -> Result<Vec<Found>> {
    let whole = open(path)?;
    if whole.config().is_some() {
        return Ok(vec![whole]);
    }
    let parts = device::partitions_in(path).into_iter();
    let parts = parts.filter_map(|part| open(&part).ok());
    let parts: Vec<Found> = parts.filter(|part| part.config().is_some()).collect();
    Ok(if parts.is_empty() { vec![whole] } else { parts })
}

fn open(path: &Path) -> Result<Found> {
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open_cached(path, Access::ReadOnly)?);
    let labels = read_labels(&*device);
    Ok(Found {
        path: path.to_owned(),
        device,
        labels,
    })
}

/// The vdev tree of the pool whose devices these are. Devices that are not there are leaves that
/// cannot be read.
pub(crate) fn assemble(devices: &[&Found]) -> Result<(VdevTree, Vec<NvList>)> {
    // Each label describes its own top-level vdev; the newest description counts.
    let mut newest: BTreeMap<u64, (u64, &NvList)> = BTreeMap::new();
    for config in devices.iter().filter_map(|device| device.config()) {
        let txg = config.u64(keys::TXG).unwrap_or(0);
        let Some(tree) = config.list(keys::VDEV_TREE) else {
            continue;
        };
        let id = tree.u64(keys::ID).unwrap_or(0);
        let slot = newest.entry(id).or_insert((txg, tree));
        if slot.0 < txg {
            *slot = (txg, tree);
        }
    }
    let mut tops = Vec::new();
    for (&id, &(_, tree)) in &newest {
        // In ascending order; a label may say any number.
        let Some(index) = usize::try_from(id).ok().filter(|index| *index < TOPS_MAX) else {
            continue;
        };
        tops.resize(index, None);
        tops.push(Some(top(id, tree, devices)?));
    }
    let configs = newest.values().map(|(_, tree)| (*tree).clone()).collect();
    Ok((VdevTree::new(tops), configs))
}

fn top(id: u64, tree: &NvList, devices: &[&Found]) -> Result<Arc<Top>> {
    let ashift = tree.u64(keys::ASHIFT).unwrap_or(9).clamp(9, 16) as u32;
    let config = TopConfig {
        id: VdevId(id),
        guid: Guid(tree.u64(keys::GUID).unwrap_or(0)),
        ashift,
        asize: tree.u64(keys::ASIZE).unwrap_or(0),
        is_log: false,
    };
    let site = Site {
        id,
        ashift,
        top: tree,
        devices,
    };
    Ok(Top::new(config, node(&site, tree, 0)?))
}

/// What the nodes of a top-level vdev have in common.
struct Site<'a> {
    id: u64,
    ashift: u32,
    top: &'a NvList,
    devices: &'a [&'a Found],
}

impl Site<'_> {
    /// Which distributed spare of the vdev a leaf is; none if it is none, or one that the vdev has no room for.
    fn room_of(&self, leaf: &NvList) -> Option<usize> {
        let number = leaf.u64(keys::SPARE_ID)?;
        let is_room = VdevType::of(leaf) == Some(VdevType::DistributedSpare);
        let is_own = leaf.u64(keys::TOP_GUID) == self.top.u64(keys::GUID);
        let is_there = self.top.u64(keys::DRAID_SPARE_COUNT)? > number;
        usize::try_from(number)
            .ok()
            .filter(|_| is_room && is_own && is_there)
    }
}

fn node(site: &Site<'_>, tree: &NvList, depth: u32) -> Result<Node> {
    let kind = || tree.str(keys::TYPE).unwrap_or("");
    let unsupported = |kind| InspectError::UnsupportedVdev { id: site.id, kind };
    if VdevType::of(tree).is_some_and(VdevType::is_leaf) {
        return Ok(Node::Leaf(leaf(site, tree)));
    }
    let interior = InteriorKind::of(tree, tree.lists(keys::CHILDREN).len());
    let interior = interior.filter(|kind| depth == 0 || kind.may_be_inside());
    let interior = interior.ok_or_else(|| unsupported(kind().to_owned()))?;
    if depth >= NESTING_MAX {
        return Err(unsupported(format!("nested {}", kind())));
    }
    let children = tree
        .lists(keys::CHILDREN)
        .iter()
        .map(|child| node(site, child, depth + 1))
        .collect::<Result<_>>()?;
    Ok(Node::Interior(Interior {
        guid: Guid(tree.u64(keys::GUID).unwrap_or(0)),
        kind: interior,
        children,
    }))
}

fn leaf(site: &Site<'_>, tree: &NvList) -> Arc<Leaf> {
    let guid = Guid(tree.u64(keys::GUID).unwrap_or(0));
    let is_this = |found: &&&Found| {
        let config = found.config();
        config.is_some_and(|config| config.u64(keys::GUID) == Some(guid.0))
    };
    let device = site.devices.iter().find(is_this);
    let path = device.map_or_else(
        || tree.str(keys::PATH).unwrap_or("?").to_owned(),
        |found| found.path.display().to_string(),
    );
    let config = LeafConfig {
        guid,
        path,
        ashift: site.ashift,
        spare_room: site.room_of(tree),
    };
    Leaf::new(config, device.map(|found| Arc::clone(&found.device)))
}

#[cfg(test)]
mod tests;
