//! The vdevs below the root as a tree.

use crate::{Condition, Leaf, VdevAux, VdevState};
use base::Guid;
use layout::Kind;
use std::sync::Arc;

/// A vdev below the root.
#[derive(Clone)]
pub enum Node {
    /// A device.
    Leaf(Arc<Leaf>),
    /// Several vdevs with the same bytes.
    Interior(Interior),
}

/// Several vdevs that hold the same bytes.
#[derive(Clone)]
pub struct Interior {
    /// Its guid.
    pub guid: Guid,
    /// Why there are several.
    pub kind: InteriorKind,
    /// The vdevs.
    pub children: Vec<Node>,
}

/// Why several vdevs hold the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InteriorKind {
    /// For redundancy.
    Mirror,
    /// While one replaces the other.
    Replacing,
    /// While a spare stands in.
    Spare,
}

impl InteriorKind {
    /// The type's name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
        }
    }
}

impl InteriorKind {
    /// How the children share what the vdev holds.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Mirror | Self::Replacing | Self::Spare => Kind::Mirror,
        }
    }
}

impl Node {
    /// How the children share what the vdev holds.
    #[must_use]
    pub const fn kind(&self) -> Kind {
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
            Self::Interior(interior) => {
                let children = interior.children.iter().map(Self::condition);
                let children: Vec<_> = children.collect();
                interior_condition(&children, interior.kind.kind().tolerance(children.len()))
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

/// How a vdev with such children is, of which `tolerance` may be missing.
fn interior_condition(children: &[Condition], tolerance: usize) -> Condition {
    let usable = children.iter().filter(|c| c.state.is_usable()).count();
    let healthy = children
        .iter()
        .filter(|c| c.state == VdevState::Healthy)
        .count();
    if usable == 0 || children.len() - usable > tolerance {
        let offline = |c: &Condition| matches!(c.state, VdevState::Offline);
        if !children.is_empty() && children.iter().all(offline) {
            return Condition::new(VdevState::Offline, VdevAux::ChildrenOffline);
        }
        return Condition::new(VdevState::CantOpen, VdevAux::NoReplicas);
    }
    if healthy == children.len() {
        return Condition::HEALTHY;
    }
    Condition::new(VdevState::Degraded, VdevAux::None)
}

#[cfg(test)]
mod tests;
