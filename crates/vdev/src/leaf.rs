//! A leaf: one device, its state, its errors, its queue.

use crate::{Condition, TxgRanges, VdevError};
use base::{Guid, Txg};
use device::BlockDevice;
use std::sync::Arc;

/// What is known of a leaf before it is opened.
#[derive(Clone, Debug)]
pub struct LeafConfig {
    /// Its guid.
    pub guid: Guid,
    /// Where its device was last seen.
    pub path: String,
    /// The top-level vdev's sector size as a power of two.
    pub ashift: u32,
}

/// Errors of a leaf since import or `zpool clear`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Reads that gave wrong bytes.
    pub checksum: u64,
    /// Operations that took longer than 30 s.
    pub slow: u64,
}

/// One device of a pool.
pub struct Leaf {}

impl Leaf {
    /// A leaf on `device`, healthy; or one whose device is not there (`None`), unavailable.
    #[must_use]
    pub fn new(config: LeafConfig, device: Option<Arc<dyn BlockDevice>>) -> Arc<Self> {
        let _ = (config, device);
        unimplemented!()
    }

    /// The leaf's guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        unimplemented!()
    }

    /// Where its device was last seen.
    #[must_use]
    pub fn path(&self) -> Arc<str> {
        unimplemented!()
    }

    /// Its sector size as a power of two.
    #[must_use]
    pub fn ashift(&self) -> u32 {
        unimplemented!()
    }

    /// The device, if it is open.
    #[must_use]
    pub fn device(&self) -> Option<Arc<dyn BlockDevice>> {
        unimplemented!()
    }

    /// The device's size rounded down to 256 KiB; 0 if it is not open.
    #[must_use]
    pub fn psize(&self) -> u64 {
        unimplemented!()
    }

    /// The size of the allocatable area: [`Leaf::psize`] less labels and boot area.
    #[must_use]
    pub fn asize(&self) -> u64 {
        unimplemented!()
    }

    /// How the leaf is.
    #[must_use]
    pub fn condition(&self) -> Condition {
        unimplemented!()
    }

    /// Sets how the leaf is (opened, taken offline, faulted).
    pub fn set_condition(&self, condition: Condition) {
        let _ = condition;
        unimplemented!()
    }

    /// Whether its state changed since this was last asked: its configuration is to be written.
    pub fn take_changed(&self) -> bool {
        unimplemented!()
    }

    /// Puts a (new) device under the leaf, or takes it away.
    pub fn set_device(&self, device: Option<Arc<dyn BlockDevice>>) {
        let _ = device;
        unimplemented!()
    }

    /// Errors since import or the last clear.
    #[must_use]
    pub fn errors(&self) -> ErrorCounts {
        unimplemented!()
    }

    /// Clears the error counts, ends a fault or a flush failure, and writes again what may have
    /// been lost by one.
    ///
    /// # Errors
    /// If writing again fails.
    pub fn clear(&self) -> Result<(), VdevError> {
        unimplemented!()
    }

    /// The txgs that the leaf missed.
    #[must_use]
    pub fn missing(&self) -> TxgRanges {
        unimplemented!()
    }

    /// Sets the txgs that the leaf missed (from its DTL, or after a resilver).
    pub fn set_missing(&self, missing: TxgRanges) {
        let _ = missing;
        unimplemented!()
    }

    /// Notes that the leaf missed writes of `txg`.
    pub fn note_missing(&self, txg: Txg) {
        let _ = txg;
        unimplemented!()
    }

    /// Makes the leaf's finished writes durable.
    ///
    /// # Errors
    /// If the device cannot.
    pub fn flush(&self) -> Result<(), VdevError> {
        unimplemented!()
    }
}
