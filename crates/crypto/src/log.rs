//! Blocks of intent logs: what claims them without keys can do so, and nothing else is plain.

use base::ByteOrder;
use format::intent_log::{ChainElement, RecordHeader};
use format::protection::{LOG_CHAIN, LOG_RECORD_HEADER, plain_in_record};

use crate::error::BlockFault;
use crate::parts::Parts;

/// The parts of a block of which `used` bytes are filled.
///
/// # Errors
/// Its records are cut off.
pub(crate) fn parts(block: &[u8], used: usize, order: ByteOrder) -> Result<Parts, BlockFault> {
    let cut = || BlockFault::Layout("a log record is cut off");
    let mut parts = Parts {
        known: block.get(LOG_CHAIN).ok_or_else(cut)?.to_vec(),
        sealed: Vec::new(),
    };
    let mut start = ChainElement::SIZE;
    while start < used {
        let rest = block.get(start..used).ok_or_else(cut)?;
        let header = RecordHeader::decode(rest, order).map_err(|_| cut())?;
        let length = usize::try_from(header.length).map_err(|_| cut())?;
        let record = rest.get(..length).ok_or_else(cut)?;
        let plain = plain_in_record(header.kind, length);
        if length < RecordHeader::SIZE || length < plain.end || plain.start > plain.end {
            return Err(cut());
        }
        parts.known.extend_from_slice(&record[LOG_RECORD_HEADER]);
        parts.known.extend_from_slice(&record[plain.clone()]);
        for sealed in [LOG_RECORD_HEADER.end..plain.start, plain.end..length] {
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
