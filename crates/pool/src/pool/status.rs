//! How a pool and its vdevs are.

use std::path::PathBuf;
use std::sync::Arc;

use base::Guid;
use format::config::{VdevType, keys};
use format::version;
use space::{ClassKind, PoolSpace};
use vdev::{Condition, ErrorCounts, Leaf, LeafStatistics, VdevAux, VdevState, VdevTree};

use crate::allocation::limits::SpaceFigures;
use crate::config::VdevConfig;
use crate::error::Result;
use crate::mos::data_error::DataError;
use crate::scan::phys::ScanPhys;
use crate::vdevs::new::require;

/// What a top-level vdev is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VdevRole {
    /// Data and metadata.
    Data,
    /// Intent logs.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Dedup tables.
    Dedup,
}

impl VdevRole {
    /// Refuses what pools of this version do not know.
    pub(crate) fn check_version(self, known: u64) -> Result<()> {
        match self {
            Self::Log => require(known, version::LOG_DEVICES, "log devices"),
            // Those of features are asked for these.
            Self::Data | Self::Special | Self::Dedup => Ok(()),
        }
    }

    /// The class of its space.
    pub(crate) const fn class(self) -> ClassKind {
        match self {
            Self::Data => ClassKind::Normal,
            Self::Log => ClassKind::Log,
            Self::Special => ClassKind::Special,
            Self::Dedup => ClassKind::Dedup,
        }
    }

    /// What the ZAP of such a vdev says of it.
    pub(crate) const fn bias(self) -> Option<&'static [u8]> {
        match self {
            Self::Data => None,
            Self::Log => Some(b"log\0"),
            Self::Special => Some(b"special\0"),
            Self::Dedup => Some(b"dedup\0"),
        }
    }

    /// Whether it counts as a use of the feature `allocation_classes`: log vdevs are older.
    pub(crate) const fn has_feature(self) -> bool {
        matches!(self, Self::Special | Self::Dedup)
    }
}

/// How a vdev is.
#[derive(Clone, Debug)]
pub struct VdevStatus {
    /// The type as it is shown: `file`, `disk`, `mirror`, `raidz2`, …
    pub kind: String,
    /// The type by itself; none if nobody here knows it.
    pub vdev_type: Option<VdevType>,
    /// Its place among its siblings.
    pub id: u64,
    /// Its guid.
    pub guid: Guid,
    /// A leaf's path.
    pub path: Option<String>,
    /// How it is.
    pub condition: Condition,
    /// Whether it is a leaf that missed txgs.
    pub outdated: bool,
    /// Whether such a leaf waits for the end of the resilver that runs.
    pub deferred: bool,
    /// Errors, of all leaves below.
    pub errors: ErrorCounts,
    /// What is counted of a leaf.
    pub statistics: Option<LeafStatistics>,
    /// What a top-level vdev is for.
    pub role: VdevRole,
    /// A top-level vdev's space.
    pub size: u64,
    /// Bytes of it in use.
    pub allocated: u64,
    /// Bytes by which a top-level vdev could be larger.
    pub expandable: u64,
    /// Bytes of a leaf's device.
    pub device_size: u64,
    /// Whether a leaf's device can take space back.
    pub can_discard: bool,
    /// Vdevs below.
    pub children: Vec<VdevStatus>,
}

/// How a pool is.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: Guid,
    /// How it is as a whole.
    pub condition: Condition,
    /// Why it is suspended, when it is.
    pub suspended: Option<String>,
    /// Whether it is open read-only.
    pub read_only: bool,
    /// Where it is mounted below, when not at the root.
    pub altroot: Option<PathBuf>,
    /// Its vdevs.
    pub root: VdevStatus,
    /// Its space.
    pub space: SpaceFigures,
    /// The last scan.
    pub scan: Option<ScanPhys>,
    /// Blocks that cannot be read, as the error log has them.
    pub errors: Vec<DataError>,
    /// Heads that were taken out of service, because they could not be written.
    pub stopped: Vec<dsl::StoppedHead>,
}

