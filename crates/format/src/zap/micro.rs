//! The micro ZAP: one block of entries, every value one u64.

use base::ByteOrder;

use super::BLOCK_MICRO;
use crate::FormatError;
use crate::host::{put_u32, put_u64, swap_at, u32_at, u64_at};
use crate::record::{record, require};

record! {
    /// What starts a micro ZAP.
    #[doc(alias = "mzap_phys_t")]
    pub struct MicroHeader [64] {
        /// [`BLOCK_MICRO`].
        block_type: u64 = 0,
        /// Start of every hash.
        salt: u64 = 8,
        /// See [`super::NormalizationFlags`].
        normalization: u64 = 16,
    }
}

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 64;
/// The longest name that an entry holds, without its NUL.
pub const MICRO_NAME_MAX: usize = 49;
/// The largest micro ZAP without the feature `large_microzap`.
pub const SIZE_MAX: usize = 128 * 1024;
/// The largest with it.
pub const SIZE_MAX_LARGE: usize = 1 << 20;
const NAME: usize = 14;

/// An entry of a micro ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroEntry<'a> {
    /// Index of the entry in the block.
    pub slot: usize,
    /// The name, without its NUL.
    pub name: &'a [u8],
    /// The value.
    pub value: u64,
    /// The collision differentiator.
    pub differentiator: u32,
}

/// A micro ZAP's block (host order).
#[derive(Clone, Copy, Debug)]
pub struct Micro<'a> {
    bytes: &'a [u8],
}

impl<'a> Micro<'a> {
    /// Checks that the block is a micro ZAP.
    ///
    /// # Errors
    /// When the block is too short or starts otherwise.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        require("micro ZAP", bytes, ENTRY_SIZE)?;
        let found = u64_at(bytes, 0);
        if found != BLOCK_MICRO {
            return Err(FormatError::BadMagic {
                what: "micro ZAP",
                found,
            });
        }
        Ok(Self { bytes })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> MicroHeader {
        MicroHeader::decode_padded(self.bytes, ByteOrder::NATIVE)
    }

    /// How many entries there is room for.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.bytes.len() / ENTRY_SIZE - 1
    }

    /// The entry in a slot; `None` when it is free.
    #[must_use]
    pub fn entry(&self, slot: usize) -> Option<MicroEntry<'a>> {
        let start = (slot + 1).checked_mul(ENTRY_SIZE)?;
        let entry = self.bytes.get(start..start + ENTRY_SIZE)?;
        let name = entry.get(NAME..)?;
        let end = name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len());
        let name = name.get(..end).filter(|name| !name.is_empty())?;
        Some(MicroEntry {
            slot,
            name,
            value: u64_at(entry, 0),
            differentiator: u32_at(entry, 8),
        })
    }

    /// All entries, in the order of their slots, which means nothing.
    pub fn entries(&self) -> impl Iterator<Item = MicroEntry<'a>> + '_ {
        (0..self.slot_count()).filter_map(|slot| self.entry(slot))
    }
}

/// A micro ZAP's block to be changed (host order).
#[derive(Debug)]
pub struct MicroMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> MicroMut<'a> {
    /// Makes `bytes` an empty micro ZAP.
    pub fn create(bytes: &'a mut [u8], salt: u64, normalization: u64) -> Self {
        bytes.fill(0);
        let header = MicroHeader {
            block_type: BLOCK_MICRO,
            salt,
            normalization,
        };
        header.encode(bytes, ByteOrder::NATIVE);
        Self { bytes }
    }

    /// Checks that the block is a micro ZAP.
    ///
    /// # Errors
    /// As [`Micro::new`].
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, FormatError> {
        Micro::new(bytes)?;
        Ok(Self { bytes })
    }

    fn slot(&mut self, slot: usize) -> Option<&mut [u8]> {
        let start = (slot + 1).checked_mul(ENTRY_SIZE)?;
        self.bytes.get_mut(start..start + ENTRY_SIZE)
    }

    /// Stores an entry in a slot, over what was there.
    ///
    /// # Errors
    /// When there is no such slot, or the name is empty, too long or holds a NUL.
    pub fn put(&mut self, entry: &MicroEntry<'_>) -> Result<(), FormatError> {
        let name = entry.name;
        if name.is_empty() || name.len() > MICRO_NAME_MAX || name.contains(&0) {
            return Err(FormatError::Invalid {
                what: "micro ZAP",
                field: "name length",
                value: name.len() as u64,
            });
        }
        let available = (self.bytes.len() / ENTRY_SIZE).saturating_sub(1);
        let slot = self.slot(entry.slot).ok_or(FormatError::NoRoom {
            what: "micro ZAP",
            needed: entry.slot.saturating_add(1),
            available,
        })?;
        slot.fill(0);
        put_u64(slot, 0, entry.value);
        put_u32(slot, 8, entry.differentiator);
        for (to, from) in slot.iter_mut().skip(NAME).zip(name) {
            *to = *from;
        }
        Ok(())
    }

    /// Changes the value of the entry in a slot.
    pub fn set_value(&mut self, slot: usize, value: u64) {
        if let Some(slot) = self.slot(slot) {
            put_u64(slot, 0, value);
        }
    }

    /// Frees a slot.
    pub fn clear(&mut self, slot: usize) {
        if let Some(slot) = self.slot(slot) {
            slot.fill(0);
        }
    }
}

/// Swaps a micro ZAP to host order; names are bytes.
pub(super) fn swap(block: &mut [u8]) {
    for offset in [0, 8, 16] {
        swap_at(block, offset, 8);
    }
    for entry in block.chunks_exact_mut(ENTRY_SIZE).skip(1) {
        swap_at(entry, 0, 8);
        swap_at(entry, 8, 4);
    }
}
