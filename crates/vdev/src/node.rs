//! The vdevs below the root as a tree, and the children that a layout counts.

use crate::holders::{self, Holder};
use crate::members::Members;
use crate::{Condition, Leaf, TxgRanges};
use base::{Guid, Txg};
use format::NvList;
use format::config::{VdevType, keys};
use format::nvlist::Value;
use itertools::Either;
use layout::{Draid, Kind, Piece, RaidZ};
use std::sync::Arc;

/// A vdev below the root.
#[derive(Clone)]
pub enum Node {
    /// A device.
    Leaf(Arc<Leaf>),
    /// Several vdevs that share what it holds.
    Interior(Interior),
}

/// Several vdevs that share what one holds.
#[derive(Clone)]
pub struct Interior {
    /// Its guid.
    pub guid: Guid,
    /// How, and why.
    pub kind: InteriorKind,
    /// The vdevs.
    pub children: Vec<Node>,
}

/// How and why several vdevs share what one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InteriorKind {
    /// The same bytes, for redundancy.
    Mirror,
    /// The same bytes, while one replaces the other.
    Replacing,
    /// The same bytes, while a spare stands in.
    Spare,
    /// Stripes with parity.
    RaidZ(RaidZ),
    /// Stripes with parity, spread with the room of spares.
    Draid(Draid),
    /// It was removed, and has no children: what it held lies on other vdevs.
    Indirect,
}

impl InteriorKind {
    /// The kind of a vdev over so many children by its configuration; none if it is not known, or contradicts itself.
    #[must_use]
    pub fn of(config: &NvList, children: usize) -> Option<Self> {
        match VdevType::of(config)? {
            VdevType::Mirror => Some(Self::Mirror),
            VdevType::Replacing => Some(Self::Replacing),
            VdevType::Spare => Some(Self::Spare),
            VdevType::RaidZ => Self::raidz_of(config, children),
            VdevType::Draid => Self::draid_of(config, children),
            VdevType::Indirect => (children == 0).then_some(Self::Indirect),
            VdevType::Root
            | VdevType::DistributedSpare
            | VdevType::Disk
            | VdevType::File
            | VdevType::Missing
            | VdevType::Hole => None,
        }
    }

    fn raidz_of(config: &NvList, children: usize) -> Option<Self> {
        let parity = config.u64(keys::PARITY_COUNT)?;
        let since = match config.get(keys::RAIDZ_EXPAND_TXGS) {
            None => Vec::new(),
            Some(Value::Uint64Array(txgs)) => txgs.iter().copied().map(Txg).collect(),
            Some(_) => return None,
        };
        let is_growing = config.get(keys::RAIDZ_EXPANDING).is_some();
        let raidz = RaidZ::new(parity, children)?;
        raidz.grown(&since, is_growing).map(Self::RaidZ)
    }

    fn draid_of(config: &NvList, children: usize) -> Option<Self> {
        let count = |key| usize::try_from(config.u64(key)?).ok();
        // In groups whose failures are independent: another order of the children.
        if config.get(keys::DRAID_CHILD_COUNT).is_some() {
            return None;
        }
        let (data, spares) = (
            count(keys::DRAID_DATA_COUNT)?,
            count(keys::DRAID_SPARE_COUNT)?,
        );
        let parity = config.u64(keys::PARITY_COUNT)?;
        let draid = Draid::new(parity, data, children, spares)?;
        let is_meant = count(keys::DRAID_GROUP_COUNT) == Some(draid.groups());
        is_meant.then_some(Self::Draid(draid))
    }

    /// Whether it may lie inside another vdev: only those whose children hold the same bytes.
    #[must_use]
    pub const fn may_be_inside(&self) -> bool {
        self.vdev_type().holds_copies()
    }

    /// The type in configurations.
    #[must_use]
    pub const fn vdev_type(&self) -> VdevType {
        match self {
            Self::Mirror => VdevType::Mirror,
            Self::Replacing => VdevType::Replacing,
            Self::Spare => VdevType::Spare,
            Self::RaidZ(_) => VdevType::RaidZ,
            Self::Draid(_) => VdevType::Draid,
            Self::Indirect => VdevType::Indirect,
        }
    }
}

impl InteriorKind {
    /// How the children share what the vdev holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Mirror | Self::Replacing | Self::Spare => Kind::Mirror,
            Self::RaidZ(raidz) => Kind::RaidZ(raidz.clone()),
            Self::Draid(draid) => Kind::Draid(*draid),
            Self::Indirect => Kind::Indirect,
        }
    }
}

