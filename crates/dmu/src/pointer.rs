//! Block pointers inside blocks, and the few questions that only trees ask of them.

use base::{ByteOrder, Txg};
use format::dnode::BLOCK_POINTER_SIZE;
use format::record::{get_at, put_at};
use format::{BlockPointer, ObjectType};

/// The pointer at `index` of an indirect block in host order; a hole past its end.
pub(crate) fn get(block: &[u8], index: usize) -> BlockPointer {
    let start = index * BLOCK_POINTER_SIZE;
    match block.get(start..start + BLOCK_POINTER_SIZE) {
        Some(bytes) => get_at(bytes, 0, ByteOrder::NATIVE),
        None => BlockPointer::HOLE,
    }
}

/// Stores a pointer at `index` of an indirect block.
pub(crate) fn put(block: &mut [u8], index: usize, pointer: &BlockPointer) {
    put_at(
        block,
        index * BLOCK_POINTER_SIZE,
        pointer,
        ByteOrder::NATIVE,
    );
}

/// A hole that knows when it came to be.
pub(crate) fn hole(size: usize, object_type: ObjectType, level: u8, birth: Txg) -> BlockPointer {
    BlockPointer::hole_with_birth(size as u64, object_type, level, birth)
}

/// Whether `new` is `old` written again in place, in the txg that wrote it first.
pub(crate) fn is_rewrite(old: &BlockPointer, new: &BlockPointer) -> bool {
    let placed = |pointer: &BlockPointer| !pointer.is_hole() && !pointer.is_embedded();
    placed(old) && placed(new) && old.same_block(new)
}
