//! The dnode: what an object is, where its blocks hang, and its bonus bytes.
//!
//! ```text
//! slot 0      64             64+128n                          end-128     end (slots × 512)
//! | core 64 B | n ≤ 3 BPs    | bonus …                        | spill BP? |
//! ```
//! Everything here is in host order: [`crate::swap`] ran when the block was read.
//! Bonus bytes past `bonus_len` belong to nobody but are kept as they are.

use base::ByteOrder;
use bitflags::bitflags;

use crate::FormatError;
use crate::block_pointer::BlockPointer;
use crate::host::store;
use crate::object_type::ObjectType;
use crate::record::{get_at, head_mut, put_at, record, require};

/// Bytes of a slot.
pub const SLOT_SIZE: usize = 512;
/// Bytes of a block of dnodes.
pub const BLOCK_SIZE: usize = 16 * 1024;
/// Slots in a block of dnodes, and so the most that a dnode may have.
pub const SLOTS_PER_BLOCK: usize = BLOCK_SIZE / SLOT_SIZE;
/// The same, as a count of slots is stored.
const SLOTS_MAX: u8 = 32;
const _: () = assert!(SLOTS_MAX as usize == SLOTS_PER_BLOCK);
/// Bytes before the first block pointer.
pub const CORE_SIZE: usize = DnodeCore::SIZE;
/// Bytes of a block pointer.
pub const BLOCK_POINTER_SIZE: usize = 128;
/// Log2 of the smallest and the largest indirect block.
pub const INDIRECT_SHIFTS: std::ops::RangeInclusive<u8> = 12..=17;
/// The most levels of a block tree.
pub const LEVELS_MAX: u8 = 12;
/// The largest data block, in 512-byte sectors.
pub const SECTORS_MAX: u16 = 32768;
/// Bytes of a sector.
const SECTOR_SIZE: u32 = 512;

record! {
    /// The first 64 bytes of a dnode. Its block pointers follow, then the bonus, and at the end of its last slot the
    /// spill block's pointer when there is one.
    #[doc(alias = "dnode_phys_t")]
    pub struct DnodeCore [64] {
        #[doc(alias = "dn_type")]
        /// What the object is; 0 = a free slot.
        object_type: u8 = 0,
        #[doc(alias = "dn_indblkshift")]
        /// Log2 of the indirect block size.
        indirect_shift: u8 = 1,
        #[doc(alias = "dn_nlevels")]
        /// Height of the block tree; 1 = the pointers point at data.
        levels: u8 = 2,
        #[doc(alias = "dn_nblkptr")]
        /// Number of block pointers, 1 to 3.
        pointer_count: u8 = 3,
        #[doc(alias = "dn_bonustype")]
        /// What the bonus holds.
        bonus_type: u8 = 4,
        #[doc(alias = "dn_checksum")]
        /// Checksum override for level-0 data; 0 = inherit.
        checksum: u8 = 5,
        #[doc(alias = "dn_compress")]
        /// Compression override for level-0 data; 0 = inherit.
        compress: u8 = 6,
        #[doc(alias = "dn_flags")]
        /// See [`DnodeFlags`].
        flags: u8 = 7,
        #[doc(alias = "dn_datablkszsec")]
        /// Data block size in 512-byte sectors.
        data_block_sectors: u16 = 8,
        #[doc(alias = "dn_bonuslen")]
        /// Valid bonus bytes.
        bonus_len: u16 = 10,
        #[doc(alias = "dn_extra_slots")]
        /// Slots after the first.
        extra_slots: u8 = 12,
        #[doc(alias = "dn_maxblkid")]
        /// The highest block id.
        max_block_id: u64 = 16,
        #[doc(alias = "dn_used")]
        /// Space of all blocks: bytes, or sectors when [`DnodeFlags::USED_BYTES`] is clear.
        used: u64 = 24,
    }
}

