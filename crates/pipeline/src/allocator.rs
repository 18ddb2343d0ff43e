//! The trait by which the pipeline allocates and frees space; the pool supplies it.

use base::Txg;
use format::block_pointer::{DVA_COUNT, Dva};

/// Which kind of device a block prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum AllocationClass {
    /// The main devices.
    #[default]
    Normal,
    /// Log devices, or the metaslabs set aside for logs.
    Log,
    /// Devices for metadata and small blocks.
    Special,
    /// The same devices, but for the quarter of them that is kept for metadata; then the main ones.
    SmallData,
    /// Devices for dedup tables.
    Dedup,
}

/// A request for space.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest {
    /// Bytes of one copy, before padding and parity.
    pub psize: u64,
    /// How many copies, 1 to 3, each on another vdev or at least another metaslab if possible.
    pub copies: usize,
    /// Where they should lie; a full class falls back to the normal one.
    pub class: AllocationClass,
    /// The txg that the space is allocated in.
    pub txg: Txg,
    /// Blocks with the same hint want to be neighbours (the object, for instance).
    pub hint: u64,
}

/// Space for a block: one address a copy, in order, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// The addresses.
    pub dvas: [Option<Dva>; DVA_COUNT],
}

impl Allocation {
    /// The addresses that there are.
    pub fn iter(&self) -> impl Iterator<Item = Dva> + use<> {
        self.dvas.into_iter().flatten()
    }
}

impl FromIterator<Dva> for Allocation {
    /// The first three addresses.
    fn from_iter<T: IntoIterator<Item = Dva>>(addresses: T) -> Self {
        let mut dvas = [None; DVA_COUNT];
        for (slot, dva) in dvas.iter_mut().zip(addresses) {
            *slot = Some(dva);
        }
        Self { dvas }
    }
}

/// Why there is no space.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AllocationError {
    /// No device has a free range of this size (smaller ones may fit).
    #[error("no free range of {psize} bytes for {copies} copies")]
    NoSpace {
        /// Bytes of one copy.
        psize: u64,
        /// Copies wanted.
        copies: usize,
    },
    /// The pool is not open for writing.
    #[error("the pool is read-only")]
    ReadOnly,
    /// A log block of an encrypted object set whose key is not loaded.
    #[error("encryption key not loaded")]
    Locked,
    /// Free space could not be looked up.
    #[error("free space cannot be read: {0}")]
    SpaceMap(String),
}

/// Hands out and takes back space. Called by many threads at once.
pub trait Allocator: Send + Sync {
    /// Space for all copies, or nothing.
    fn allocate(&self, request: &AllocationRequest) -> Result<Allocation, AllocationError>;

    /// Frees one copy: `dva.asize` bytes at `dva.offset`. For a gang header that is the
    /// header's own space; its members come on their own. By who syncs `txg`, or who holds it
    /// open: then it is freed when that txg syncs. `birth` is the txg in which the space was given: what a checkpoint
    /// needs is kept for it.
    fn free(&self, dva: &Dva, birth: Txg, txg: Txg);
}
