//! From a configuration and opened devices to a tree of vdevs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Guid, Txg, VdevId};
use device::{Access, BlockDevice, DeviceError};
use format::config::{VdevType, keys};
use format::label;
use vdev::{
    Condition, Interior, InteriorKind, Leaf, LeafConfig, Node, Top, TopConfig, VdevAux, VdevState,
    VdevTree, examine,
};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::discover::{self, FoundDevice, FoundPool};
use crate::vdevs::spare_rooms;

/// A device in front of another.
pub type Between = Arc<dyn Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + Send + Sync>;

/// What the devices of a pool are opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read the pool.
    #[default]
    Reading,
    /// To write it.
    Writing,
    /// To find out whether it could be written: nothing is, and nobody is kept from writing it.
    Judging,
}

impl Purpose {
    pub(crate) const fn access(self) -> Access {
        match self {
            Self::Writing => Access::ReadWrite,
            Self::Reading | Self::Judging => Access::ReadOnly,
        }
    }

    /// Whether the pool must be such that it could be written.
    pub(crate) const fn is_strict(self) -> bool {
        match self {
            Self::Writing | Self::Judging => true,
            Self::Reading => false,
        }
    }
}

/// A leaf, where its device is, and the device.
pub(crate) type OpenLeaf = (Guid, PathBuf, Arc<dyn BlockDevice>);

/// No pool nests vdevs deeper.
const DEPTH_MAX: u32 = 8;

/// Opened devices by the leaf that their labels say they are.
#[derive(Default)]
pub(crate) struct Devices {
    by_leaf: BTreeMap<Guid, OpenedDevice>,
    purpose: Purpose,
    /// Devices whose labels say that they belong to the pool, also where the newest label does not name them.
    labelled: Vec<FoundDevice>,
    /// What is put in front of each.
    between: Option<Between>,
}

struct OpenedDevice {
    device: Arc<dyn BlockDevice>,
    found: FoundDevice,
}

impl Devices {
    /// Opens files or devices and reads their labels. What has no label of a pool is left out;
    /// what cannot be opened is an error.
    #[cfg(test)]
    pub(crate) fn open(paths: &[PathBuf], access: Access) -> Result<Self> {
        let purpose = match access {
            Access::ReadOnly => Purpose::Reading,
            Access::ReadWrite => Purpose::Writing,
        };
        let mut devices = Self {
            purpose,
            ..Self::default()
        };
        for path in paths {
            let device = device::open(path, access).map_err(|error| locked(path, error))?;
            devices.add(path, device);
        }
        Ok(devices)
    }

    /// Devices that are open already, to be written.
    pub(crate) fn of_open(leaves: Vec<OpenLeaf>) -> Self {
        let mut devices = Self {
            purpose: Purpose::Writing,
            ..Self::default()
        };
        for (leaf, path, device) in leaves {
            devices.insert(leaf, &path, device);
        }
        devices
    }

