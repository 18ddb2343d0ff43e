//! Redaction lists: which blocks of a snapshot others changed, for streams that leave them out.
//!
//! The head lies in the bonus of the list's object, or in its spill block if it does not fit there; the data are
//! ranges, by object and block ascending, of which none touches the next.

use base::{ByteOrder, Guid, ObjectId};

use crate::FormatError;
use crate::bits::bits;
use crate::record::{get_at, record, require};

const SECTOR_BYTES: u32 = 512;
/// Bytes of the list's blocks.
pub const BLOCK_BYTES: u32 = 128 << 10;
/// More snapshots than these need a spill block.
pub const SNAPSHOTS_IN_BONUS: usize = 36;
/// No list is by more snapshots.
pub const SNAPSHOTS_MAX: usize = 4096;

record! {
    /// The head of a redaction list; the guids of the snapshots follow.
    #[derive(Default)]
    #[doc(alias = "redaction_list_phys_t")]
    pub struct RedactionHead [32] {
        /// The object up to which the list is complete; all ones: all of it is.
        #[doc(alias = "rlp_last_object")]
        last_object: ObjectId = 0,
        /// The block in that object.
        #[doc(alias = "rlp_last_blkid")]
        last_block: u64 = 8,
        /// How many ranges there are.
        #[doc(alias = "rlp_num_entries")]
        entries: u64 = 16,
        /// How many snapshots it is by.
        #[doc(alias = "rlp_num_snaps")]
        snapshots: u64 = 24,
    }
}

record! {
    /// A range of a redaction list.
    #[derive(Default)]
    #[doc(alias = "redact_block_phys_t")]
    pub struct RedactedRange [32] {
        /// The object.
        #[doc(alias = "rbp_object")]
        object: ObjectId = 0,
        /// Its first block.
        #[doc(alias = "rbp_blkid")]
        first: u64 = 8,
        /// Count and size of the blocks: [`RangeSize`].
        #[doc(alias = "rbp_size_count")]
        size_and_count: u64 = 16,
        /// Zero.
        #[doc(alias = "rbp_padding")]
        padding: u64 = 24,
    }
}

bits! {
    /// How large a redacted range is.
    pub struct RangeSize [64] {
        /// How many blocks, less one.
        count: 48 = 0,
        /// Their size in sectors.
        sectors: 16 = 48,
    }
}

impl RedactionHead {
    /// Whether the list has all that it is to have.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.last_object.0 == u64::MAX && self.last_block == u64::MAX
    }

    /// The head with the guids behind it.
    ///
    /// # Errors
    /// It is cut off, or says that there are more snapshots than can be.
    pub fn decode_with_snapshots(bytes: &[u8]) -> Result<(Self, Vec<Guid>), FormatError> {
        require("redaction list", bytes, Self::SIZE)?;
        let head = Self::decode_padded(bytes, ByteOrder::NATIVE);
        let count = usize::try_from(head.snapshots).unwrap_or(usize::MAX);
        if count > SNAPSHOTS_MAX {
            return Err(FormatError::Invalid {
                what: "redaction list",
                field: "number of snapshots",
                value: head.snapshots,
            });
        }
        require("redaction list", bytes, Self::bytes_with(count))?;
        let guid = |index: usize| Guid(get_at(bytes, Self::SIZE + 8 * index, ByteOrder::NATIVE));
        let guids = (0..count).map(guid).collect();
        Ok((head, guids))
    }

    /// Whether a head with so many snapshots lies in a spill block, and the object has no bonus.
    #[must_use]
    pub const fn spills(snapshots: usize) -> bool {
        snapshots > SNAPSHOTS_IN_BONUS
    }

    /// Bytes of a head with so many snapshots.
    #[must_use]
    pub const fn bytes_with(snapshots: usize) -> usize {
        Self::SIZE + 8 * snapshots
    }

    /// Head and guids as bytes.
    #[must_use]
    pub fn encode_with_snapshots(&self, snapshots: &[Guid]) -> Vec<u8> {
        let mut bytes = self.to_bytes(ByteOrder::NATIVE).to_vec();
        let words = snapshots.iter().flat_map(|guid| guid.0.to_ne_bytes());
        bytes.extend(words);
        bytes
    }
}

impl RedactedRange {
    /// A range of one block or more, each of so many bytes.
    #[must_use]
    pub fn new(object: ObjectId, first: u64, count: u64, block_size: u32) -> Self {
        let at = RangeSize::AT;
        let sectors = u64::from(block_size / SECTOR_BYTES);
        Self {
            object,
            first,
            size_and_count: at
                .sectors
                .set(at.count.set(0, count.saturating_sub(1)), sectors),
            padding: 0,
        }
    }

    /// How many blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        RangeSize::AT.count.get(self.size_and_count) + 1
    }

    /// The block behind the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count())
    }

    /// Takes the next range in, if it begins where this one ends.
    pub fn join(&mut self, next: &Self) -> bool {
        let at = RangeSize::AT;
        let is_next = self.object == next.object
            && self.end() == next.first
            && at.sectors.get(self.size_and_count) == at.sectors.get(next.size_and_count)
            && self.count() + next.count() <= at.count.mask() + 1;
        if is_next {
            let count = self.count() + next.count();
            self.size_and_count = at.count.set(self.size_and_count, count - 1);
        }
        is_next
    }
}

#[cfg(test)]
mod tests;
