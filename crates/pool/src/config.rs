//! The configuration of a pool: its tree of vdevs and what labels say besides.
//!
//! A node keeps the list that it was read from, so that keys which we do not know are written back
//! as they were.

pub(crate) mod host;
pub(crate) mod regroup;
pub(crate) mod state;

use base::{Guid, ObjectId, Txg, VdevId};
use format::config::{DraidName, VdevType, keys};
use format::features::Feature;
use format::label::PoolState;
use format::nvlist::Value;
use format::{FormatError, NvList};
use layout::{Kind, Layout};
use vdev::{InteriorKind, VdevAux, VdevState};

use crate::error::{PoolError, Result};

/// No tree is deeper: root, top, spare, replacing, leaf.
const DEPTH_MAX: u32 = 8;

/// Why a leaf is faulted, where the operator said so.
const EXTERNAL: &str = "external";

/// A vdev in a configuration, with what is below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VdevConfig {
    /// The node's own pairs, children excepted.
    pub list: NvList,
    /// The vdevs below.
    pub children: Vec<VdevConfig>,
}

/// Keys of a node that only the MOS copy of the configuration has.
const MOS_ONLY: [&str; 4] = [
    keys::VDEV_ZAP_LEAF,
    keys::VDEV_ZAP_TOP,
    keys::VDEV_ZAP_ROOT,
    keys::RESILVER_DEFER,
];

/// A vdev has no more metaslabs; a configuration that says so is not believed.
pub(crate) const METASLABS_MAX: u64 = 1 << 20;

impl VdevConfig {
    /// Reads a node and those below it.
    ///
    /// # Errors
    /// It is nested too deep, or has no type.
    pub fn from_list(list: &NvList) -> Result<Self, FormatError> {
        Self::read(list, 0)
    }

    fn read(list: &NvList, depth: u32) -> Result<Self, FormatError> {
        if depth > DEPTH_MAX || list.str(keys::TYPE).is_none() {
            return Err(FormatError::Invalid {
                what: "vdev configuration",
                field: if depth > DEPTH_MAX { "depth" } else { "type" },
                value: u64::from(depth),
            });
        }
        let children = list
            .lists(keys::CHILDREN)
            .iter()
            .map(|child| Self::read(child, depth + 1))
            .collect::<Result<_, _>>()?;
        let mut own = list.clone();
        own.remove(keys::CHILDREN);
        Ok(Self {
            list: own,
            children,
        })
    }

    /// The node as a list: for a label, or for the MOS with the keys that only it has.
    #[must_use]
    pub fn to_list(&self, for_label: bool) -> NvList {
        let mut list = self.list.clone();
        if for_label {
            for key in MOS_ONLY {
                list.remove(key);
            }
        }
        if !self.children.is_empty() {
            let children = self.children.iter().map(|child| child.to_list(for_label));
            list.set(keys::CHILDREN, children.collect::<Vec<_>>());
        }
        list
    }

    /// A node of an id that no device tells anything about.
    #[must_use]
    pub fn absent(kind: VdevType, id: VdevId) -> Self {
        let mut list = NvList::new();
        list.set(keys::TYPE, kind.name()).set(keys::ID, id.0);
        list.set(keys::GUID, 0_u64);
        Self {
            list,
            children: Vec::new(),
        }
    }

    /// The name of the node's type, to be shown: `disk`, `mirror`, …, or one that nobody here knows.
    #[must_use]
    pub fn kind(&self) -> &str {
        let missing = VdevType::Missing.name();
        self.list.str(keys::TYPE).unwrap_or(missing)
    }

    /// The node's type, by which everything goes; none if nobody here knows it.
    #[must_use]
    pub fn vdev_type(&self) -> Option<VdevType> {
        VdevType::named(self.kind())
    }

    /// Whether it is of this type.
    pub(crate) fn is_a(&self, vdev_type: VdevType) -> bool {
        self.vdev_type() == Some(vdev_type)
    }

