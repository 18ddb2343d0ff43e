//! Blocks that lie in their pointers.

use codec::Compression;
use format::stream::WriteEmbeddedRecord;

use crate::{PAYLOAD_MAX, StreamError};

/// Bytes of a pointer's contents, at most.
const EMBEDDED_MAX: u32 = 112;
/// Kinds of embedded contents.
const EMBEDDED_KINDS: u8 = 3;

/// Where OpenZFS says that a spill block of this size is written that is embedded in its pointer: at the offset of the
/// block with the number of spill blocks.
#[must_use]
pub const fn spill_offset(size: u64) -> u64 {
    const SPILL_BLOCK: u64 = u64::MAX - 1;
    SPILL_BLOCK.wrapping_mul(size)
}

/// What a block has that lies in its pointer.
///
/// # Errors
/// It has no valid size, or cannot be decompressed.
pub fn embedded_contents(
    record: &WriteEmbeddedRecord,
    payload: &[u8],
) -> Result<Vec<u8>, StreamError> {
    let invalid = || StreamError::Misplaced("an embedded block of no valid size");
    let size = u64::from(record.logical_size);
    let is_valid = record.physical_size <= EMBEDDED_MAX
        && record.embedded_kind < EMBEDDED_KINDS
        && (1..=PAYLOAD_MAX).contains(&size)
        && record.offset.checked_add(size).is_some();
    let stored = usize::try_from(record.physical_size)
        .ok()
        .and_then(|stored| payload.get(..stored))
        .filter(|_| is_valid)
        .ok_or_else(invalid)?;
    let size = usize::try_from(size).map_err(|_| invalid())?;
    if record.compression == 0 {
        return (stored.len() == size)
            .then(|| stored.to_vec())
            .ok_or_else(invalid);
    }
    let kind = Compression::from_id(record.compression).map_err(|_| invalid())?;
    let mut data = vec![0; size];
    codec::decompress(kind, stored, &mut data).map_err(|_| invalid())?;
    Ok(data)
}
