//! Where a listing stands: entries come in ascending (hash, differentiator) in every form of ZAP.

use crate::bits::low_u32;

/// A position between entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Hash of the next entry, or of one after it.
    pub hash: u64,
    /// Its collision differentiator at least.
    pub differentiator: u32,
}

impl Cursor {
    /// Before the first entry.
    pub const START: Self = Self {
        hash: 0,
        differentiator: 0,
    };
    /// The serialised form of "no more entries".
    pub const END: u64 = u64::MAX;

    /// The position just after an entry.
    #[must_use]
    pub const fn after(hash: u64, differentiator: u32) -> Self {
        match differentiator.checked_add(1) {
            Some(differentiator) => Self {
                hash,
                differentiator,
            },
            None => Self {
                hash: hash.saturating_add(1),
                differentiator: 0,
            },
        }
    }

    /// One u64 that stands for the position in a ZAP whose hashes have `bits` bits.
    #[must_use]
    pub const fn serialize(self, bits: u32) -> u64 {
        (self.hash >> (64 - bits)) | ((self.differentiator as u64) << bits)
    }

    /// The position that a u64 stands for; `None` at the end.
    #[must_use]
    pub const fn deserialize(position: u64, bits: u32) -> Option<Self> {
        if position == Self::END {
            return None;
        }
        let differentiator = low_u32(position >> bits);
        Some(Self {
            hash: position << (64 - bits),
            differentiator,
        })
    }
}