    /// Whether it is a device.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.vdev_type().is_some_and(VdevType::is_leaf)
    }

    /// Whether it is room that a dRAID has on all of its devices.
    pub(crate) fn is_distributed_spare(&self) -> bool {
        self.is_a(VdevType::DistributedSpare)
    }

    /// Whether it is a dRAID.
    pub(crate) fn is_draid(&self) -> bool {
        self.is_a(VdevType::Draid)
    }

    /// The feature that counts it as a top-level vdev.
    pub(crate) fn feature(&self) -> Option<&'static Feature> {
        self.vdev_type().and_then(VdevType::feature)
    }

    /// Whether it takes up an id and nothing else.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        self.is_a(VdevType::Hole)
    }

    /// Whether it was removed: what it held lies on others.
    #[must_use]
    pub fn is_indirect(&self) -> bool {
        self.is_a(VdevType::Indirect)
    }

    /// Its guid; 0 for holes.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid(self.list.u64(keys::GUID).unwrap_or(0))
    }

    /// Its place among its siblings.
    #[must_use]
    pub fn id(&self) -> VdevId {
        VdevId(self.list.u64(keys::ID).unwrap_or(0))
    }

    /// A leaf's last known path.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.list.str(keys::PATH)
    }

    /// A top-level vdev's sector size as a power of two; 0 where it has none.
    #[must_use]
    pub fn ashift(&self) -> u32 {
        let ashift = self.list.u64(keys::ASHIFT).unwrap_or(0);
        u32::try_from(ashift).unwrap_or(u32::MAX)
    }

    /// How many rows of parity a vdev has; 0 for those without.
    #[must_use]
    pub fn parity(&self) -> u64 {
        self.list.u64(keys::PARITY_COUNT).unwrap_or(0)
    }

    /// The type as it is shown: `raidz2`, `draid1:2d:4c:1s`, or the plain type.
    #[must_use]
    pub fn shown_kind(&self) -> String {
        let parity = self.parity().max(1);
        match self.vdev_type() {
            Some(VdevType::RaidZ) => format!("raidz{parity}"),
            Some(VdevType::Draid) => DraidName {
                parity,
                data: self.list.u64(keys::DRAID_DATA_COUNT).unwrap_or(0),
                children: self.children.len(),
                spares: self.list.u64(keys::DRAID_SPARE_COUNT).unwrap_or(0),
            }
            .to_string(),
            Some(
                VdevType::Root
                | VdevType::Mirror
                | VdevType::Replacing
                | VdevType::Spare
                | VdevType::DistributedSpare
                | VdevType::Disk
                | VdevType::File
                | VdevType::Missing
                | VdevType::Hole
                | VdevType::Indirect,
            )
            | None => self.kind().to_owned(),
        }
    }

    /// How many of its children may fail; none of a vdev that nobody here can read.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        let layout = self.layout();
        layout.map_or(0, |layout| layout.tolerance(self.children.len()))
    }

    /// A top-level vdev's allocatable bytes.
    #[must_use]
    pub fn asize(&self) -> u64 {
        self.list.u64(keys::ASIZE).unwrap_or(0)
    }

    /// How a top-level vdev spreads blocks over its children; none where its type is not known, or has no blocks.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        let kind = match self.vdev_type()? {
            VdevType::Disk | VdevType::File => Kind::Single,
            VdevType::Root
            | VdevType::Mirror
            | VdevType::Replacing
            | VdevType::Spare
            | VdevType::RaidZ
            | VdevType::Draid
            | VdevType::DistributedSpare
            | VdevType::Missing
            | VdevType::Hole
            | VdevType::Indirect => InteriorKind::of(&self.list, self.children.len())?.kind(),
        };
        Some(Layout::new(kind, self.ashift()))
    }

    /// Bytes of a top-level vdev's whole metaslabs.
    #[must_use]
    pub fn metaslab_bytes(&self) -> u64 {
        let (asize, shift) = (self.asize(), self.metaslab_shift());
        asize
            .checked_shr(shift)
            .map_or(asize, |count| count << shift)
    }

    /// Bytes by which a top-level vdev would be larger if it took all that its devices have, the smallest of which has
    /// room for `smallest` bytes of data, in whole metaslabs. None: some are not in use, and it stays as it is, as it
    /// does while its sectors are on the move or it is being removed.
    pub(crate) fn expandable_bytes(&self, smallest: Option<u64>) -> u64 {
        let stays = self.is_hole() || self.is_indirect() || self.is_expanding();
        if stays || self.flag(keys::REMOVING) {
            return 0;
        }
        let shift = self.metaslab_shift();
        let size = self.layout().zip(smallest);
        let size = size.map_or(0, |(layout, smallest)| layout.size(smallest));
        let counts = size.checked_shr(shift).zip(self.asize().checked_shr(shift));
        let more = counts.map_or(0, |(grown, known)| {
            grown.min(METASLABS_MAX).saturating_sub(known)
        });
        // No shift can be larger than what sizes were shifted by.
        more.checked_shl(shift).unwrap_or(0)
    }

    /// Bytes that each leaf of a top-level vdev must have room for, so that all of its whole metaslabs have.
    #[must_use]
    pub fn leaf_size_min(&self) -> u64 {
        let bytes = self.metaslab_bytes();
        let layout = self.layout();
        layout.map_or(bytes, |layout| layout.child_size(bytes))
    }

    /// Whether a top-level vdev is in use, but nothing was ever given a place on it: OpenZFS gives a new vdev its
    /// metaslabs in a txg after that which adds it.
    #[must_use]
    pub fn has_no_metaslabs(&self) -> bool {
        let is_there = !self.is_hole() && !self.is_indirect();
        is_there && self.metaslab_shift() == 0 && self.object(keys::METASLAB_ARRAY).is_none()
    }

    /// A top-level vdev's metaslab size as a power of two.
    #[must_use]
    pub fn metaslab_shift(&self) -> u32 {
        let shift = self.list.u64(keys::METASLAB_SHIFT).unwrap_or(0);
        u32::try_from(shift).unwrap_or(0)
    }

    /// An object that a key names; `None` for 0.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<ObjectId> {
        self.list.u64(key).filter(|id| *id != 0).map(ObjectId)
    }

    /// Whether a flag is set: there, and not 0.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        match self.list.get(key) {
            None => false,
            Some(Value::Uint64(value)) => *value != 0,
            Some(Value::BooleanValue(value)) => *value,
            Some(_) => true,
        }
    }

    /// Whether it is a RAID-Z that is getting another child.
    #[must_use]
    pub fn is_expanding(&self) -> bool {
        self.list.get(keys::RAIDZ_EXPANDING).is_some()
    }

    /// The state that the configuration itself gives a leaf, if it is not simply in use.
    #[must_use]
    pub fn stored_state(&self) -> Option<(VdevState, VdevAux)> {
        if self.flag(keys::FAULTED) && self.list.str(keys::AUX_STATE) == Some(EXTERNAL) {
            return Some((VdevState::Faulted, VdevAux::External));
        }
        if self.flag(keys::OFFLINE) {
            return Some((VdevState::Offline, VdevAux::None));
        }
        None
    }

    /// Notes that a leaf is out of use by the operator's word.
    pub(crate) fn note_out_of_use(&mut self, faulted: bool) {
        if faulted {
            self.list.set(keys::FAULTED, 1_u64);
            self.list.set(keys::AUX_STATE, EXTERNAL);
        } else {
            self.list.set(keys::OFFLINE, 1_u64);
        }
    }

    /// Forgets that a leaf was faulted.
    pub(crate) fn forget_fault(&mut self) {
        for key in [keys::FAULTED, keys::DEGRADED, keys::AUX_STATE] {
            self.list.remove(key);
        }
    }

    /// The sum of all guids from here down.
    #[must_use]
    pub fn guid_sum(&self) -> u64 {
        let below = self.children.iter().map(Self::guid_sum);
        below.fold(self.guid().0, u64::wrapping_add)
    }

    /// Calls `visit` for this node and every one below.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }

    /// The leaves from here down.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Self> {
        let mut leaves = Vec::new();
        self.walk(&mut |node| {
            if node.is_leaf() {
                leaves.push(node);
            }
        });
        leaves
    }

    /// The node with this guid.
    pub(crate) fn find_mut(&mut self, guid: Guid) -> Option<&mut Self> {
        if self.guid() == guid {
            return Some(self);
        }
        let mut children = self.children.iter_mut();
        children.find_map(|child| child.find_mut(guid))
    }
}