    /// Opens the devices of a pool that its newest label names. The others that were found may be opened later.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub(crate) fn of_pool(
        pool: &FoundPool,
        purpose: Purpose,
        between: Option<&Between>,
    ) -> Result<Self> {
        let mut devices = Self {
            purpose,
            labelled: pool.devices.clone(),
            between: between.cloned(),
            ..Self::default()
        };
        devices.open_leaves(&pool.config.root, None)?;
        if devices.by_leaf.is_empty()
            && let Some(kind) = unknown_kind(&pool.config.root)
        {
            // Which devices are part of it, nobody here knows.
            return Err(PoolError::UnsupportedVdev { kind });
        }
        Ok(devices)
    }

    /// Opens those leaves of the stored configuration that the newest label does not name: a crash between the labels
    /// of a txg and its uberblock leaves labels without a device that is part of the pool still. One that got
    /// uberblocks after `newest` did so in another pool.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub(crate) fn open_stored(&mut self, root: &VdevConfig, newest: Txg) -> Result<()> {
        self.open_leaves(root, Some(newest))
    }

    fn open_leaves(&mut self, root: &VdevConfig, newest: Option<Txg>) -> Result<()> {
        let access = self.purpose.access();
        let leaves: BTreeSet<Guid> = root.leaves().iter().map(|leaf| leaf.guid()).collect();
        let is_within = |found: &FoundDevice| {
            let best = found.labels.best_uberblock(None);
            let best = best.map_or(Txg(0), |best| best.uberblock.txg);
            newest.is_none_or(|newest| best <= newest)
        };
        let wanted = |found: &&FoundDevice| {
            leaves.contains(&found.guid) && !self.by_leaf.contains_key(&found.guid)
        };
        let found = self.labelled.iter().filter(wanted);
        let found: Vec<FoundDevice> = found.filter(|found| is_within(found)).cloned().collect();
        for found in found {
            let path = found.path.clone();
            let opened = device::open(&path, access);
            let mut device = opened.map_err(|error| locked(&path, error))?;
            let found = match self.purpose {
                // Nobody is kept from writing it meanwhile, either.
                Purpose::Judging => found,
                Purpose::Reading | Purpose::Writing => {
                    // Its labels are read again, now that nobody else has it.
                    let Some(found) = discover::labelled(&path, device.as_ref()) else {
                        continue;
                    };
                    found
                }
            };
            if let Some(between) = &self.between {
                device = between(device);
            }
            self.by_leaf
                .insert(found.guid, OpenedDevice { device, found });
        }
        Ok(())
    }

    /// Adds an open device, when it carries a label of a pool.
    #[cfg(test)]
    fn add(&mut self, path: &Path, device: Arc<dyn BlockDevice>) {
        if let Some(found) = discover::labelled(path, device.as_ref()) {
            self.by_leaf
                .insert(found.guid, OpenedDevice { device, found });
        }
    }

    /// Adds a device as the leaf of a new pool.
    pub(crate) fn insert(&mut self, leaf: Guid, path: &Path, device: Arc<dyn BlockDevice>) {
        let labels = vdev::read_labels(device.as_ref());
        let found = FoundDevice {
            path: path.to_owned(),
            guid: leaf,
            size: device.size(),
            labels,
        };
        self.by_leaf.insert(leaf, OpenedDevice { device, found });
    }

    /// Whether all of them may be written, as far as that shows without opening them so.
    ///
    /// # Errors
    /// One of them may not.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let mut opened = self.by_leaf.values();
        Ok(opened.try_for_each(|opened| device::may_write(&opened.found.path))?)
    }

    /// What their labels say.
    pub(crate) fn found(&self) -> Vec<FoundDevice> {
        let opened = self.by_leaf.values();
        opened.map(|opened| opened.found.clone()).collect()
    }

    fn get(&self, leaf: Guid) -> Option<&OpenedDevice> {
        self.by_leaf.get(&leaf)
    }
}

/// A kind of vdev that nobody here knows.
fn unknown_kind(root: &VdevConfig) -> Option<String> {
    let mut found = None;
    root.walk(&mut |node| {
        if node.vdev_type().is_none() {
            found = Some(node.kind().to_owned());
        }
    });
    found
}

fn locked(path: &Path, error: DeviceError) -> PoolError {
    if let DeviceError::Busy { .. } = error {
        let path = path.display().to_string();
        return PoolError::Locked { path };
    }
    error.into()
}

/// A tree of vdevs, and what could not be part of it.
pub(crate) struct OpenedTree {
    pub(crate) vdevs: Arc<VdevTree>,
    /// Top-level vdevs of kinds that we do not read yet, holes excepted.
    pub(crate) unsupported: Vec<(VdevId, String)>,
    /// Top-level vdevs that no device or too few devices were found for.
    pub(crate) unusable: Vec<(VdevId, String)>,
}

/// Builds the tree of a configuration over the devices.
pub(crate) fn open_tree(root: &VdevConfig, devices: &Devices) -> OpenedTree {
    let mut unsupported = Vec::new();
    let mut unusable = Vec::new();
    let mut tops = Vec::with_capacity(root.children.len());
    for (index, config) in root.children.iter().enumerate() {
        let id = VdevId(index as u64);
        let mut truncated = None;
        let mut site = Site {
            devices,
            ashift: config.ashift(),
            asize_min: config.leaf_size_min(),
            truncated: &mut truncated,
            top: config,
            rooms: Vec::new(),
        };
        let top = if config.is_hole() {
            None
        } else if config.is_a(VdevType::Missing) {
            unusable.push((id, "not found".to_owned()));
            None
        } else {
            let node = build(config, &mut site, 0);
            if node.is_none() {
                unsupported.push((id, config.kind().to_owned()));
            }
            node.map(|node| top_of(id, config, node))
        };
        if let Some(top) = &top {
            let condition = top.condition();
            if !condition.state.is_usable() {
                let reason = truncated.unwrap_or_else(|| condition.aux.to_string());
                unusable.push((id, reason));
            }
        }
        tops.push(top);
    }
    OpenedTree {
        vdevs: Arc::new(VdevTree::new(tops)),
        unsupported,
        unusable,
    }
}

/// One top-level vdev of known kinds.
pub(crate) fn open_top(id: VdevId, config: &VdevConfig, devices: &Devices) -> Option<Arc<Top>> {
    let mut site = Site {
        devices,
        ashift: config.ashift(),
        asize_min: config.leaf_size_min(),
        // A device that was just measured is large enough.
        truncated: &mut None,
        top: config,
        rooms: Vec::new(),
    };
    let node = build(config, &mut site, 0)?;
    Some(top_of(id, config, node))
}

