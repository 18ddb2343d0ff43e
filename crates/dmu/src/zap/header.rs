//! The header of a fat ZAP, and what its blocks are called in errors.

use base::Bookmark;
use format::FormatError;
use format::zap::FatHeader;
use sys::Buffer;

use crate::error::{DmuError, Result};
use crate::object::Object;

pub(super) fn place(object: &Object, block: u64) -> Bookmark {
    Bookmark::new(object.object_set(), object.id(), 0, block)
}

pub(super) fn malformed(object: &Object, block: u64, error: &FormatError) -> DmuError {
    DmuError::corrupt(place(object, block), error.to_string())
}

/// The header, and the block that it is in.
pub(super) fn header(object: &Object) -> Result<(FatHeader, Buffer)> {
    let block = object.read_block(0)?;
    let header = FatHeader::read(&block).map_err(|error| malformed(object, 0, &error))?;
    if !has_bounds(&header) {
        return Err(DmuError::corrupt(
            place(object, 0),
            "the pointer table lies outside the ZAP",
        ));
    }
    Ok((header, block))
}

/// Whether the tables lie among the blocks in use, and the numbers are small enough to add up.
fn has_bounds(header: &FatHeader) -> bool {
    const BLOCKS_MAX: u64 = 1 << 40;
    let inside = |first: u64, count: u64| {
        first
            .checked_add(count)
            .is_some_and(|end| end <= header.free_block)
    };
    header.free_block <= BLOCKS_MAX
        && header.table_block_count <= BLOCKS_MAX
        && header.table_blocks_copied <= header.table_block_count
        && inside(header.table_block, header.table_block_count)
        && (header.table_next_block == 0
            || inside(header.table_next_block, header.table_block_count * 2))
}
