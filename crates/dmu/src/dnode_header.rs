//! What a txg sees of a dnode apart from its blocks, and the bonus inside it.

use base::ByteOrder;
use format::dnode::{
    BLOCK_POINTER_SIZE, CORE_SIZE, DnodeCore, DnodeFlags, SLOT_SIZE, bonus_capacity,
};
use format::record::put_at;
use format::{DnodePhys, ObjectType};

use crate::tree::Tree;

/// Bonus bytes of an ordinary one-slot dnode: these need no memory of their own.
const INLINE: usize = 320;

/// The bonus, of the dnode's full capacity.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one")]
pub(crate) enum Bonus {
    /// Up to 320 bytes, and how many are there.
    Inline([u8; INLINE], u16),
    /// More than that.
    Heap(Box<[u8]>),
}

impl Bonus {
    pub(crate) fn zeroed(capacity: usize) -> Self {
        match u16::try_from(capacity) {
            Ok(len) if capacity <= INLINE => Self::Inline([0; INLINE], len),
            _ => Self::Heap(vec![0; capacity].into_boxed_slice()),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(bytes, len) => &bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Inline(bytes, len) => &mut bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }
}

/// A dnode's fields, its block tree apart.
#[derive(Clone)]
pub(crate) struct DnodeHeader {
    /// Whether the object exists; a freed one is kept until its txg has synced.
    pub(crate) allocated: bool,
    pub(crate) object_type: ObjectType,
    pub(crate) bonus_type: ObjectType,
    pub(crate) indirect_shift: u8,
    pub(crate) pointer_count: u8,
    pub(crate) checksum: u8,
    pub(crate) compress: u8,
    pub(crate) extra_slots: u8,
    pub(crate) block_sectors: u16,
    pub(crate) bonus_len: u16,
    pub(crate) max_block: u64,
    /// Levels that the tree is to have at least.
    pub(crate) levels_min: u8,
    pub(crate) bonus: Bonus,
}

impl DnodeHeader {
    pub(crate) fn from_phys(phys: &DnodePhys) -> Self {
        let capacity = bonus_capacity(phys.slot_count(), phys.pointer_count, false);
        let mut bonus = Bonus::zeroed(capacity);
        for (to, from) in bonus.bytes_mut().iter_mut().zip(&phys.bonus) {
            *to = *from;
        }
        Self {
            allocated: true,
            object_type: phys.object_type,
            bonus_type: phys.bonus_type,
            indirect_shift: phys.indirect_shift,
            pointer_count: phys.pointer_count,
            checksum: phys.checksum,
            compress: phys.compress,
            extra_slots: phys.extra_slots,
            block_sectors: phys.data_block_sectors,
            bonus_len: phys.bonus_len,
            max_block: phys.max_block_id,
            levels_min: 0,
            bonus,
        }
    }

    /// Data block size in bytes.
    pub(crate) fn block_size(&self) -> usize {
        usize::from(self.block_sectors) * SLOT_SIZE
    }

    pub(crate) fn slots(&self) -> usize {
        usize::from(self.extra_slots) + 1
    }

    /// The valid bonus bytes.
    pub(crate) fn bonus_bytes(&self) -> &[u8] {
        let bytes = self.bonus.bytes();
        &bytes[..usize::from(self.bonus_len).min(bytes.len())]
    }

    /// Bonus bytes that fit when there is a spill pointer (`spill`) or not.
    pub(crate) fn bonus_capacity(&self, spill: bool) -> usize {
        bonus_capacity(self.slots(), self.pointer_count, spill)
    }
}

/// What only syncing changes in a dnode, apart from the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    /// Bytes of all blocks.
    pub(crate) used_bytes: u64,
    pub(crate) flags: DnodeFlags,
    pub(crate) spill: Option<format::BlockPointer>,
}

impl Footprint {
    pub(crate) fn from_phys(phys: &DnodePhys) -> Self {
        Self {
            used_bytes: phys.used_bytes(),
            flags: phys.flags,
            spill: phys.spill,
        }
    }

    /// What a dnode says of it: bytes, or sectors of 512, as its flags tell.
    const fn stored_use(&self) -> u64 {
        if self.flags.contains(DnodeFlags::USED_BYTES) {
            self.used_bytes
        } else {
            self.used_bytes >> 9
        }
    }
}

/// A dnode in the form that the root block is made from.
pub(crate) fn to_phys(header: &DnodeHeader, tree: &Tree, footprint: &Footprint) -> DnodePhys {
    DnodePhys {
        object_type: header.object_type,
        indirect_shift: header.indirect_shift,
        levels: tree.levels,
        pointer_count: header.pointer_count,
        bonus_type: header.bonus_type,
        checksum: header.checksum,
        compress: header.compress,
        flags: footprint.flags,
        data_block_sectors: header.block_sectors,
        bonus_len: header.bonus_len,
        extra_slots: header.extra_slots,
        max_block_id: header.max_block,
        used: footprint.stored_use(),
        pointers: tree.pointers,
        spill: footprint.spill,
        bonus: header.bonus.bytes().to_vec(),
    }
}

/// Writes a dnode over its slots, which `slots` begins with.
pub(crate) fn encode(header: &DnodeHeader, tree: &Tree, footprint: &Footprint, slots: &mut [u8]) {
    let size = header.slots() * SLOT_SIZE;
    let Some(slots) = slots.get_mut(..size) else {
        return;
    };
    slots.fill(0);
    if !header.allocated {
        return;
    }
    let mut flags = footprint.flags;
    flags.set(DnodeFlags::SPILL, footprint.spill.is_some());
    let core = DnodeCore {
        object_type: header.object_type.0,
        indirect_shift: header.indirect_shift,
        levels: tree.levels,
        pointer_count: header.pointer_count,
        bonus_type: header.bonus_type.0,
        checksum: header.checksum,
        compress: header.compress,
        flags: flags.bits(),
        data_block_sectors: header.block_sectors,
        bonus_len: header.bonus_len,
        extra_slots: header.extra_slots,
        max_block_id: header.max_block,
        used: footprint.stored_use(),
    };
    core.encode(slots, ByteOrder::NATIVE);
    let count = usize::from(header.pointer_count).min(tree.pointers.len());
    for (index, pointer) in tree.pointers.iter().take(count).enumerate() {
        let at = CORE_SIZE + index * BLOCK_POINTER_SIZE;
        put_at(slots, at, pointer, ByteOrder::NATIVE);
    }
    let start = CORE_SIZE + count * BLOCK_POINTER_SIZE;
    let room = bonus_capacity(
        header.slots(),
        header.pointer_count,
        footprint.spill.is_some(),
    );
    let bonus = header.bonus.bytes();
    let len = room.min(bonus.len());
    slots[start..start + len].copy_from_slice(&bonus[..len]);
    if let Some(spill) = &footprint.spill {
        put_at(slots, size - BLOCK_POINTER_SIZE, spill, ByteOrder::NATIVE);
    }
}