/// What a pool's configuration says.
#[derive(Clone, Debug, Default)]
pub struct PoolConfig {
    /// Everything but the vdev tree, as it was read.
    pub list: NvList,
    /// The root of the tree.
    pub root: VdevConfig,
}

impl PoolConfig {
    /// Reads a whole configuration (of the MOS, or assembled from labels).
    ///
    /// # Errors
    /// There is no vdev tree, or it is bad.
    pub fn from_list(list: &NvList) -> Result<Self> {
        let tree = list.list(keys::VDEV_TREE).ok_or(FormatError::Invalid {
            what: "pool configuration",
            field: "vdev_tree",
            value: 0,
        });
        let root = tree
            .and_then(VdevConfig::from_list)
            .map_err(PoolError::corrupt("pool configuration"))?;
        let mut list = list.clone();
        list.remove(keys::VDEV_TREE);
        Ok(Self { list, root })
    }

    /// A top-level vdev; none if none has that number.
    #[must_use]
    pub fn top(&self, id: VdevId) -> Option<&VdevConfig> {
        self.root.children.iter().find(|top| top.id() == id)
    }

    /// The same, to be changed.
    pub(crate) fn top_mut(&mut self, id: VdevId) -> Option<&mut VdevConfig> {
        let mut tops = self.root.children.iter_mut();
        tops.find(|top| top.id() == id)
    }