bitflags! {
    /// The flags byte of a dnode. Those without a name stay as they are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct DnodeFlags: u8 {
        /// `used` counts bytes.
        const USED_BYTES = 1;
        /// Charged to its user and group.
        const USER_ACCOUNTED = 2;
        /// A spill block pointer ends the dnode.
        const SPILL = 4;
        /// Counted in its user's objects.
        const USER_OBJECT_ACCOUNTED = 8;
        const _ = !0;
    }
}

/// An allocated dnode, decoded.
#[doc(alias = "dnode_phys_t")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnodePhys {
    /// What the object is.
    pub object_type: ObjectType,
    /// Log2 of the indirect block size.
    pub indirect_shift: u8,
    /// Height of the block tree; 1 = the pointers point at data.
    pub levels: u8,
    /// Number of valid entries in `pointers`, 1 to 3.
    pub pointer_count: u8,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Checksum override for level-0 data; 0 = inherit.
    pub checksum: u8,
    /// Compression override for level-0 data; 0 = inherit.
    pub compress: u8,
    /// See [`DnodeFlags`]; [`DnodeFlags::SPILL`] follows `spill` when encoding.
    pub flags: DnodeFlags,
    /// Data block size in 512-byte sectors.
    pub data_block_sectors: u16,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Slots after the first.
    pub extra_slots: u8,
    /// The highest block id.
    pub max_block_id: u64,
    /// Space of all blocks: bytes, or sectors when [`DnodeFlags::USED_BYTES`] is clear.
    pub used: u64,
    /// The block pointers; those past `pointer_count` are [`BlockPointer::HOLE`].
    pub pointers: [BlockPointer; 3],
    /// The spill block's pointer, when there is one.
    pub spill: Option<BlockPointer>,
    /// Bonus bytes, of the full capacity (host order but for lazily swapped attributes).
    pub bonus: Vec<u8>,
}

const WHAT: &str = "dnode";
pub(crate) const EXTRA_SLOTS: usize = DnodeCore::AT.extra_slots.offset;

fn check(ok: bool, field: &'static str, value: u64) -> Result<(), FormatError> {
    if ok {
        Ok(())
    } else {
        Err(FormatError::Invalid {
            what: WHAT,
            field,
            value,
        })
    }
}

/// Bonus bytes that fit a dnode of `slots` slots with `pointers` block pointers.
#[must_use]
pub const fn bonus_capacity(slots: usize, pointers: u8, spill: bool) -> usize {
    let taken = CORE_SIZE + BLOCK_POINTER_SIZE * (pointers as usize + spill as usize);
    (slots * SLOT_SIZE).saturating_sub(taken)
}

/// How many block pointers a new dnode gets: all that its bonus leaves room for, one for files.
#[must_use]
pub fn pointer_count_for(slots: usize, bonus_type: ObjectType, bonus_len: usize) -> u8 {
    if bonus_type == ObjectType::SYSTEM_ATTRIBUTES {
        return 1;
    }
    let left = bonus_capacity(slots, 1, false).saturating_sub(bonus_len);
    match left / BLOCK_POINTER_SIZE {
        0 => 1,
        1 => 2,
        _ => 3,
    }
}

impl DnodePhys {
    /// A new object without blocks. The shift is clamped to what a dnode may have, the block size
    /// is rounded up to sectors (0 = one sector).
    #[must_use]
    pub fn new(
        object_type: ObjectType,
        block_size: u32,
        indirect_shift: u8,
        bonus_type: ObjectType,
        bonus_len: u16,
        slots: u8,
    ) -> Self {
        let extra_slots = slots.clamp(1, SLOTS_MAX) - 1;
        let slots = usize::from(extra_slots) + 1;
        let pointer_count = pointer_count_for(slots, bonus_type, usize::from(bonus_len));
        let capacity = bonus_capacity(slots, pointer_count, false);
        let sectors = u16::try_from(block_size.div_ceil(SECTOR_SIZE)).unwrap_or(SECTORS_MAX);
        Self {
            object_type,
            indirect_shift: indirect_shift.clamp(*INDIRECT_SHIFTS.start(), *INDIRECT_SHIFTS.end()),
            levels: 1,
            pointer_count,
            bonus_type,
            checksum: 0,
            compress: 0,
            flags: DnodeFlags::default(),
            data_block_sectors: sectors.clamp(1, SECTORS_MAX),
            bonus_len: u16::try_from(capacity)
                .map_or(bonus_len, |capacity| bonus_len.min(capacity)),
            extra_slots,
            max_block_id: 0,
            used: 0,
            pointers: [BlockPointer::HOLE; 3],
            spill: None,
            bonus: vec![0; capacity],
        }
    }