pub(crate) fn vdevs(
    root: &VdevConfig,
    tree: &VdevTree,
    space: Option<&Arc<PoolSpace>>,
) -> VdevStatus {
    let tops = tree.tops();
    let leaves: Vec<Arc<Leaf>> = tops
        .iter()
        .flat_map(|top| top.leaves().iter().cloned())
        .collect();
    let mut status = node(root, &leaves);
    for child in &mut status.children {
        let config = root.children.iter().find(|top| top.guid() == child.guid);
        let top = tops.iter().find(|top| top.config().guid == child.guid);
        child.expandable = config.zip(top).map_or(0, |(config, top)| {
            config.expandable_bytes(top.smallest_leaf())
        });
        let spaces = space.map(|space| space.vdevs()).unwrap_or_default();
        let of_child = |vdev: &&Arc<space::VdevSpace>| vdev.geometry().vdev.0 == child.id;
        if let Some(vdev) = spaces.iter().find(of_child) {
            child.size = vdev.capacity_bytes();
            child.allocated = vdev.allocated_bytes();
            child.role = match vdev.geometry().class {
                ClassKind::Normal => VdevRole::Data,
                ClassKind::Log => VdevRole::Log,
                ClassKind::Special => VdevRole::Special,
                ClassKind::Dedup => VdevRole::Dedup,
            };
        }
    }
    status.condition = root_condition(&status.children);
    status
}

fn node(config: &VdevConfig, leaves: &[Arc<Leaf>]) -> VdevStatus {
    let children: Vec<_> = config
        .children
        .iter()
        .map(|child| node(child, leaves))
        .collect();
    let leaf = leaves.iter().find(|leaf| leaf.guid() == config.guid());
    let (condition, errors) = match leaf {
        Some(leaf) if config.is_leaf() => (leaf.condition(), leaf.errors()),
        _ if config.is_hole() || config.is_indirect() => {
            (Condition::HEALTHY, ErrorCounts::default())
        }
        _ if config.children.is_empty() => (
            Condition::new(VdevState::CantOpen, VdevAux::OpenFailed),
            ErrorCounts::default(),
        ),
        _ => (interior_condition(config, &children), sum(&children)),
    };
    VdevStatus {
        kind: config.shown_kind(),
        vdev_type: config.vdev_type(),
        id: config.id().0,
        guid: config.guid(),
        path: match leaf {
            Some(leaf) => Some(leaf.path().to_string()),
            None => config.path().map(ToOwned::to_owned),
        },
        condition,
        outdated: leaf.is_some_and(|leaf| !leaf.missing().is_empty()),
        deferred: config.is_leaf() && config.flag(keys::RESILVER_DEFER),
        errors,
        statistics: leaf.map(|leaf| leaf.statistics()),
        role: if config.flag(keys::IS_LOG) {
            VdevRole::Log
        } else {
            VdevRole::Data
        },
        size: 0,
        allocated: 0,
        expandable: 0,
        device_size: leaf.map_or(0, |leaf| leaf.psize()),
        can_discard: leaf.is_some_and(|leaf| leaf.can_discard()),
        children,
    }
}

fn sum(children: &[VdevStatus]) -> ErrorCounts {
    let mut sum = ErrorCounts::default();
    for child in children {
        sum.read += child.errors.read;
        sum.write += child.errors.write;
        sum.checksum += child.errors.checksum;
        sum.slow += child.errors.slow;
        sum.trim += child.errors.trim;
    }
    sum
}

fn interior_condition(config: &VdevConfig, children: &[VdevStatus]) -> Condition {
    let conditions: Vec<_> = children.iter().map(|child| child.condition).collect();
    Condition::of_interior(&conditions, config.tolerance())
}

fn root_condition(tops: &[VdevStatus]) -> Condition {
    let data = tops.iter().filter(|top| top.role != VdevRole::Log);
    if data.clone().any(|top| !top.condition.state.is_usable()) {
        return Condition::new(VdevState::CantOpen, VdevAux::NoReplicas);
    }
    let healthy = |top: &VdevStatus| top.condition.state == VdevState::Healthy;
    if tops.iter().all(healthy) {
        Condition::HEALTHY
    } else {
        Condition::new(VdevState::Degraded, VdevAux::None)
    }
}
