//! The pipeline's space: allocation and frees, from the pool's space maps.

use crate::space_store::MosSpaceStore;
use base::Txg;
use format::block_pointer::Dva;
use pipeline::{Allocation, AllocationClass, AllocationError, AllocationRequest, Allocator};
use space::{ClassKind, Extent, PoolSpace, Request, SpaceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};

static FAULT: LockClass = LockClass::new("pool.space_fault", rank::LAST - 10);

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
}

impl PoolAllocator {
    pub(crate) fn new(space: Arc<PoolSpace>, store: Arc<MosSpaceStore>, writable: bool) -> Self {
        Self {
            space,
            store,
            writable: AtomicBool::new(writable),
            whole_max: AtomicU64::new(u64::MAX),
            fault: Mutex::new(&FAULT, None),
        }
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
                other => AllocationError::SpaceMap(other.to_string()),
            })?;
        let addresses = extents.into_iter().map(|extent| Dva {
            vdev: extent.vdev,
            offset: extent.range.start,
            asize: extent.range.end - extent.range.start,
            gang: false,
        });
        Ok(addresses.collect())
    }

    fn free(&self, dva: &Dva, _txg: Txg) {
        let range = dva.offset..dva.offset.saturating_add(dva.asize);
        if let Err(error) = self.space.free(&Extent {
            vdev: dva.vdev,
            range,
        }) {
            self.fault.lock().get_or_insert(error);
        }
    }
}