    /// Decodes the dnode that starts `bytes` (host order), which may go on past it.
    ///
    /// # Errors
    /// A field that no writer stores, or fewer bytes than the dnode has slots for. A free slot is
    /// an error as well: see [`slots`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        require(WHAT, bytes, SLOT_SIZE)?;
        let core = DnodeCore::decode(bytes, ByteOrder::NATIVE)?;
        let object_type = ObjectType(core.object_type);
        check_core(&core)?;
        let slots = usize::from(core.extra_slots) + 1;
        let size = slots * SLOT_SIZE;
        require(WHAT, bytes, size)?;
        let flags = DnodeFlags::from_bits_retain(core.flags);
        let has_spill = flags.contains(DnodeFlags::SPILL);
        let capacity = bonus_capacity(slots, core.pointer_count, has_spill);
        check(
            usize::from(core.bonus_len) <= capacity,
            "bonus length",
            core.bonus_len.into(),
        )?;
        let mut pointers = [BlockPointer::HOLE; 3];
        for (index, pointer) in pointers
            .iter_mut()
            .take(core.pointer_count.into())
            .enumerate()
        {
            *pointer = get_at(
                bytes,
                CORE_SIZE + index * BLOCK_POINTER_SIZE,
                ByteOrder::NATIVE,
            );
        }
        let start = CORE_SIZE + usize::from(core.pointer_count) * BLOCK_POINTER_SIZE;
        let spill = has_spill.then(|| get_at(bytes, size - BLOCK_POINTER_SIZE, ByteOrder::NATIVE));
        Ok(Self {
            object_type,
            indirect_shift: core.indirect_shift,
            levels: core.levels,
            pointer_count: core.pointer_count,
            bonus_type: ObjectType(core.bonus_type),
            checksum: core.checksum,
            compress: core.compress,
            flags,
            data_block_sectors: core.data_block_sectors,
            bonus_len: core.bonus_len,
            extra_slots: core.extra_slots,
            max_block_id: core.max_block_id,
            used: core.used,
            pointers,
            spill,
            bonus: bytes.get(start..start + capacity).unwrap_or(&[]).to_vec(),
        })
    }

    /// Writes the dnode over its slots (host order).
    ///
    /// # Errors
    /// When `bytes` is shorter than the dnode's slots.
    pub fn encode(&self, bytes: &mut [u8]) -> Result<(), FormatError> {
        let size = self.size();
        let bytes = head_mut(WHAT, bytes, size)?;
        bytes.fill(0);
        let mut flags = self.flags;
        flags.set(DnodeFlags::SPILL, self.spill.is_some());
        let core = DnodeCore {
            object_type: self.object_type.0,
            indirect_shift: self.indirect_shift,
            levels: self.levels,
            pointer_count: self.pointer_count,
            bonus_type: self.bonus_type.0,
            checksum: self.checksum,
            compress: self.compress,
            flags: flags.bits(),
            data_block_sectors: self.data_block_sectors,
            bonus_len: self.bonus_len,
            extra_slots: self.extra_slots,
            max_block_id: self.max_block_id,
            used: self.used,
        };
        core.encode(bytes, ByteOrder::NATIVE);
        let count = usize::from(self.pointer_count).min(self.pointers.len());
        for (index, pointer) in self.pointers.iter().take(count).enumerate() {
            put_at(
                bytes,
                CORE_SIZE + index * BLOCK_POINTER_SIZE,
                pointer,
                ByteOrder::NATIVE,
            );
        }
        let start = CORE_SIZE + count * BLOCK_POINTER_SIZE;
        let length = self.bonus.len().min(self.bonus_capacity());
        if let Some(bonus) = self.bonus.get(..length) {
            store(bytes.get_mut(start..).unwrap_or_default(), bonus);
        }
        if let Some(spill) = &self.spill {
            put_at(bytes, size - BLOCK_POINTER_SIZE, spill, ByteOrder::NATIVE);
        }
        Ok(())
    }

    /// Slots that the dnode occupies.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        usize::from(self.extra_slots) + 1
    }

    /// Bytes that the dnode occupies.
    #[must_use]
    pub fn size(&self) -> usize {
        self.slot_count() * SLOT_SIZE
    }

    /// Data block size in bytes.
    #[must_use]
    pub fn data_block_size(&self) -> u32 {
        u32::from(self.data_block_sectors) * SECTOR_SIZE
    }

    /// Log2 of the block pointers in an indirect block.
    #[must_use]
    pub fn entries_shift(&self) -> u32 {
        u32::from(self.indirect_shift) - BLOCK_POINTER_SIZE.trailing_zeros()
    }

    /// Bonus bytes that there is room for, given pointers and spill.
    #[must_use]
    pub fn bonus_capacity(&self) -> usize {
        bonus_capacity(self.slot_count(), self.pointer_count, self.spill.is_some())
    }

    /// The valid bonus bytes.
    #[must_use]
    pub fn bonus_bytes(&self) -> &[u8] {
        self.bonus
            .get(..usize::from(self.bonus_len))
            .unwrap_or(&self.bonus)
    }

    /// Space of all blocks, in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        if self.flags.contains(DnodeFlags::USED_BYTES) {
            self.used
        } else {
            self.used.saturating_mul(SLOT_SIZE as u64)
        }
    }
}

