//! Which txgs each device missed, as the pool has it: a device that was away is no source of what it missed, nor is it
//! wrong about that.

use base::{ObjectId, Txg};
use format::config::keys;
use format::nvlist::NvList;
use format::space_map::Action;
use vdev::TxgRanges;

use super::RawPool;
use crate::error::Result;
use crate::verify::for_each_entry;

/// Trees of vdevs nest no deeper.
const NESTING_MAX: u32 = 8;

/// Tells the leaves. A list that cannot be read is left out: what the device has is judged by its bytes alone then.
pub(super) fn load(pool: &RawPool) {
    let tops = pool.tops();
    for top in pool.pipeline.vdevs().tops() {
        for leaf in top.leaves() {
            let config = tops
                .iter()
                .find_map(|config| find(config, leaf.guid().0, 0));
            let list = config.and_then(|config| config.u64(keys::DTL));
            if let Some(Ok(missed)) = list.map(|id| read(pool, ObjectId(id))) {
                leaf.set_missing(missed);
            }
        }
    }
}

fn find(config: &NvList, guid: u64, depth: u32) -> Option<&NvList> {
    if config.u64(keys::GUID) == Some(guid) {
        return Some(config);
    }
    let children = config.lists(keys::CHILDREN).iter();
    let mut children = children.take_while(|_| depth < NESTING_MAX);
    children.find_map(|child| find(child, guid, depth + 1))
}

fn read(pool: &RawPool, id: ObjectId) -> Result<TxgRanges> {
    let mut missed = TxgRanges::new();
    if id.0 == 0 {
        return Ok(missed);
    }
    let map = pool.mos.object(id)?;
    for_each_entry(&map, 0, &mut |entry| match entry.action {
        Action::Allocate => missed.add(Txg(entry.offset), entry.length),
        Action::Free => {}
    })?;
    Ok(missed)
}
