//! The fat ZAP's header block and the arithmetic of its pointer table.

use base::ByteOrder;

use super::BLOCK_HEADER;
use crate::FormatError;
use crate::host::{put_u64, u64_at};
use crate::record::{record, require};

record! {
    /// Block 0 of a fat ZAP. The upper half of the block is the embedded pointer table.
    #[doc(alias = "zap_phys_t")]
    pub struct FatHeader [104] {
        /// [`BLOCK_HEADER`].
        block_type: u64 = 0,
        /// [`FatHeader::MAGIC`].
        magic: u64 = 8,
        /// First block of the external pointer table; 0 = the table is embedded.
        table_block: u64 = 16,
        /// Blocks of the external pointer table; 0 = the table is embedded.
        table_block_count: u64 = 24,
        /// Log2 of the table's entries.
        table_shift: u64 = 32,
        /// First block of the table that replaces this one, while it grows.
        table_next_block: u64 = 40,
        /// Blocks of the old table that are copied already.
        table_blocks_copied: u64 = 48,
        /// The next block never used.
        free_block: u64 = 56,
        /// Number of leaves.
        leaf_count: u64 = 64,
        /// Number of entries.
        entry_count: u64 = 72,
        /// Start of every hash.
        salt: u64 = 80,
        /// See [`super::NormalizationFlags`].
        normalization: u64 = 88,
        /// See the `FLAG_` constants.
        flags: u64 = 96,
    }
}

/// Log2 of the default block size.
pub const BLOCK_SHIFT_DEFAULT: u32 = 14;

impl FatHeader {
    /// The magic number.
    pub const MAGIC: u64 = 0x2_F52A_B2AB;
    /// 48 bits of the hash count, not 28.
    pub const FLAG_HASH_48: u64 = 1;
    /// Keys are arrays of u64.
    pub const FLAG_WORD_KEYS: u64 = 2;
    /// The first word of a key is its hash.
    pub const FLAG_HASHED_KEYS: u64 = 4;

    /// The header of a new fat ZAP with one empty leaf in block 1 and an embedded table.
    #[must_use]
    pub fn new(block_shift: u32, salt: u64, normalization: u64, flags: u64) -> Self {
        Self {
            block_type: BLOCK_HEADER,
            magic: Self::MAGIC,
            table_block: 0,
            table_block_count: 0,
            table_shift: u64::from(embedded_shift(block_shift)),
            table_next_block: 0,
            table_blocks_copied: 0,
            free_block: 2,
            leaf_count: 1,
            entry_count: 0,
            salt,
            normalization,
            flags,
        }
    }

    /// Decodes and checks block 0 (host order).
    ///
    /// # Errors
    /// A wrong magic, or a table that cannot be.
    pub fn read(block: &[u8]) -> Result<Self, FormatError> {
        require("ZAP header", block, Self::SIZE)?;
        let header = Self::decode_padded(block, ByteOrder::NATIVE);
        if header.block_type != BLOCK_HEADER || header.magic != Self::MAGIC {
            return Err(FormatError::BadMagic {
                what: "ZAP header",
                found: header.magic,
            });
        }
        let shift = block.len().trailing_zeros();
        let invalid = |field, value| FormatError::Invalid {
            what: "ZAP header",
            field,
            value,
        };
        if !block.len().is_power_of_two() || !(9..=24).contains(&shift) {
            return Err(invalid("block size", block.len() as u64));
        }
        let expected = if header.table_block_count == 0 {
            Some(u64::from(embedded_shift(shift)))
        } else {
            header
                .table_block_count
                .is_power_of_two()
                .then(|| u64::from(shift - 3 + header.table_block_count.trailing_zeros()))
        };
        if expected != Some(header.table_shift) || header.table_shift > 48 {
            return Err(invalid("pointer table shift", header.table_shift));
        }
        if header.flags & !7 != 0 {
            return Err(invalid("flags", header.flags));
        }
        Ok(header)
    }

    /// Writes the header; the embedded table in `block` stays.
    pub fn write(&self, block: &mut [u8]) {
        self.encode(block, ByteOrder::NATIVE);
    }

    /// Whether the pointer table is in the header block.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.table_block_count == 0
    }

    /// The index in the pointer table of a hash.
    #[must_use]
    pub fn table_index(&self, hash: u64) -> u64 {
        top_bits(hash, u32::try_from(self.table_shift).unwrap_or(0))
    }
}

/// The top `bits` bits of a hash.
#[must_use]
pub const fn top_bits(hash: u64, bits: u32) -> u64 {
    if bits == 0 { 0 } else { hash >> (64 - bits) }
}

/// Log2 of the entries of the embedded table in a header of 2^`block_shift` bytes.
#[must_use]
pub const fn embedded_shift(block_shift: u32) -> u32 {
    block_shift.saturating_sub(4)
}

/// Reads an entry of the embedded table; 0 when there is no such entry.
#[must_use]
pub fn embedded_entry(block: &[u8], index: u64) -> u64 {
    embedded_offset(block, index).map_or(0, |offset| u64_at(block, offset))
}

/// Writes an entry of the embedded table.
pub fn set_embedded_entry(block: &mut [u8], index: u64, leaf_block: u64) {
    if let Some(offset) = embedded_offset(block, index) {
        put_u64(block, offset, leaf_block);
    }
}

fn embedded_offset(block: &[u8], index: u64) -> Option<usize> {
    let offset = usize::try_from(index)
        .ok()?
        .checked_mul(8)?
        .checked_add(block.len() / 2)?;
    (offset + 8 <= block.len()).then_some(offset)
}

/// Reads entry `index` of a block of an external table; 0 when there is no such entry.
#[must_use]
pub fn external_entry(block: &[u8], index: usize) -> u64 {
    index
        .checked_mul(8)
        .map_or(0, |offset| u64_at(block, offset))
}

/// Writes entry `index` of a block of an external table.
pub fn set_external_entry(block: &mut [u8], index: usize, leaf_block: u64) {
    if let Some(offset) = index.checked_mul(8) {
        put_u64(block, offset, leaf_block);
    }
}