    /// The pool's name as stored.
    #[must_use]
    pub fn name(&self) -> &str {
        self.list.str(keys::NAME).unwrap_or_default()
    }

    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid(self.list.u64(keys::POOL_GUID).unwrap_or(0))
    }

    /// The pool's version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.list.u64(keys::VERSION).unwrap_or(0)
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> Option<PoolState> {
        PoolState::from_number(self.list.u64(keys::STATE)?)
    }

    /// The txg of the configuration.
    #[must_use]
    pub fn txg(&self) -> Txg {
        Txg(self.list.u64(keys::TXG).unwrap_or(0))
    }

    /// The host's number; 0 when none is recorded.
    #[must_use]
    pub fn host_id(&self) -> u64 {
        self.list.u64(keys::HOST_ID).unwrap_or(0)
    }

    /// The host's name; empty when none is recorded.
    #[must_use]
    pub fn host_name(&self) -> &str {
        self.list.str(keys::HOST_NAME).unwrap_or_default()
    }

    /// The copy for the MOS.
    #[must_use]
    pub fn to_mos(&self) -> NvList {
        self.assemble(|list| {
            list.set(keys::VDEV_TREE, self.root.to_list(false));
        })
    }

    /// The configuration in the label of one leaf of a top-level vdev.
    #[must_use]
    pub fn to_label(&self, top: &VdevConfig, leaf: Guid) -> NvList {
        let mut label = self.assemble(|list| {
            list.remove(keys::HAS_PER_VDEV_ZAPS);
            list.remove(keys::SPLIT);
            list.set(keys::TOP_GUID, top.guid().0);
            list.set(keys::GUID, leaf.0);
            if top.flag(keys::IS_LOG) {
                list.set(keys::IS_LOG, 1_u64);
            }
            if top.find(leaf).is_some_and(|node| node.flag(keys::IS_SPARE)) {
                list.set(keys::IS_SPARE, 1_u64);
            }
            list.set(keys::VDEV_TREE, top.to_list(true));
        });
        // The order in which OpenZFS writes; readers do not depend on it.
        for key in [
            keys::VDEV_CHILDREN,
            keys::VDEV_TREE,
            keys::FEATURES_FOR_READ,
        ] {
            if let Some(value) = label.remove(key) {
                label.set(key, value);
            }
        }
        label
    }

    fn assemble(&self, fill: impl FnOnce(&mut NvList)) -> NvList {
        let mut list = self.list.clone();
        let features = list.remove(keys::FEATURES_FOR_READ);
        fill(&mut list);
        if let Some(features) = features {
            list.set(keys::FEATURES_FOR_READ, features);
        }
        list
    }
}

#[cfg(test)]
mod tests;