fn check_core(core: &DnodeCore) -> Result<(), FormatError> {
    let object_type = ObjectType(core.object_type);
    let shift = core.indirect_shift;
    check(
        object_type != ObjectType::NONE && object_type.is_valid(),
        "type",
        core.object_type.into(),
    )?;
    check(
        INDIRECT_SHIFTS.contains(&shift),
        "indirect block shift",
        shift.into(),
    )?;
    check(
        (1..=LEVELS_MAX).contains(&core.levels),
        "level count",
        core.levels.into(),
    )?;
    check(
        (1..=3).contains(&core.pointer_count),
        "pointer count",
        core.pointer_count.into(),
    )?;
    check(
        ObjectType(core.bonus_type).is_valid(),
        "bonus type",
        core.bonus_type.into(),
    )?;
    check(
        (1..=SECTORS_MAX).contains(&core.data_block_sectors),
        "data block size",
        core.data_block_sectors.into(),
    )?;
    check(
        usize::from(core.extra_slots) < SLOTS_PER_BLOCK,
        "extra slots",
        core.extra_slots.into(),
    )
}

/// The first slot of a dnode, or a free one, in a block of dnodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing here.
    Free,
    /// A dnode of this many slots starts here.
    Allocated {
        /// Slots, this one included.
        slots: usize,
    },
}

/// Walks the slots of a block of dnodes, skipping the interior ones: (slot index, what it is).
/// A dnode that claims more slots than the block has is cut at the block's end.
pub fn slots(block: &[u8]) -> impl Iterator<Item = (usize, Slot)> + '_ {
    let count = block.len() / SLOT_SIZE;
    let mut index = 0;
    std::iter::from_fn(move || {
        if index >= count {
            return None;
        }
        let here = index;
        let slot = block.get(here * SLOT_SIZE..)?;
        if slot.first() == Some(&0) {
            index += 1;
            return Some((here, Slot::Free));
        }
        let slots = (usize::from(*slot.get(EXTRA_SLOTS)?) + 1).min(count - here);
        index += slots;
        Some((here, Slot::Allocated { slots }))
    })
}

#[cfg(test)]
mod tests;
