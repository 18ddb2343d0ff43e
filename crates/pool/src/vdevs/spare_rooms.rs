//! Distributed spares: room that a dRAID keeps on all of its devices, for what one of them held that is gone.
//!
//! The pool lists them with its hot spares, by names that say where they belong: `draid2-0-1` is room 1 of the
//! top-level vdev 0, which has two rows of parity. They have no device and no labels. One that stands in is a leaf of
//! the tree, beside the device that it stands in for, and has a list of missed txgs as others; where its bytes lie is
//! for `vdev` to find.

use std::sync::Arc;

use base::random::Rng;
use format::NvList;
use format::config::{VdevType, keys};
use vdev::{Leaf, LeafConfig};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};

/// Why a spare cannot stand in for a device of another vdev.
const OF_ANOTHER: &str = "a distributed spare stands in for devices of its own dRAID only";

/// The spares of a new dRAID, for the pool's list; none for other vdevs.
pub(crate) fn of_new(top: &VdevConfig, rng: &dyn Rng) -> Vec<VdevConfig> {
    let count = match top.is_draid() {
        true => top.list.u64(keys::DRAID_SPARE_COUNT).unwrap_or(0),
        false => 0,
    };
    let one = |number| {
        let path = format!("draid{}-{}-{number}", top.parity(), top.id());
        let mut list = NvList::new();
        list.set(keys::TYPE, VdevType::DistributedSpare.name())
            .set(keys::GUID, rng.nonzero_u64())
            .set(keys::PATH, path)
            .set(keys::TOP_GUID, top.guid().0)
            .set(keys::SPARE_ID, number)
            .set(keys::WHOLE_DISK, 1_u64)
            .set(keys::IS_SPARE, 1_u64)
            .set(keys::ASHIFT, u64::from(top.ashift()));
        VdevConfig {
            list,
            children: Vec::new(),
        }
    };
    (0..count).map(one).collect()
}

/// Which room of the dRAID `top` a leaf is, or a spare that waits; none if it is none of that vdev.
pub(crate) fn number_in(leaf: &VdevConfig, top: &VdevConfig) -> Option<usize> {
    let number = leaf.list.u64(keys::SPARE_ID)?;
    let count = top.list.u64(keys::DRAID_SPARE_COUNT)?;
    let is_own = leaf.list.u64(keys::TOP_GUID) == Some(top.guid().0);
    let is_there = leaf.is_distributed_spare() && top.is_draid() && is_own && number < count;
    usize::try_from(number).ok().filter(|_| is_there)
}

/// Whether a spare can stand in for the leaves of this top-level vdev: any device can, a room for those of its own.
pub(crate) fn can_help(spare: &VdevConfig, top: &VdevConfig) -> bool {
    !spare.is_distributed_spare() || number_in(spare, top).is_some()
}

/// A distributed spare as a leaf of `top`, with its configuration there.
pub(super) fn leaf_of(spare: &VdevConfig, top: &VdevConfig) -> Result<(VdevConfig, Arc<Leaf>)> {
    let number = number_in(spare, top).ok_or(PoolError::refused(OF_ANOTHER))?;
    let config = LeafConfig {
        guid: spare.guid(),
        path: spare.path().unwrap_or_default().to_owned(),
        ashift: top.ashift(),
        spare_room: Some(number),
    };
    let mut node = spare.clone();
    for key in [keys::ASHIFT, keys::WHOLE_DISK] {
        node.list.remove(key);
    }
    Ok((node, Leaf::new(config, None)))
}
