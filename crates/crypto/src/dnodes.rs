//! Blocks of dnodes: bonuses are encrypted where their type says so, all else is authenticated.

use std::ops::Range;

use base::ByteOrder;
use format::block_pointer::BlockPointer;
use format::dnode::{BLOCK_POINTER_SIZE, CORE_SIZE, DnodeCore, SLOT_SIZE};
use format::protection::{DnodeParts, authenticated_core};
use format::record::{Plain, get_at};

use crate::error::BlockFault;
use crate::parts::Parts;
use crate::tree::put_record;

/// The parts of a block as it is stored, in the byte order of who wrote it.
///
/// # Errors
/// It is no block of dnodes.
pub(crate) fn parts(block: &[u8], order: ByteOrder, version: u64) -> Result<Parts, BlockFault> {
    if !block.len().is_multiple_of(SLOT_SIZE) {
        return Err(BlockFault::Layout("dnodes are cut off"));
    }
    let mut parts = Parts {
        known: Vec::with_capacity(block.len()),
        sealed: Vec::new(),
    };
    let mut start = 0;
    while let Some(slot) = block
        .get(start..)
        .and_then(<[u8]>::first_chunk::<SLOT_SIZE>)
    {
        let extra = DnodeCore::AT.extra_slots.offset;
        let size = (usize::from(slot[extra]) + 1) * SLOT_SIZE;
        let dnode = block
            .get(start..start + size)
            .ok_or(BlockFault::Layout("a dnode goes on past its block"))?;
        if let Some(bonus) = authenticate(dnode, order, version, false, &mut parts.known)? {
            parts.sealed.push(start + bonus.start..start + bonus.end);
        }
        start += size;
    }
    Ok(parts)
}

/// Adds what is authenticated of a dnode; answers where its bonus is if that is encrypted. `portable`: the core is
/// taken in little-endian order, and bonuses are left out.
pub(crate) fn authenticate(
    dnode: &[u8],
    order: ByteOrder,
    version: u64,
    portable: bool,
    known: &mut Vec<u8>,
) -> Result<Option<Range<usize>>, BlockFault> {
    let cut = || BlockFault::Layout("a dnode is cut off");
    let decoded = DnodeCore::decode(dnode, order).map_err(|_| cut())?;
    let mut core = [0; CORE_SIZE];
    core.copy_from_slice(dnode.get(..CORE_SIZE).ok_or_else(cut)?);
    if portable && order == ByteOrder::Big {
        DnodeCore::swap(&mut core);
    }
    authenticated_core(&mut core);
    known.extend_from_slice(&core);

    let parts = DnodeParts::of(&decoded, dnode.len())
        .ok_or(BlockFault::Layout("a dnode has more pointers than room"))?;
    let mut add = |at: usize| {
        let pointer: BlockPointer = get_at(dnode, at, order);
        put_record(&pointer, version, known);
    };
    parts
        .pointers
        .step_by(BLOCK_POINTER_SIZE)
        .for_each(&mut add);
    if let Some(spill) = parts.spill {
        add(spill.start);
    }
    if portable {
        return Ok(None);
    }
    if parts.is_bonus_encrypted {
        return Ok(Some(parts.bonus));
    }
    known.extend_from_slice(dnode.get(parts.bonus).ok_or_else(cut)?);
    Ok(None)
}

#[cfg(test)]
pub(crate) mod tests;
