//! Livelists: what a clone allocated and freed since its origin, so that destroying it need not
//! walk its tree.

use std::collections::HashMap;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::{CreateZap, Tx, Zap};
use format::config::directory as keys;
use format::dsl::key;
use format::{BlockPointer, ObjectType, features};

use crate::bpobj::{Bpobj, unless_lost};
use crate::dataset::Dataset;
use crate::deadlist::Deadlist;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::free::slice::Slice;
use crate::layer::Dsl;
use crate::mos::Mos;
use crate::sizes::Sizes;
use crate::tunables;

/// A clone that shares no more than this of what it references has no use for a livelist.
const SHARED_PERCENT_MIN: i64 = 75;

/// Gives a new clone's directory a livelist.
pub(crate) fn create(directory: &Arc<Directory>, tx: &Tx) -> Result<()> {
    let mos = &directory.dsl.mos;
    let zap = mos.zapify(tx, &directory.object)?;
    let list = Deadlist::create(mos, tx)?;
    zap.add(tx, key::LIVELIST.as_bytes(), list.id().0)?;
    Ok(mos.services.change_references(tx, &features::LIVELIST, 1)?)
}

/// Takes the livelist off a directory, without freeing any block.
pub(crate) fn remove(directory: &Arc<Directory>, tx: &Tx) -> Result<()> {
    if let Some(id) = take(directory, tx)? {
        let mos = &directory.dsl.mos;
        unless_lost(Deadlist::open(mos, id).and_then(|list| list.destroy(tx)))?;
        mos.services
            .change_references(tx, &features::LIVELIST, -1)?;
    }
    Ok(())
}

fn take(directory: &Arc<Directory>, tx: &Tx) -> Result<Option<ObjectId>> {
    let Some(id) = directory.livelist()? else {
        return Ok(None);
    };
    let zap = directory.dsl.mos.zapify(tx, &directory.object)?;
    zap.remove(tx, key::LIVELIST.as_bytes())?;
    Ok(Some(id))
}

/// The livelist of a directory's head, if it has one.
pub(crate) fn of(directory: &Arc<Directory>) -> Result<Option<Deadlist>> {
    let list = directory.livelist()?;
    list.map(|id| Deadlist::open(&directory.dsl.mos, id))
        .transpose()
}

/// Prepares the livelist for what a sync of the clone's head will allocate and free; false when it has none.
///
/// Within a txg no part begins once something was noted: what is born and dropped in one txg is to meet in one part.
pub(crate) fn begin(directory: &Arc<Directory>, tx: &Tx, pass: u32) -> Result<bool> {
    match begin_part(directory, tx, pass) {
        // Without it, destroying the clone walks its tree.
        Err(error) if error.is_damage() => remove(directory, tx).map(|()| false),
        begun => begun,
    }
}

fn begin_part(directory: &Arc<Directory>, tx: &Tx, pass: u32) -> Result<bool> {
    let Some(list) = of(directory)? else {
        return Ok(false);
    };
    let begin_part = match list.keys()?.last() {
        None => true,
        Some((_, newest)) if pass == 1 => {
            let part = Bpobj::open(&directory.dsl.mos, newest)?.header()?;
            part.pointer_count.saturating_sub(part.freed_count) > tunables::PART_ENTRIES.get()
        }
        Some(_) => false,
    };
    if begin_part {
        list.add_key(tx, tx.txg().previous())?;
    }
    Ok(true)
}

/// Gives the livelist up when the clone shares too little with its origin.
pub(crate) fn give_up_when_useless(head: &Arc<Dataset>, tx: &Tx) -> Result<()> {
    let directory = head.directory();
    let referenced = head.phys()?.referenced_bytes.cast_signed();
    let own = directory.space()?.by_dataset.cast_signed();
    if referenced > 0 && (referenced - own).saturating_mul(100) / referenced <= SHARED_PERCENT_MIN {
        remove(&directory, tx)?;
    }
    Ok(())
}

/// Hands the livelist of a clone that is being destroyed to the background; false when it has
/// none.
pub(crate) fn delete(directory: &Arc<Directory>, tx: &Tx) -> Result<bool> {
    let Some(id) = take(directory, tx)? else {
        return Ok(false);
    };
    let mos = &directory.dsl.mos;
    let pool = mos.directory()?;
    let zap = match pool.lookup(keys::DELETED_CLONES.as_bytes())? {
        Some(zap) => mos.zap(ObjectId(zap))?,
        None => {
            let options = CreateZap {
                object_type: ObjectType::OTN_ZAP_METADATA,
                ..CreateZap::default()
            };
            let zap = Zap::create(&mos.set, tx, &options)?;
            pool.add(tx, keys::DELETED_CLONES.as_bytes(), zap.object().id().0)?;
            zap
        }
    };
    zap.add_int(tx, id.0, id.0)?;
    Ok(true)
}

/// A part of a destroyed clone's livelist that is being freed. What was freed of it is written into it, so that nothing
/// is freed twice after a restart; what is known here then is found out again.
pub(crate) struct PartInHand {
    list: ObjectId,
    key: Txg,
    /// The share of its blocks that is under way, of so many.
    share: u64,
    shares: u64,
    /// What of this share is still to be freed.
    blocks: Vec<BlockPointer>,
}

