//! Blocks, as far as layouts know them.

use base::Txg;

/// Where a block is, and what of it places depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address: a byte of the vdev.
    pub offset: u64,
    /// The stored bytes.
    pub psize: u64,
    /// The txg in which it was written (physical birth).
    pub birth: Txg,
}
