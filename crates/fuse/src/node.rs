//! Node ids: derived, not allocated.
//!
//! A node id is an object number (40 bits) under a *view* (16 bits): the live file system in its
//! present epoch, one of the snapshots, or the control directory. (The format would allow objects
//! of 48 bits; 40 are half a pebibyte of dnodes. The byte above is for [`crate::MountMultiplexer`].) Nothing is
//! remembered for a node; of a snapshot, how many references the kernel has, so that its slot is used again. Ids mean
//! the same after a restart. A rollback begins another epoch, so that ids from before it are known to be stale.
//!
//! | view | meaning |
//! |---|---|
//! | 0x0000–0x00FF | live, by the low byte of its epoch |
//! | 0x0100–0xFFFE | a snapshot, by slot |
//! | 0xFFFF | `.zfs` and what is in it |
//!
//! Id 1 is the root, whatever its object number: the kernel demands it, and object 1 of a file
//! system is never a file.

use crate::wire::ROOT_NODE;
use base::ObjectId;

const OBJECT_BITS: u32 = 40;
const OBJECT_MASK: u64 = (1 << OBJECT_BITS) - 1;
/// The largest object number of the format: OpenZFS numbers the control directory from here down.
const FORMAT_OBJECT_MAX: u64 = (1 << 48) - 1;
const SNAPSHOT_VIEW_FIRST: u64 = 0x100;
const CONTROL_VIEW: u64 = 0xFFFF;
/// Snapshots that can be told apart at once.
pub(crate) const SLOTS: u16 = 0xFEFF;

/// A directory that exists only in the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlNode {
    /// `.zfs`
    Control,
    /// `.zfs/shares`
    Shares,
    /// `.zfs/snapshot`
    Snapshots,
}

impl ControlNode {
    const fn number(self) -> u64 {
        match self {
            Self::Control => 1,
            Self::Shares => 2,
            Self::Snapshots => 3,
        }
    }

    /// The inode number shown, as OpenZFS numbers them.
    pub(crate) const fn inode(self) -> u64 {
        FORMAT_OBJECT_MAX + 1 - self.number()
    }
}

/// The inode number shown for the root of a snapshot with this object-set id.
pub(crate) const fn snapshot_root_inode(object_set: u64) -> u64 {
    (FORMAT_OBJECT_MAX - 3).saturating_sub(object_set)
}

/// What a node id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The root of the mount.
    Root,
    /// A file of the live file system, in the epoch with this low byte.
    Live { epoch: u8, object: ObjectId },
    /// A file of the snapshot in this slot.
    Snapshot { slot: u16, object: ObjectId },
    /// Part of the control directory.
    Control(ControlNode),
}

impl Node {
    /// What `id` names, if anything.
    pub(crate) fn from_id(id: u64) -> Option<Self> {
        if id == ROOT_NODE {
            return Some(Self::Root);
        }
        let object = ObjectId(id & OBJECT_MASK);
        match id >> OBJECT_BITS {
            CONTROL_VIEW => [
                ControlNode::Control,
                ControlNode::Shares,
                ControlNode::Snapshots,
            ]
            .into_iter()
            .find(|node| node.number() == object.0)
            .map(Self::Control),
            view if view >= SNAPSHOT_VIEW_FIRST => {
                let slot = u16::try_from(view - SNAPSHOT_VIEW_FIRST).ok()?;
                Some(Self::Snapshot { slot, object })
            }
            view => Some(Self::Live {
                epoch: u8::try_from(view).ok()?,
                object,
            }),
        }
    }

    /// The id of this node; none for an object number beyond what the format allows.
    pub(crate) fn id(self) -> Option<u64> {
        let (view, object) = match self {
            Self::Root => return Some(ROOT_NODE),
            Self::Live { epoch, object } => (u64::from(epoch), object.0),
            Self::Snapshot { slot, object } => (SNAPSHOT_VIEW_FIRST + u64::from(slot), object.0),
            Self::Control(node) => (CONTROL_VIEW, node.number()),
        };
        (object <= OBJECT_MASK).then_some(view << OBJECT_BITS | object)
    }
}

#[cfg(test)]
mod tests;
