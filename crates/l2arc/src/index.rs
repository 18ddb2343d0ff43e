//! Which blocks have a copy, and where.

use std::collections::HashMap;
use std::sync::Arc;

use base::lock::{LockClass, RwLock, rank};
use base::{Txg, VdevId};

use crate::device::CacheDevice;

static INDEX: LockClass = LockClass::new("l2arc.index", rank::CACHE + 23);

/// What one copy takes of memory: here, in the order of its device, and in the log block that is being filled.
pub(crate) const COPY_BYTES: u64 = 160;

/// A block's name: its first address, and when it was written there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CopyKey {
    /// The vdev.
    pub vdev: VdevId,
    /// The offset on it.
    pub offset: u64,
    /// Its physical birth.
    pub birth: Txg,
}

/// Where a copy lies.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) device: Arc<CacheDevice>,
    /// Device byte.
    pub(crate) offset: u64,
    /// Bytes of the block as stored.
    pub(crate) size: u64,
}

impl Place {
    fn is(&self, device: &CacheDevice, offset: u64) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.device), device) && self.offset == offset
    }
}

/// All copies of all devices.
pub(crate) struct Index(RwLock<HashMap<CopyKey, Place>>);

impl Index {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(&INDEX, HashMap::new()))
    }

    pub(crate) fn get(&self, key: &CopyKey) -> Option<Place> {
        self.0.read().get(key).cloned()
    }

    pub(crate) fn contains(&self, key: &CopyKey) -> bool {
        self.0.read().contains_key(key)
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.read().len() as u64
    }

    /// Adds a copy of a block that has none; whether it had none.
    pub(crate) fn add(&self, key: CopyKey, place: Place) -> bool {
        let mut copies = self.0.write();
        if copies.contains_key(&key) {
            return false;
        }
        copies.insert(key, place);
        true
    }

    /// A copy is no more, unless the block has another one meanwhile; whether it was there.
    pub(crate) fn remove(&self, key: &CopyKey, device: &CacheDevice, offset: u64) -> bool {
        let mut copies = self.0.write();
        let is_there = copies
            .get(key)
            .is_some_and(|place| place.is(device, offset));
        if is_there {
            copies.remove(key);
        }
        is_there
    }

    /// No device has a copy of a block any more.
    pub(crate) fn forget(&self, key: &CopyKey) {
        self.0.write().remove(key);
    }

    /// A device is no more.
    pub(crate) fn remove_all(&self, device: &CacheDevice) {
        let is_elsewhere =
            |_: &CopyKey, place: &mut Place| !std::ptr::eq(Arc::as_ptr(&place.device), device);
        self.0.write().retain(is_elsewhere);
    }
}
