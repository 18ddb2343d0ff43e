//! Blocks of intent logs: what claims them without keys can do so, and nothing else is plain.

use base::ByteOrder;
use format::intent_log::{ChainElement, CloneRangeFields, RecordHeader, WriteFields, kind};

use crate::error::BlockFault;
use crate::parts::Parts;

/// What is authenticated of a block's chain structure: all but magic and checksum.
const CHAIN_BYTES: usize = 144;
/// Up to here a record of a write, or of a clone, says which bytes of which file; then its pointers follow.
const POINTERS_AT: usize = WriteFields::AT.pointer.offset;

/// The parts of a block of which `used` bytes are filled.
///
/// # Errors
/// Its records are cut off.
pub(crate) fn parts(block: &[u8], used: usize, order: ByteOrder) -> Result<Parts, BlockFault> {
    const _: () = assert!(POINTERS_AT == CloneRangeFields::AT.pointer_count.offset);
    let cut = || BlockFault::Layout("a log record is cut off");
    let mut parts = Parts {
        known: block.get(..CHAIN_BYTES).ok_or_else(cut)?.to_vec(),
        sealed: Vec::new(),
    };
    let mut start = ChainElement::SIZE;
    while start < used {
        let rest = block.get(start..used).ok_or_else(cut)?;
        let header = RecordHeader::decode(rest, order).map_err(|_| cut())?;
        let length = usize::try_from(header.length).map_err(|_| cut())?;
        let record = rest.get(..length).ok_or_else(cut)?;
        let number = header.kind & !kind::CASE_INSENSITIVE;
        // Where the plain part is behind the header.
        let plain = match number {
            kind::WRITE => POINTERS_AT..WriteFields::SIZE,
            kind::CLONE_RANGE => POINTERS_AT..length,
            _ => length..length,
        };
        if length < RecordHeader::SIZE || length < plain.end || plain.start > plain.end {
            return Err(cut());
        }
        parts.known.extend_from_slice(&record[..RecordHeader::SIZE]);
        parts.known.extend_from_slice(&record[plain.clone()]);
        for sealed in [RecordHeader::SIZE..plain.start, plain.end..length] {
            if !sealed.is_empty() {
                parts.sealed.push(start + sealed.start..start + sealed.end);
            }
        }
        start += length;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
