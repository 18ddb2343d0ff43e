//! Removed top-level vdevs: where what they held lies now.
//!
//! A vdev that was removed stays in the configuration as `indirect`. Its mapping object lists the ranges that were in
//! use, ascending, each with the place on another vdev that it was copied to; a second object says in which txg what up
//! to some offset was copied.

use base::ByteOrder;

use crate::block_pointer::{Dva, SECTOR_SHIFT};
use crate::record::record;

record! {
    /// The bonus of a mapping object: 24 bytes, or 32 with numbers of what is not used any more.
    #[doc(alias = "vdev_indirect_mapping_phys_t")]
    pub struct MappingPhys [32] {
        /// Nothing at or behind this offset of the removed vdev is mapped yet.
        #[doc(alias = "vimp_max_offset")]
        max_offset: u64 = 0,
        /// Bytes that all entries together map.
        #[doc(alias = "vimp_bytes_mapped")]
        mapped: u64 = 8,
        /// How many entries there are.
        #[doc(alias = "vimp_num_entries")]
        entries: u64 = 16,
        /// The object with a number (u32) for each entry: bytes of it that nothing refers to any more.
        #[doc(alias = "vimp_counts_object")]
        counts: u64 = 24,
    }
}

impl MappingPhys {
    /// Bytes of the bonus without the numbers.
    pub const SIZE_PLAIN: usize = 24;
}

record! {
    /// An entry of a mapping.
    #[doc(alias = "vdev_indirect_mapping_entry_phys_t")]
    pub struct MappingEntryPhys [24] {
        /// Where it begins on the removed vdev, in units of 512 bytes; the top bit means nothing on disk.
        #[doc(alias = "vimep_src")]
        source: u64 = 0,
        /// Where it lies now, as the address of a block; the length is that of the entry.
        #[doc(alias = "vimep_dst")]
        destination: [u64; 2] = 8,
    }
}

/// The bit of an entry's source that is set in memory only.
const SOURCE_MARK: u64 = 1 << 63;

/// A range of a removed vdev, and where it lies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// Where it begins on the removed vdev, bytes.
    pub source: u64,
    /// Where it lies now, and how long it is.
    pub destination: Dva,
}

impl MappingEntry {
    /// Reads an entry; none if it is empty, or begins past all vdevs.
    #[must_use]
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let phys = MappingEntryPhys::decode_padded(bytes, order);
        let sectors = phys.source & !SOURCE_MARK;
        let source = sectors.checked_mul(1 << SECTOR_SHIFT)?;
        Some(Self {
            source,
            destination: Dva::from_words(phys.destination)?,
        })
    }

    /// Writes an entry.
    pub fn encode(&self, bytes: &mut [u8], order: ByteOrder) {
        let phys = MappingEntryPhys {
            source: self.source >> SECTOR_SHIFT,
            destination: self.destination.to_words(),
        };
        phys.encode(bytes, order);
    }
}

record! {
    /// The bonus of the object that says when what was copied.
    #[doc(alias = "vdev_indirect_birth_phys_t")]
    pub struct BirthsPhys [8] {
        /// How many entries there are.
        #[doc(alias = "vib_count")]
        entries: u64 = 0,
    }
}

record! {
    /// When what was copied.
    #[doc(alias = "vdev_indirect_birth_entry_phys_t")]
    pub struct BirthEntryPhys [16] {
        /// What lies before this offset of the removed vdev, and not before that of the entry before.
        #[doc(alias = "vibe_offset")]
        end: u64 = 0,
        /// The txg in which it was copied.
        #[doc(alias = "vibe_phys_birth_txg")]
        birth: u64 = 8,
    }
}

/// How a removal stands, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Removing {
    /// One of the numbers of [`removal_state`].
    pub state: u64,
    /// The vdev that is, or was the last to be, removed.
    pub vdev: u64,
    /// The vdev that was removed last of all whose removal has ended: where the chain of mappings begins.
    pub last: u64,
    /// When it began: seconds since 1970.
    pub started_s: u64,
    /// When it ended.
    pub ended_s: u64,
    /// Bytes to be copied in all.
    pub to_copy: u64,
    /// Bytes copied.
    pub copied: u64,
}

/// States of a removal.
pub mod removal_state {
    /// There never was one.
    pub const NONE: u64 = 0;
    /// It is under way.
    pub const ACTIVE: u64 = 1;
    /// It has ended.
    pub const FINISHED: u64 = 2;
    /// It was given up.
    pub const CANCELLED: u64 = 3;
}

/// What stands for no vdev.
pub const NO_VDEV: u64 = u64::MAX;

impl Removing {
    /// From the words of the directory's entry; none if there are too few.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let &[state, vdev, last, started_s, ended_s, to_copy, copied] = words else {
            return None;
        };
        Some(Self {
            state,
            vdev,
            last,
            started_s,
            ended_s,
            to_copy,
            copied,
        })
    }

    /// The words of the directory's entry.
    #[must_use]
    pub const fn to_words(&self) -> [u64; 7] {
        [
            self.state,
            self.vdev,
            self.last,
            self.started_s,
            self.ended_s,
            self.to_copy,
            self.copied,
        ]
    }
}

/// A mapping that is being shortened, as stored.
#[doc(alias = "spa_condensing_indirect_phys_t")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condensing {
    /// The removed vdev that it is of.
    pub vdev: u64,
    /// The map of what of it is obsolete that is being applied.
    pub map: u64,
    /// The mapping that is to take its place, as far as it goes.
    pub next: u64,
}

impl Condensing {
    /// From the words of the directory's entry; none if there are others than three.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let &[vdev, map, next] = words else {
            return None;
        };
        Some(Self { vdev, map, next })
    }

    /// The words of the directory's entry.
    #[must_use]
    pub const fn to_words(&self) -> [u64; 3] {
        [self.vdev, self.map, self.next]
    }
}
