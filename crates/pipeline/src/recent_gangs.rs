//! The gangs that the present sync wrote, so that a later pass finds their pieces.

use std::collections::HashMap;

use base::lock::{LockClass, Mutex, rank};
use base::{Txg, VdevId};
use format::block_pointer::BlockPointer;
use format::gang::GangHeader;

static RECENT: LockClass = LockClass::new("pipeline.recent_gangs", rank::LAST - 20);

/// The headers of the gangs that one sync wrote, by the address of their first copy.
///
/// A block of the pool's own object set that is written in every pass must stay where it is, or each pass would
/// allocate, so change the space maps and bring about another; its pieces may not be on the device yet.
pub(crate) struct RecentGangs(Mutex<(Txg, HashMap<Address, GangHeader>)>);

type Address = (VdevId, u64);

impl Default for RecentGangs {
    fn default() -> Self {
        Self(Mutex::new(&RECENT, (Txg(0), HashMap::new())))
    }
}

impl RecentGangs {
    pub(crate) fn put(&self, block: &BlockPointer, header: GangHeader, txg: Txg) {
        let Some(first) = block.dva(0) else { return };
        let mut inner = self.0.lock();
        if inner.0 != txg {
            *inner = (txg, HashMap::new());
        }
        inner.1.insert((first.vdev, first.offset), header);
    }

    /// The header of a gang that the sync of `txg` wrote.
    pub(crate) fn get(&self, block: &BlockPointer, txg: Txg) -> Option<GangHeader> {
        let first = block.dva(0)?;
        let inner = self.0.lock();
        if inner.0 != txg {
            return None;
        }
        inner.1.get(&(first.vdev, first.offset)).cloned()
    }
}
