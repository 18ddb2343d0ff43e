//! The pipeline's space: allocation and frees, from the pool's space maps.

use crate::allocation::maps::MosSpaceStore;
use crate::allocation::obsolete::ObsoleteSpace;
use base::Txg;
use format::block_pointer::Dva;
use pipeline::{Allocation, AllocationClass, AllocationError, AllocationRequest, Allocator};
use space::{ClassKind, Extent, PoolSpace, Request, SpaceError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vdev::VdevTree;

use base::lock::{LockClass, Mutex, rank};

static FAULT: LockClass = LockClass::new("pool.space_fault", rank::LAST - 10);
static LATER: LockClass = LockClass::new("pool.later_frees", rank::LAST - 9);

/// The part of the special devices that file blocks leave to metadata.
const METADATA_PERCENT: u64 = 25;

/// Allocates for the pipeline.
pub(crate) struct PoolAllocator {
    space: Arc<PoolSpace>,
    store: Arc<MosSpaceStore>,
    writable: AtomicBool,
    /// Blocks with more bytes go into pieces.
    whole_max: AtomicU64,
    /// The first contradiction that a free met: the pool must not write another uberblock then.
    fault: Mutex<Option<SpaceError>>,
    /// What is freed of txgs that are open still.
    later: Mutex<BTreeMap<Txg, Vec<Freed>>>,
    /// The txg of the checkpoint, 0 without one: what is older stays in use.
    checkpoint: AtomicU64,
    /// What is freed of removed vdevs.
    pub(crate) obsolete: Arc<ObsoleteSpace>,
}

/// Space that is freed, and the txg in which it was allocated.
struct Freed {
    extent: Extent,
    birth: Txg,
}

impl PoolAllocator {
    pub(crate) fn new(
        space: Arc<PoolSpace>,
        store: Arc<MosSpaceStore>,
        vdevs: &Arc<VdevTree>,
        writable: bool,
    ) -> Self {
        Self {
            space,
            store,
            writable: AtomicBool::new(writable),
            whole_max: AtomicU64::new(u64::MAX),
            fault: Mutex::new(&FAULT, None),
            later: Mutex::new(&LATER, BTreeMap::new()),
            checkpoint: AtomicU64::new(0),
            obsolete: Arc::new(ObsoleteSpace::new(vdevs)),
        }
    }

    /// From now on what is in use as of the checkpoint's txg is kept for it when it is freed; 0: nothing is. In syncing
    /// context, before anything of the txg is freed.
    pub(crate) fn set_checkpoint(&self, checkpoint: Txg) {
        self.checkpoint.store(checkpoint.0, Ordering::Relaxed);
    }

    /// Refuses space for more than so many bytes at once.
    pub(crate) fn set_whole_max(&self, bytes: u64) {
        self.whole_max.store(bytes, Ordering::Relaxed);
    }

    /// The devices for that class.
    fn class(&self, class: AllocationClass) -> ClassKind {
        match class {
            AllocationClass::Normal => ClassKind::Normal,
            AllocationClass::Log => ClassKind::Log,
            AllocationClass::Special => ClassKind::Special,
            AllocationClass::Dedup => ClassKind::Dedup,
            AllocationClass::SmallData => {
                let special = ClassKind::Special;
                let capacity = self.space.capacity_bytes(special);
                let for_data = capacity - capacity / 100 * METADATA_PERCENT;
                if self.space.allocated_bytes(special) < for_data {
                    special
                } else {
                    ClassKind::Normal
                }
            }
        }
    }

    /// Frees what was no longer wanted while `txg` was open, which syncs now.
    pub(crate) fn free_due(&self, txg: Txg) {
        let due = {
            let mut later = self.later.lock();
            let newer = later.split_off(&txg.next());
            std::mem::replace(&mut *later, newer)
        };
        for freed in due.values().flatten() {
            self.free_now(freed);
        }
    }

    fn free_now(&self, Freed { extent, birth }: &Freed) {
        let is_kept = birth.0 <= self.checkpoint.load(Ordering::Relaxed);
        let moved = self.obsolete.release(extent);
        let extents = moved.as_deref().unwrap_or(std::slice::from_ref(extent));
        for extent in extents {
            let given_back = if is_kept {
                self.space.keep(extent)
            } else {
                self.space.free(extent)
            };
            if let Err(error) = given_back {
                self.fault.lock().get_or_insert(error);
            }
        }
    }

    /// What a free contradicted, if any did since the last call.
    pub(crate) fn take_fault(&self) -> Option<SpaceError> {
        self.fault.lock().take()
    }
}

impl Allocator for PoolAllocator {
    fn allocate(&self, request: &AllocationRequest) -> Result<Allocation, AllocationError> {
        if !self.writable.load(Ordering::Relaxed) {
            return Err(AllocationError::ReadOnly);
        }
        if request.psize > self.whole_max.load(Ordering::Relaxed) {
            return Err(AllocationError::NoSpace {
                psize: request.psize,
                copies: request.copies,
            });
        }
        let wanted = Request {
            size: request.psize,
            copies: request.copies,
            txg: request.txg,
            class: self.class(request.class),
            hint: usize::try_from(request.hint).unwrap_or(0),
        };
        let extents = self
            .space
            .allocate(&wanted, &*self.store)
            .map_err(|error| match error {
                SpaceError::NoSpace { .. } => AllocationError::NoSpace {
                    psize: request.psize,
                    copies: request.copies,
                },
                SpaceError::Contradiction { .. }
                | SpaceError::Outside { .. }
                | SpaceError::Format { .. }
                | SpaceError::Store { .. } => AllocationError::SpaceMap(error.to_string()),
            })?;
        let addresses = extents.into_iter().map(|extent| Dva {
            vdev: extent.vdev,
            offset: extent.range.start,
            asize: extent.range.end - extent.range.start,
            gang: false,
        });
        Ok(addresses.collect())
    }

    fn free(&self, dva: &Dva, birth: Txg, txg: Txg) {
        let extent = Extent {
            vdev: dva.vdev,
            range: dva.offset..dva.offset.saturating_add(dva.asize),
        };
        let freed = Freed { extent, birth };
        // An older txg that syncs meanwhile must not free what is not allocated as of it. The caller holds its txg
        // open: that does not begin to sync here.
        if txg > self.store.syncing() {
            self.later.lock().entry(txg).or_default().push(freed);
        } else {
            self.free_now(&freed);
        }
    }
}

#[cfg(test)]
mod tests;
