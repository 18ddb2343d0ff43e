//! Bookmarks: what stays of a snapshot's identity. Values of a ZAP, 3 or 12 words.

use base::{Guid, ObjectId, Txg};

use crate::FormatError;

/// A bookmark.
#[doc(alias = "zfs_bookmark_phys_t")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BookmarkPhys {
    /// Of the snapshot.
    pub guid: Guid,
    /// Of the snapshot.
    pub creation_txg: Txg,
    /// Of the snapshot; seconds since 1970.
    pub creation_time: u64,
    /// Redaction list; 0 = none.
    pub redaction: ObjectId,
    /// See the `FLAG_` constants.
    pub flags: u64,
    /// Allocated bytes of the snapshot.
    pub referenced_bytes: u64,
    /// Physical bytes of the snapshot.
    pub compressed_bytes: u64,
    /// Logical bytes of the snapshot.
    pub uncompressed_bytes: u64,
    /// Allocated bytes freed before the next snapshot.
    pub freed_before_next: u64,
    /// Physical bytes freed before the next snapshot.
    pub compressed_freed_before_next: u64,
    /// Logical bytes freed before the next snapshot.
    pub uncompressed_freed_before_next: u64,
    /// Identity of the snapshot's IVs; 0 = none.
    pub ivset_guid: u64,
}

impl BookmarkPhys {
    /// The sizes and what was freed before the next snapshot are valid.
    pub const FLAG_FREED_VALID: u64 = 1;
    /// The snapshot still exists.
    pub const FLAG_SNAPSHOT_EXISTS: u64 = 2;
    /// Words of the first form.
    pub const WORDS_V1: usize = 3;
    /// Words of the second form.
    pub const WORDS_V2: usize = 12;

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
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        Ok(Self {
            guid: Guid(word(0)),
            creation_txg: Txg(word(1)),
            creation_time: word(2),
            redaction: ObjectId(word(3)),
            flags: word(4),
            referenced_bytes: word(5),
            compressed_bytes: word(6),
            uncompressed_bytes: word(7),
            freed_before_next: word(8),
            compressed_freed_before_next: word(9),
            uncompressed_freed_before_next: word(10),
            ivset_guid: word(11),
        })
    }

    /// All words; the first three are the first form.
    #[must_use]
    pub fn to_words(&self) -> [u64; Self::WORDS_V2] {
        [
            self.guid.0,
            self.creation_txg.0,
            self.creation_time,
            self.redaction.0,
            self.flags,
            self.referenced_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
            self.freed_before_next,
            self.compressed_freed_before_next,
            self.uncompressed_freed_before_next,
            self.ivset_guid,
        ]
    }
}

#[cfg(test)]
mod tests;
