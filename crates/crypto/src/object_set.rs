//! The codes in the root block of an object set: one that holds wherever the dataset is received, one of this pool.

use base::ByteOrder;
use format::dnode::SLOT_SIZE;
use format::object_set::{ObjectSetAreas, ObjectSetPhys, SIZE_OLD, SIZE_USER};
use format::protection::PORTABLE_FLAGS;
use format::record::Place;
use subtle::ConstantTimeEq;

use crate::dnodes::authenticate;
use crate::error::BlockFault;
use crate::keys::{DatasetKeys, proven};

/// Bytes of each code.
const CODE_SIZE: usize = 32;

type SlotPlace = Place<[u8; SLOT_SIZE]>;

/// Proves a root block as it is stored.
///
/// # Errors
/// It is not what was written with these keys.
pub(crate) fn prove(keys: &DatasetKeys, order: ByteOrder, block: &[u8]) -> Result<(), BlockFault> {
    if block.len() < SIZE_OLD {
        return Err(BlockFault::Layout("an object set is cut off"));
    }
    let at = ObjectSetAreas::AT;
    let stored = at.portable_mac.get(block, order);
    let portable = portable_code(keys, order, block)?;
    proven(portable.ct_eq(&stored).into())?;
    let stored = at.local_mac.get(block, order);
    let local = local_code(keys, order, block)?;
    proven(local.ct_eq(&stored).into())
}

/// Puts the codes into a root block in host order.
///
/// # Errors
/// It is none.
pub(crate) fn seal(keys: &DatasetKeys, block: &mut [u8]) -> Result<(), BlockFault> {
    if block.len() < SIZE_OLD {
        return Err(BlockFault::Layout("an object set is cut off"));
    }
    let (at, order) = (ObjectSetAreas::AT, ByteOrder::NATIVE);
    let portable = portable_code(keys, order, block)?;
    let local = local_code(keys, order, block)?;
    at.portable_mac.put(block, &portable, order);
    at.local_mac.put(block, &local, order);
    Ok(())
}

fn portable_code(
    keys: &DatasetKeys,
    order: ByteOrder,
    block: &[u8],
) -> Result<[u8; CODE_SIZE], BlockFault> {
    let at = ObjectSetAreas::AT;
    let kind = at.kind.get(block, order);
    let flags = at.flags.get(block, order) & PORTABLE_FLAGS;
    let mut known = kind.to_be_bytes().to_vec();
    known.extend_from_slice(&flags.to_le_bytes());
    add_dnode(keys, order, block, at.meta_dnode, &mut known)?;
    code(keys, &known)
}

/// The code of what this pool counts; zeros where it does not count.
fn local_code(
    keys: &DatasetKeys,
    order: ByteOrder,
    block: &[u8],
) -> Result<[u8; CODE_SIZE], BlockFault> {
    let at = ObjectSetAreas::AT;
    let flags = at.flags.get(block, order);
    let mut known = (flags & !PORTABLE_FLAGS).to_le_bytes().to_vec();
    let is_used = |place: SlotPlace| block.get(place.offset).is_some_and(|kind| *kind != 0);
    let places: Vec<SlotPlace> = [at.user_used, at.group_used, at.project_used]
        .into_iter()
        .filter(|place| is_used(*place))
        .collect();
    let is_counted = flags & ObjectSetPhys::FLAG_USER_ACCOUNTING != 0;
    if !is_counted || places.is_empty() || block.len() < SIZE_USER {
        return Ok([0; CODE_SIZE]);
    }
    for place in places {
        add_dnode(keys, order, block, place, &mut known)?;
    }
    code(keys, &known)
}

fn add_dnode(
    keys: &DatasetKeys,
    order: ByteOrder,
    block: &[u8],
    place: SlotPlace,
    known: &mut Vec<u8>,
) -> Result<(), BlockFault> {
    let slot = block
        .get(place.offset..place.end())
        .ok_or(BlockFault::Layout("an object set is cut off"))?;
    authenticate(slot, order, keys.version(), true, known).map(|_| ())
}

fn code(keys: &DatasetKeys, known: &[u8]) -> Result<[u8; CODE_SIZE], BlockFault> {
    let whole = keys.code(&[known])?;
    let mut code = [0; CODE_SIZE];
    code.copy_from_slice(&whole[..CODE_SIZE]);
    Ok(code)
}