fn top_of(id: VdevId, config: &VdevConfig, node: Node) -> Arc<Top> {
    let top = TopConfig {
        id,
        guid: config.guid(),
        ashift: config.ashift(),
        asize: config.asize(),
        is_log: config.flag(keys::IS_LOG),
    };
    Top::new(top, node)
}

/// What a top-level vdev's leaves have in common.
struct Site<'a> {
    devices: &'a Devices,
    ashift: u32,
    /// Bytes of data that each leaf must have room for.
    asize_min: u64,
    /// Which device has less, and what to do about it.
    truncated: &'a mut Option<String>,
    top: &'a VdevConfig,
    /// Distributed spares that are leaves of it: none is there twice.
    rooms: Vec<usize>,
}

impl Site<'_> {
    /// Which distributed spare a leaf is, if it is one that can be used.
    fn room_of(&mut self, leaf: &VdevConfig) -> Option<usize> {
        let number = spare_rooms::number_in(leaf, self.top)?;
        let is_first = !self.rooms.contains(&number);
        self.rooms.push(number);
        is_first.then_some(number)
    }
}

/// The node of a configuration; `None` for kinds that are not read yet.
fn build(config: &VdevConfig, site: &mut Site<'_>, depth: u32) -> Option<Node> {
    if depth > DEPTH_MAX {
        return None;
    }
    if config.is_leaf() {
        return Some(Node::Leaf(open_leaf(config, site)));
    }
    let kind = InteriorKind::of(&config.list, config.children.len())?;
    if depth > 0 && !kind.may_be_inside() {
        return None;
    }
    let children = config.children.iter();
    let children: Option<Vec<Node>> = children
        .map(|child| build(child, site, depth + 1))
        .collect();
    Some(Node::Interior(Interior {
        guid: config.guid(),
        kind,
        children: children?,
    }))
}

/// The node of a configuration over leaves that are open; none if one is not among them.
pub(crate) fn node_over(
    config: &VdevConfig,
    leaf_of: &dyn Fn(Guid) -> Option<Arc<Leaf>>,
) -> Option<Node> {
    if config.is_leaf() {
        return leaf_of(config.guid()).map(Node::Leaf);
    }
    let kind = InteriorKind::of(&config.list, config.children.len())?;
    let children = config.children.iter();
    let children: Option<Vec<Node>> = children.map(|child| node_over(child, leaf_of)).collect();
    Some(Node::Interior(Interior {
        guid: config.guid(),
        kind,
        children: children?,
    }))
}

fn open_leaf(config: &VdevConfig, site: &mut Site<'_>) -> Arc<Leaf> {
    let (devices, ashift) = (site.devices, site.ashift);
    let opened = devices.get(config.guid());
    let path = match opened {
        Some(opened) => opened.found.path.display().to_string(),
        None => config.path().unwrap_or_default().to_owned(),
    };
    let leaf_config = LeafConfig {
        guid: config.guid(),
        path,
        ashift,
        spare_room: site.room_of(config),
    };
    let stored = config.stored_state();
    let Some(opened) = opened else {
        let is_room = leaf_config.spare_room.is_some();
        let leaf = Leaf::new(leaf_config, None);
        if is_room {
            return leaf;
        }
        let (state, aux) = stored.unwrap_or((VdevState::CantOpen, VdevAux::OpenFailed));
        leaf.set_condition(Condition::new(state, aux));
        return leaf;
    };
    // What is left of an image that was cut off can be read, but not written: its last labels
    // would come where data was.
    let size = opened.device.size();
    let is_strict = devices.purpose.is_strict();
    let asize_min = if is_strict { site.asize_min } else { 0 };
    if label::leaf_asize(size) < asize_min {
        *site.truncated = Some(format!(
            "{}: has {size} bytes, and the pool needs {} there: truncated? Copy it again, or read \
             what is left with '-o readonly=on'",
            leaf_config.path,
            asize_min.saturating_add(label::RESERVED)
        ));
    }
    let condition = match stored {
        Some((state, aux)) => Condition::new(state, aux),
        None => examine(opened.device.as_ref(), asize_min, ashift),
    };
    let leaf = Leaf::new(leaf_config, Some(Arc::clone(&opened.device)));
    let last = [keys::RESILVER_TXG, keys::REBUILD_TXG].map(|key| config.list.u64(key));
    if let Some(last) = last.into_iter().flatten().max().filter(|last| *last != 0) {
        // One that never had everything. Until its own list of missed txgs is read it is no source.
        let count = last.saturating_sub(Txg::INITIAL.0).saturating_add(1);
        leaf.set_missing([(Txg::INITIAL, count)].into_iter().collect());
    }
    if condition != Condition::HEALTHY {
        leaf.set_condition(condition);
    }
    leaf
}

#[cfg(test)]
mod tests;