impl Node {
    /// How the children share what the vdev holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Leaf(_) => Kind::Single,
            Self::Interior(interior) => interior.kind.kind(),
        }
    }

    /// The vdev's guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        match self {
            Self::Leaf(leaf) => leaf.guid(),
            Self::Interior(interior) => interior.guid,
        }
    }

    /// How it is, as follows from its leaves.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match self {
            Self::Leaf(leaf) => leaf.condition(),
            Self::Interior(interior) if interior.kind == InteriorKind::Indirect => {
                Condition::HEALTHY
            }
            Self::Interior(interior) => {
                let children = interior.children.iter().map(Self::condition);
                let children: Vec<_> = children.collect();
                let tolerance = interior.kind.kind().tolerance(children.len());
                Condition::of_interior(&children, tolerance)
            }
        }
    }

    /// The vdev of this guid, from here down.
    pub(crate) fn find(&self, guid: Guid) -> Option<&Self> {
        match self {
            _ if self.guid() == guid => Some(self),
            Self::Leaf(_) => None,
            Self::Interior(interior) => interior.children.iter().find_map(|child| child.find(guid)),
        }
    }

    /// See [`crate::Top::outage`].
    pub(crate) fn outage(&self, fails: &dyn Fn(&Leaf) -> bool) -> TxgRanges {
        match self {
            Self::Leaf(leaf) if fails(leaf) || !leaf.is_readable() => TxgRanges::all(),
            Self::Leaf(leaf) => leaf.missing(),
            Self::Interior(interior) => {
                let children = interior.children.iter().map(|child| child.outage(fails));
                let children: Vec<_> = children.collect();
                let tolerance = interior.kind.kind().tolerance(children.len());
                TxgRanges::in_at_least(&children, tolerance + 1)
            }
        }
    }

    /// Adds the leaves, from left to right.
    pub(crate) fn gather(&self, leaves: &mut Vec<Arc<Leaf>>) {
        match self {
            Self::Leaf(leaf) => leaves.push(Arc::clone(leaf)),
            Self::Interior(interior) => interior.children.iter().for_each(|n| n.gather(leaves)),
        }
    }
}

/// The leaves of a top-level vdev by the child that they belong to. A child is a leaf, or several that hold the same
/// bytes while one takes another's place.
pub(crate) struct Children {
    leaves: Vec<Arc<Leaf>>,
    members: Arc<Members>,
    /// Where the room of distributed spares lies, if some of the leaves are such.
    spare_rooms: Option<Draid>,
}

impl Children {
    /// Those of a top-level vdev. The sides of mirrors within a mirror are sides as the others.
    pub(crate) fn new(node: &Node) -> Self {
        let (mut leaves, mut ranges) = (Vec::new(), Vec::new());
        match node {
            Node::Interior(Interior { kind, children, .. }) if !kind.kind().is_copies() => {
                for child in children {
                    let start = leaves.len();
                    child.gather(&mut leaves);
                    ranges.push(start..leaves.len());
                }
            }
            Node::Leaf(_) | Node::Interior(_) => {
                node.gather(&mut leaves);
                ranges.extend((0..leaves.len()).map(|leaf| leaf..leaf + 1));
            }
        }
        let guids = leaves.iter().map(|leaf| leaf.guid()).collect();
        let members = Arc::new(Members::new(guids, ranges));
        let has_rooms = leaves.iter().any(|leaf| leaf.spare_room().is_some());
        let spare_rooms = match node.kind() {
            Kind::Draid(draid) if has_rooms => Some(draid),
            Kind::Draid(_) | Kind::Single | Kind::Mirror | Kind::RaidZ(_) | Kind::Indirect => None,
        };
        Self {
            leaves,
            members,
            spare_rooms,
        }
    }

    /// Where the room of distributed spares lies, if some of the leaves are such.
    pub(crate) const fn spare_rooms(&self) -> Option<&Draid> {
        self.spare_rooms.as_ref()
    }

    /// The leaves that hold a piece.
    pub(crate) fn holders(&self, piece: &Piece) -> impl Iterator<Item = Holder<'_>> {
        match &self.spare_rooms {
            None => Either::Left(self.of(piece.child).iter().map(Holder::own)),
            Some(draid) => {
                let place = (piece.child, piece.offset);
                Either::Right(holders::find(draid, &|child| self.of(child), place).into_iter())
            }
        }
    }

    /// How many children there are.
    pub(crate) fn count(&self) -> usize {
        self.members.count()
    }

    /// All leaves, from left to right.
    pub(crate) fn leaves(&self) -> &[Arc<Leaf>] {
        &self.leaves
    }

    /// The leaves of a child; none if there is no such child.
    pub(crate) fn of(&self, child: usize) -> &[Arc<Leaf>] {
        let range = self.members.of(child);
        range
            .and_then(|range| self.leaves.get(range))
            .unwrap_or_default()
    }

    /// Which child a leaf belongs to.
    pub(crate) fn child_of(&self, leaf: Guid) -> Option<usize> {
        let at = self.leaves.iter().position(|known| known.guid() == leaf)?;
        self.members.child_of(at)
    }

    /// Which leaves stand for one another.
    pub(crate) const fn members(&self) -> &Arc<Members> {
        &self.members
    }
}

#[cfg(test)]
mod tests;
