//! Bookmarks: what stays of a snapshot's identity. Values of a ZAP, 3 or 12 words.

use base::{ByteOrder, Guid, ObjectId, Txg};

use crate::FormatError;
use crate::record::{Plain, record};

record! {
    /// A bookmark: the words of a ZAP value.
    #[derive(Default)]
    #[doc(alias = "zfs_bookmark_phys_t")]
    pub struct BookmarkPhys [96] {
        /// Of the snapshot.
        guid: Guid = 0,
        /// Of the snapshot.
        creation_txg: Txg = 8,
        /// Of the snapshot; seconds since 1970.
        creation_time: u64 = 16,
        /// Redaction list; 0 = none.
        redaction: ObjectId = 24,
        /// See the `FLAG_` constants.
        flags: u64 = 32,
        /// Allocated bytes of the snapshot.
        referenced_bytes: u64 = 40,
        /// Physical bytes of the snapshot.
        compressed_bytes: u64 = 48,
        /// Logical bytes of the snapshot.
        uncompressed_bytes: u64 = 56,
        /// Allocated bytes freed before the next snapshot.
        freed_before_next: u64 = 64,
        /// Physical bytes freed before the next snapshot.
        compressed_freed_before_next: u64 = 72,
        /// Logical bytes freed before the next snapshot.
        uncompressed_freed_before_next: u64 = 80,
        /// Identity of the snapshot's IVs; 0 = none.
        ivset_guid: u64 = 88,
    }
}

impl BookmarkPhys {
    /// The sizes and what was freed before the next snapshot are valid.
    pub const FLAG_FREED_VALID: u64 = 1;
    /// The snapshot still exists.
    pub const FLAG_SNAPSHOT_EXISTS: u64 = 2;
    /// Words of the first form.
    pub const WORDS_V1: usize = 3;
    /// Words of the second form.
    pub const WORDS_V2: usize = Self::SIZE / 8;

    /// Whether what was freed before the next snapshot is kept.
    #[must_use]
    pub fn counts_freed(&self) -> bool {
        self.flags & Self::FLAG_FREED_VALID != 0
    }

    /// Whether only the second form can hold it.
    #[must_use]
    pub fn needs_v2(&self) -> bool {
        self.ivset_guid != 0 || self.counts_freed() || self.redaction.0 != 0
    }

    /// From the words of a ZAP value; missing ones are zero.
    ///
    /// # Errors
    /// When there are fewer words than the first form has.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        if words.len() < Self::WORDS_V1 {
            return Err(FormatError::Truncated {
                what: "bookmark",
                needed: Self::WORDS_V1 * 8,
                available: words.len() * 8,
            });
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Self::decode_padded(&bytes, ByteOrder::NATIVE))
    }

    /// All words; the first three are the first form.
    #[must_use]
    pub fn to_words(&self) -> [u64; Self::WORDS_V2] {
        Plain::get(&self.to_bytes(ByteOrder::NATIVE), ByteOrder::NATIVE)
    }
}

#[cfg(test)]
mod tests;
