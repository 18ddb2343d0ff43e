//! Lists of block pointers.

use base::ObjectId;

use crate::block_pointer::{BlockPointer, BlockPointerAreas};
use crate::record::record;
use crate::version;

record! {
    /// The bonus of a bpobj; older pools have only its head.
    #[doc(alias = "bpobj_phys_t")]
    pub struct BpobjPhys [56] {
        #[doc(alias = "bpo_num_blkptrs")]
        /// Own block pointers; what lies behind them is garbage.
        pointer_count: u64 = 0,
        #[doc(alias = "bpo_bytes")]
        /// Allocated bytes, sub-objects included.
        bytes: u64 = 8,
        #[doc(alias = "bpo_comp")]
        /// Physical bytes.
        compressed: u64 = 16,
        #[doc(alias = "bpo_uncomp")]
        /// Logical bytes.
        uncompressed: u64 = 24,
        #[doc(alias = "bpo_subobjs")]
        /// The object that holds the numbers of the sub-objects; 0 until used.
        subobjects: ObjectId = 32,
        #[doc(alias = "bpo_num_subobjs")]
        /// Sub-objects.
        subobject_count: u64 = 40,
        #[doc(alias = "bpo_num_freed")]
        /// Own entries that are marked as frees.
        freed_count: u64 = 48,
    }
}

impl BpobjPhys {
    /// The bonus of pool versions before 3.
    pub const SIZE_V0: usize = 16;
    /// The bonus of pool version 3: with compressed and uncompressed sizes.
    pub const SIZE_V1: usize = 32;
    /// The bonus of pool version 26: with sub-objects.
    pub const SIZE_V2: usize = 48;
    /// The block size of a bpobj and its sub-object array.
    pub const BLOCK_SIZE: u32 = 128 * 1024;

    /// The size of a new bonus in a pool of a version, before livelists are in use.
    #[must_use]
    pub const fn size_in(version: u64) -> usize {
        if version < version::COMPRESSED_TOTALS {
            Self::SIZE_V0
        } else if version < version::DEADLISTS {
            Self::SIZE_V1
        } else {
            Self::SIZE_V2
        }
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pointer_count == 0 && self.subobject_count == 0
    }
}

/// Word of a block pointer with properties, birth, fill and the first of the checksum.
const WORD_PROPERTIES: usize = BlockPointerAreas::AT.properties.offset / 8;
const WORD_BIRTH: usize = BlockPointerAreas::AT.logical_birth.offset / 8;
const WORD_FILL: usize = BlockPointerAreas::AT.fill.offset / 8;
const WORD_CHECKSUM: usize = BlockPointerAreas::AT.checksum.offset / 8;

/// What a bpobj stores of a block pointer: no fill count, no checksum unless dedup needs it, and
/// of an embedded one only properties and birth. `freed` marks a free entry of a livelist.
#[must_use]
pub fn stored_pointer(pointer: &BlockPointer, freed: bool) -> BlockPointer {
    let mut words = pointer.words;
    if pointer.is_embedded() {
        words = [0; 16];
        words[WORD_PROPERTIES] = pointer.words[WORD_PROPERTIES];
        words[WORD_BIRTH] = pointer.words[WORD_BIRTH];
    } else if !pointer.is_dedup() {
        for word in words.iter_mut().skip(WORD_CHECKSUM) {
            *word = 0;
        }
    }
    words[WORD_FILL] = 0;
    let mut stored = BlockPointer { words };
    set_freed(&mut stored, freed);
    stored
}

/// Whether a stored block pointer is a free entry of a livelist.
#[must_use]
pub fn is_freed(stored: &BlockPointer) -> bool {
    !stored.is_embedded() && stored.words[WORD_FILL] & 1 == 1
}

fn set_freed(stored: &mut BlockPointer, freed: bool) {
    if !stored.is_embedded() {
        stored.words[WORD_FILL] = u64::from(freed);
    }
}

#[cfg(test)]
mod tests;
