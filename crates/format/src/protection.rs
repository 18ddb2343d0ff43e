//! What is encrypted of the blocks of encrypted datasets, and what is authenticated. Which cipher does it is no
//! business of this crate.
//!
//! | block | encrypted | authenticated |
//! |---|---|---|
//! | files, directories, attributes | all | |
//! | dnodes | bonuses, by their type ([`DnodeParts`]) | cores ([`authenticated_core`]), pointers, other bonuses |
//! | intent logs | records, but for what is beside | chain ([`LOG_CHAIN`]), headers, pointers ([`plain_in_record`]) |
//! | indirect | | pointers |
//! | root of an object set, portable | | kind, [`PORTABLE_FLAGS`], the dnode of its dnodes |
//! | root of an object set, local | | all other flags, the dnodes of the accounting |
//!
//! A pointer is authenticated by its properties ([`pointer_properties`]) and the code of its block, not by addresses,
//! births, fill count and checksum.

use std::ops::Range;

use base::ByteOrder;

use crate::block_pointer::{BlockPointer, BlockPointerAreas, BlockProperties};
use crate::dnode::{
    BLOCK_POINTER_SIZE, CORE_SIZE, DnodeCore, DnodeFlags, SLOT_SIZE, bonus_capacity,
};
use crate::intent_log::{ChainElement, CloneRangeFields, RecordHeader, WriteFields, kind};
use crate::object_type::ObjectType;

/// Flags of an object set that are part of its portable code: none.
pub const PORTABLE_FLAGS: u64 = 0;

/// What is authenticated of a log block's chain structure: all but magic and checksum.
pub const LOG_CHAIN: Range<usize> = 0..ChainElement::AT.magic.offset;

/// Up to here a record of a write, or of a clone, says which bytes of which file; then its pointers follow.
const POINTERS_AT: usize = WriteFields::AT.pointer.offset;
const _: () = assert!(POINTERS_AT == CloneRangeFields::AT.pointer_count.offset);

/// The word of a pointer that has its properties.
const PROPERTIES: usize = BlockPointerAreas::AT.properties.offset / size_of::<u64>();

/// What is plain behind the header of a log record of `length` bytes: the pointers, which a claim without keys needs.
/// All else behind the header is encrypted.
#[must_use]
pub const fn plain_in_record(kind: u64, length: usize) -> Range<usize> {
    match kind & !kind::CASE_INSENSITIVE {
        kind::WRITE => POINTERS_AT..WriteFields::SIZE,
        kind::CLONE_RANGE => POINTERS_AT..length,
        _ => length..length,
    }
}

/// What is authenticated, plain, of each log record.
pub const LOG_RECORD_HEADER: Range<usize> = 0..RecordHeader::SIZE;

/// Takes from the core of a dnode what is not authenticated: what differs where the same content is stored.
pub fn authenticated_core(core: &mut [u8; CORE_SIZE]) {
    let (at, order) = (DnodeCore::AT, ByteOrder::NATIVE);
    let flags = at.flags.get(core, order) & DnodeFlags::SPILL.bits();
    at.flags.put(core, &flags, order);
    at.used.put(core, &0, order);
}

/// Where in a dnode what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnodeParts {
    /// The block pointers: authenticated.
    pub pointers: Range<usize>,
    /// The spill block's pointer, if there is one: authenticated.
    pub spill: Option<Range<usize>>,
    /// The bonus, with what nobody uses of its room.
    pub bonus: Range<usize>,
    /// Whether the bonus is encrypted; else it is authenticated.
    pub is_bonus_encrypted: bool,
}

impl DnodeParts {
    /// Those of a dnode of `len` bytes, whole slots; none if its pointers have no room in them.
    #[must_use]
    pub fn of(core: &DnodeCore, len: usize) -> Option<Self> {
        let has_spill = DnodeFlags::from_bits_retain(core.flags).contains(DnodeFlags::SPILL);
        let pointers_end = CORE_SIZE + usize::from(core.pointer_count) * BLOCK_POINTER_SIZE;
        let room_end = len.checked_sub(if has_spill { BLOCK_POINTER_SIZE } else { 0 })?;
        if pointers_end > room_end {
            return None;
        }
        let capacity = bonus_capacity(len / SLOT_SIZE, core.pointer_count, has_spill);
        Some(Self {
            pointers: CORE_SIZE..pointers_end,
            spill: has_spill.then_some(room_end..len),
            bonus: pointers_end..pointers_end + capacity,
            is_bonus_encrypted: core.object_type != ObjectType::NONE.0
                && core.bonus_len != 0
                && ObjectType(core.bonus_type).is_encrypted(),
        })
    }
}

/// The properties of a pointer that are authenticated: without those that a rewrite of the same content may change.
/// `version` is that of the dataset's keys; 0 is from before the format was settled.
#[must_use]
pub fn pointer_properties(pointer: &BlockPointer, version: u64) -> u64 {
    let at = BlockProperties::AT;
    let always = &[at.dedup, at.checksum][..];
    let more = match (version, pointer.level()) {
        (0, _) => &[at.physical_size][..],
        (_, 0) => &[],
        (_, _) => &[at.physical_size, at.little_endian, at.compression],
    };
    let word = pointer.words[PROPERTIES];
    always
        .iter()
        .chain(more)
        .fold(word, |word, field| field.set(word, 0))
}

#[cfg(test)]
mod tests;
