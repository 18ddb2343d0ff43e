//! Blocks of the other byte order, brought to host order by what they hold.
//!
//! What swaps the blocks of one structure is beside its declaration; here are those that hold others: object sets hold
//! dnodes, and dnodes hold bonuses of any class.

use base::ByteOrder;

use crate::dnode::{BLOCK_POINTER_SIZE, CORE_SIZE, DnodeCore, DnodeFlags, EXTRA_SLOTS, SLOT_SIZE};
use crate::host::{swap_u16, swap_u32, swap_u64};
use crate::object_set::{ObjectSetAreas, is_used};
use crate::object_type::{ObjectType, SwapClass};
use crate::record::Plain;
use crate::{acl, zap, znode};

/// Swaps a whole block of the other byte order to host order: a level above 0 is an array of
/// block pointers, level 0 follows the type's class. Bytes past the last whole element, and blocks
/// of an invalid type, stay as they are.
pub fn block(object_type: ObjectType, level: u8, block: &mut [u8]) {
    if level > 0 {
        return swap_u64(block);
    }
    if let Some(class) = object_type.swap_class() {
        self::class(class, block);
    }
}

/// Swaps a block or bonus of a known class to host order.
pub fn class(class: SwapClass, block: &mut [u8]) {
    match class {
        SwapClass::Bytes => {}
        SwapClass::U16 => swap_u16(block),
        SwapClass::U32 => swap_u32(block),
        SwapClass::U64 => swap_u64(block),
        SwapClass::Zap => zap::swap_block(block),
        SwapClass::Dnode => dnodes(block),
        SwapClass::ObjectSet => object_set(block),
        SwapClass::Znode => znode::swap_bonus(block),
        SwapClass::OldAcl => acl::swap_old(block),
        SwapClass::Acl => acl::swap(block),
    }
}

/// Swaps a block of dnodes to host order: each core, its pointers, its bonus by its own class and
/// its spill pointer. Free slots become zeros.
fn dnodes(block: &mut [u8]) {
    let mut rest = block;
    while let Some(first) = rest.first_chunk::<SLOT_SIZE>() {
        let is_free = first[0] == 0;
        let slots = usize::from(first[EXTRA_SLOTS]) + 1;
        let wanted = if is_free {
            SLOT_SIZE
        } else {
            slots * SLOT_SIZE
        };
        let size = wanted.min(rest.len() - rest.len() % SLOT_SIZE);
        let (dnode, after) = rest.split_at_mut(size);
        if is_free {
            dnode.fill(0);
        } else {
            one_dnode(dnode);
        }
        rest = after;
    }
}

/// Swaps one dnode that fills `dnode`.
fn one_dnode(dnode: &mut [u8]) {
    DnodeCore::swap(dnode);
    let core = DnodeCore::decode_padded(dnode, ByteOrder::NATIVE);
    let pointers = usize::from(core.pointer_count).min(3);
    let has_spill = DnodeFlags::from_bits_retain(core.flags).contains(DnodeFlags::SPILL);
    let bonus_type = ObjectType(core.bonus_type);
    let bonus_len = core.bonus_len;
    let (head, bonus) =
        dnode.split_at_mut(dnode.len().min(CORE_SIZE + pointers * BLOCK_POINTER_SIZE));
    swap_u64(head.get_mut(CORE_SIZE..).unwrap_or(&mut []));
    let spill_size = if has_spill {
        bonus.len().min(BLOCK_POINTER_SIZE)
    } else {
        0
    };
    let (bonus, spill) = bonus.split_at_mut(bonus.len() - spill_size);
    if let (Some(class), true) = (bonus_type.swap_class(), bonus_len != 0) {
        self::class(class, bonus);
    }
    swap_u64(spill);
}

/// Swaps an object set to host order.
fn object_set(block: &mut [u8]) {
    let at = ObjectSetAreas::AT;
    for place in [at.meta_dnode, at.user_used, at.group_used, at.project_used] {
        if let Some(slot) = block.get_mut(place.offset..place.end())
            && is_used(slot)
        {
            one_dnode(slot);
        }
    }
    at.log_header.swap(block);
    at.kind.swap(block);
    at.flags.swap(block);
}

#[cfg(test)]
mod tests;
