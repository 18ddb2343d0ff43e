//! What the blocks of an object set hold, for those who walk them without opening it: scans, sends, and frees of trees
//! whose dataset is gone. Blocks are in host order, as [`crate::BlockStore`] gives them.

use base::ByteOrder;
use format::block_pointer::{self, BlockPointer};
use format::dnode::SLOT_SIZE;
use format::record::get_at;
use format::{DnodePhys, FormatError, ObjectSetPhys};

/// The root block of an object set.
///
/// # Errors
/// It is none.
pub fn root(block: &[u8]) -> Result<ObjectSetPhys, FormatError> {
    ObjectSetPhys::decode(block)
}

/// The dnode that begins in a slot of a block of dnodes.
///
/// # Errors
/// None does.
pub fn dnode(block: &[u8], slot: usize) -> Result<DnodePhys, FormatError> {
    DnodePhys::decode(block.get(slot * SLOT_SIZE..).unwrap_or_default())
}

/// The pointers in an indirect block, in their order, as they stand: what makes no sense is an error of who follows it.
pub fn entries(block: &[u8]) -> impl Iterator<Item = BlockPointer> {
    let all = block.chunks_exact(block_pointer::SIZE);
    all.map(|bytes| get_at(bytes, 0, ByteOrder::NATIVE))
}

/// One of them; none behind the end of the block.
#[must_use]
pub fn entry(block: &[u8], index: usize) -> Option<BlockPointer> {
    let at = index.checked_mul(block_pointer::SIZE)?;
    let bytes = block.get(at..at.checked_add(block_pointer::SIZE)?)?;
    Some(get_at(bytes, 0, ByteOrder::NATIVE))
}

/// The pointers in an indirect block, in their order; nothing for one that makes no sense.
pub fn pointers(block: &[u8]) -> impl Iterator<Item = Option<BlockPointer>> {
    let all = block.chunks_exact(block_pointer::SIZE);
    all.map(|bytes| BlockPointer::decode(bytes, ByteOrder::NATIVE).ok())
}
