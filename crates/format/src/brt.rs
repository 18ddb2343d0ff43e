//! The block reference tables: how often blocks that files share (`copy_file_range`) are referenced.
//!
//! Each top-level vdev with such blocks has an object, named in the MOS directory, whose data are the numbers of
//! entries by region of the vdev (u16 in the byte order of its header), and a ZAP with an entry a shared block: from
//! the offset of its first address (one word) to the number of references beyond the first.

use base::ByteOrder;

use crate::record::record;
use crate::zap::Value;

/// Bytes of a region.
pub const REGION_BYTES: u64 = 16 << 20;
/// Block size of the object with the numbers of entries.
pub const COUNTS_BLOCK_SIZE: u32 = 32 << 10;
/// Block size of the ZAP of entries, and (as a shift) of its indirect blocks.
pub const ENTRIES_BLOCK_SHIFT: u8 = 12;

record! {
    /// The bonus of the object with the numbers of entries.
    #[doc(alias = "brt_vdev_phys_t")]
    pub struct BlockReferencePhys [56] {
        /// The ZAP of entries.
        #[doc(alias = "bvp_mos_entries")]
        entries: u64 = 0,
        /// How many regions there are.
        #[doc(alias = "bvp_size")]
        regions: u64 = 8,
        /// Byte order of the numbers: 0 little, 1 big.
        #[doc(alias = "bvp_byteorder")]
        byte_order: u64 = 16,
        /// Entries in all.
        #[doc(alias = "bvp_totalcount")]
        count: u64 = 24,
        /// Bytes of a region.
        #[doc(alias = "bvp_rangesize")]
        region_bytes: u64 = 32,
        /// Bytes that shared blocks take, each counted once.
        #[doc(alias = "bvp_usedspace")]
        used: u64 = 40,
        /// Bytes that they would take besides if they were not shared.
        #[doc(alias = "bvp_savedspace")]
        saved: u64 = 48,
    }
}

/// A byte order as the header states it.
#[must_use]
pub const fn order_code(order: ByteOrder) -> u64 {
    match order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
    }
}

/// How the entries of a table state their counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountForm {
    /// Eight bytes, a word in the order of the machine that wrote it.
    Bytes,
    /// One word, as in any ZAP (feature `block_cloning_endian`).
    Word,
}

impl CountForm {
    /// That of values of so many integers of that size, if it is one.
    #[must_use]
    pub const fn of(integer_size: u8, count: u64) -> Option<Self> {
        match (integer_size, count) {
            (1, 8) => Some(Self::Bytes),
            (8, 1) => Some(Self::Word),
            _ => None,
        }
    }

    /// The value of an entry.
    #[must_use]
    pub fn value(self, count: u64) -> Value {
        match self {
            Self::Bytes => Value::bytes(&count.to_ne_bytes()),
            Self::Word => Value::word(count),
        }
    }
}

/// The count in an entry's value, of either form; none where it has another one.
#[must_use]
pub fn entry_count(value: &Value) -> Option<u64> {
    match CountForm::of(value.integer_size(), value.count() as u64)? {
        CountForm::Bytes => {
            let bytes = <[u8; 8]>::try_from(value.stored());
            bytes.ok().map(u64::from_ne_bytes)
        }
        CountForm::Word => value.as_word(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_eight_bytes_or_a_word() {
        for (form, shape) in [(CountForm::Bytes, (1, 8)), (CountForm::Word, (8, 1))] {
            let value = form.value(0x0102_0304);
            assert_eq!((value.integer_size(), value.count()), shape);
            assert_eq!(CountForm::of(shape.0, shape.1 as u64), Some(form));
            assert_eq!(entry_count(&value), Some(0x0102_0304));
        }
        assert_eq!(entry_count(&Value::words(&[1, 2])), None);
        assert_eq!(entry_count(&Value::shorts(&[1, 0, 0, 0])), None);
        assert_eq!(entry_count(&Value::bytes(b"short")), None);
    }
}
