//! What a file system must know about the space of its dataset.

use dmu::Admission;

/// Space as the dataset sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceNumbers {
    /// Bytes that the dataset refers to.
    pub referenced: u64,
    /// Bytes that can still be written: the least of pool, quotas and reservations.
    pub available: u64,
}

/// The dataset under a file system.
pub trait Space: Admission {
    /// The numbers now.
    fn numbers(&self) -> SpaceNumbers;
}