/// Frees a slice of the livelists of destroyed clones, one part after the other.
pub(crate) fn free_slice(dsl: &Dsl, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
    // An error leaves nothing in hand: what was written counts.
    let mut hand = dsl.livelist_part.lock().take();
    loop {
        let limit = slice.next();
        if limit == 0 {
            break;
        }
        let part = match hand.take() {
            Some(part) => part,
            None => match next_part(dsl, tx)? {
                Next::Part(part) => part,
                // The end of a list is something done as well.
                Next::List => {
                    slice.done(1);
                    continue;
                }
                Next::Nothing => break,
            },
        };
        let (freed, left) = free_some(dsl, tx, part, limit)?;
        slice.done(freed.max(1));
        hand = left;
    }
    *dsl.livelist_part.lock() = hand;
    Ok(())
}

/// What is to be done next.
enum Next {
    /// This part.
    Part(PartInHand),
    /// A list had no parts any more, and went.
    List,
    /// Nothing is left.
    Nothing,
}

/// The newest part of the first livelist.
fn next_part(dsl: &Dsl, tx: &Tx) -> Result<Next> {
    let mos = &dsl.mos;
    let pool = mos.directory()?;
    let Some(zap_id) = pool.lookup(keys::DELETED_CLONES.as_bytes())? else {
        return Ok(Next::Nothing);
    };
    let zap = mos.zap(ObjectId(zap_id))?;
    let Some(entry) = zap.cursor(0).next_entry()? else {
        pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
        mos.free(tx, ObjectId(zap_id))?;
        return Ok(Next::Nothing);
    };
    let list = Deadlist::open(mos, ObjectId(entry.value))?;
    if let Some((key, part)) = list.keys()?.last() {
        return Ok(Next::Part(take_in_hand(mos, &list, key, part)?));
    }
    list.destroy(tx)?;
    zap.remove(tx, &entry.name)?;
    mos.services
        .change_references(tx, &features::LIVELIST, -1)?;
    if zap.is_empty()? {
        pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
        mos.free(tx, ObjectId(zap_id))?;
    }
    Ok(Next::List)
}

/// What tells one block from another: its addresses and properties, not its fill or checksum.
type BlockKey = [u64; 11];

fn block_key(pointer: &BlockPointer) -> BlockKey {
    std::array::from_fn(|index| pointer.words[index])
}

/// Begins with a part. It is gone through once for each share of its blocks, told apart by their addresses, so that
/// memory does not follow the length of a part; what is born and dropped is in one share.
fn take_in_hand(mos: &Mos, list: &Deadlist, key: Txg, part: ObjectId) -> Result<PartInHand> {
    let part = Bpobj::open(mos, part)?;
    let mut entries = 0u64;
    part.for_each(&mut |_, _| {
        entries += 1;
        Ok(())
    })?;
    let shares = entries
        .div_ceil(tunables::LIVELIST_KEPT_ENTRIES.get())
        .max(1);
    Ok(PartInHand {
        list: list.id(),
        key,
        share: 0,
        shares,
        blocks: live_blocks(&part, 0, shares)?,
    })
}

/// Frees up to `limit` blocks of a part, and the part itself when none are left: how many went, and what is left.
fn free_some(
    dsl: &Dsl,
    tx: &Tx,
    mut hand: PartInHand,
    limit: u64,
) -> Result<(u64, Option<PartInHand>)> {
    let list = Deadlist::open(&dsl.mos, hand.list)?;
    let Some(part) = list.keys()?.get(hand.key) else {
        return Err(DslError::damaged(list.id(), "a part of it went away"));
    };
    let part = Bpobj::open(&dsl.mos, part)?;
    let left = usize::try_from(limit).map_or(0, |limit| hand.blocks.len().saturating_sub(limit));
    let going = hand.blocks.split_off(left);
    let store = dsl.mos.store.as_ref();
    let mut sizes = Sizes::ZERO;
    for pointer in &going {
        sizes += Sizes::of(store, pointer);
        dsl.release(tx, pointer)?;
    }
    dsl.charge_free(tx, -sizes)?;
    if hand.blocks.is_empty() {
        hand.share += 1;
        if hand.share == hand.shares {
            list.drop_part(tx, hand.key)?;
            return Ok((going.len() as u64, None));
        }
    }
    match list.append_freed(tx, &part, &going) {
        // Else the same would be freed again: the rest of the part leaks.
        Err(error) if error.is_damage() => {
            list.drop_part(tx, hand.key)?;
            return Ok((going.len() as u64, None));
        }
        noted => noted?,
    }
    if hand.blocks.is_empty() {
        hand.blocks = live_blocks(&part, hand.share, hand.shares)?;
    }
    Ok((going.len() as u64, Some(hand)))
}

/// Which of so many shares a block belongs to.
fn share_of(key: &BlockKey, shares: u64) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = key.iter().fold(0u64, |mixed, word| {
        (mixed ^ word).wrapping_mul(SPREAD).rotate_left(29)
    });
    mixed % shares
}

/// What of a share of a part's blocks is in use, each block as often as it is. The first to be freed is the last.
fn live_blocks(part: &Bpobj, share: u64, shares: u64) -> Result<Vec<BlockPointer>> {
    let mut live: HashMap<BlockKey, (i64, BlockPointer)> = HashMap::new();
    part.for_each(&mut |pointer, freed| {
        let key = block_key(pointer);
        if share_of(&key, shares) == share {
            let (count, _) = live.entry(key).or_insert((0, *pointer));
            *count += if freed { -1 } else { 1 };
        }
        Ok(())
    })?;
    let mut blocks = Vec::with_capacity(live.len());
    for (count, pointer) in live.into_values() {
        blocks.extend((0..count).map(|_| pointer));
    }
    blocks.sort_unstable_by_key(|pointer| std::cmp::Reverse(block_key(pointer)));
    Ok(blocks)
}
