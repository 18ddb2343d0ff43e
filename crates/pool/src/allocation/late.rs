//! The allocator that a pipeline is made with before the space maps can be read: they lie in
//! objects that the pipeline reads.

use std::sync::{Arc, OnceLock, Weak};

use base::Txg;
use format::block_pointer::Dva;
use pipeline::{Allocation, AllocationError, AllocationRequest, Allocator};

use crate::allocation::allocator::PoolAllocator;

/// Read-only until the pool's allocator is put in, and again when the pool is gone: this does not
/// keep it, for the pipeline is below the objects that the allocator's maps lie in.
#[derive(Default)]
pub(crate) struct LateAllocator {
    inner: OnceLock<Weak<PoolAllocator>>,
}

impl LateAllocator {
    /// Puts the allocator in; a second one is ignored.
    pub(crate) fn set(&self, allocator: &Arc<PoolAllocator>) {
        // The first one stays: there is only one caller.
        let _ = self.inner.set(Arc::downgrade(allocator));
    }
}

impl Allocator for LateAllocator {
    fn allocate(&self, request: &AllocationRequest) -> Result<Allocation, AllocationError> {
        match self.inner.get().and_then(Weak::upgrade) {
            Some(inner) => inner.allocate(request),
            None => Err(AllocationError::ReadOnly),
        }
    }

    fn free(&self, dva: &Dva, birth: Txg, txg: Txg) {
        if let Some(inner) = self.inner.get().and_then(Weak::upgrade) {
            inner.free(dva, birth, txg);
        }
    }
}
