//! The ZAP: a table from names to values, as one small block or as a header, a pointer table and
//! leaves.
//!
//! - [`micro`]: one block of 64-byte entries, every value one u64.
//! - [`fat`]: the header block and its pointer table; [`leaf`]: the blocks with the entries.
//! - [`hash`]: where a name belongs; [`normalize`]: which names are one; [`cursor`]: where a listing
//!   stands, the same in both forms.
//!
//! Blocks are in host order: [`swap_block`] ran when they were read. Integers inside leaf arrays
//! are big-endian in every pool. Nothing here trusts a length, a chunk number or a link.

pub mod cursor;
pub mod fat;
pub mod hash;
pub mod leaf;
pub mod micro;
pub mod normalize;
mod value;

pub use cursor::Cursor;
pub use fat::FatHeader;
pub use hash::{HashKind, hash_name, hash_words};
pub use leaf::{Key, Leaf, LeafMut};
pub use micro::{Micro, MicroEntry, MicroMut};
pub use normalize::{NormalizationFlags, normalize};
pub use value::Value;

use crate::host::{swap_u64, u64_at};

/// First word of a micro ZAP.
pub const BLOCK_MICRO: u64 = 0x8000_0000_0000_0003;
/// First word of a fat ZAP's header.
pub const BLOCK_HEADER: u64 = 0x8000_0000_0000_0001;
/// First word of a leaf.
pub const BLOCK_LEAF: u64 = 0x8000_0000_0000_0000;
/// The longest name, without its NUL.
pub const NAME_MAX: usize = 255;
/// The longest name in a directory of a dataset with long names, without its NUL.
pub const NAME_LONG_MAX: usize = 1023;
/// The most bytes of one value.
pub const VALUE_MAX: usize = 8192;

/// What a block of a ZAP object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The one block of a micro ZAP.
    Micro,
    /// Block 0 of a fat ZAP.
    Header,
    /// A leaf of a fat ZAP.
    Leaf,
    /// A block of an external pointer table, or nothing that we know.
    Other,
}

/// What a host-order block of a ZAP object says it is.
#[must_use]
pub fn block_kind(block: &[u8]) -> BlockKind {
    match u64_at(block, 0) {
        BLOCK_MICRO => BlockKind::Micro,
        BLOCK_HEADER => BlockKind::Header,
        BLOCK_LEAF => BlockKind::Leaf,
        _ => BlockKind::Other,
    }
}

/// Swaps a block of a ZAP to host order.
pub fn swap_block(block: &mut [u8]) {
    match u64_at(block, 0).swap_bytes() {
        BLOCK_MICRO => micro::swap(block),
        BLOCK_LEAF => leaf::swap(block),
        _ => swap_u64(block),
    }
}

#[cfg(test)]
mod tests;
