//! Livelists: what a clone allocated and freed since its origin, so that destroying it need not
//! walk its tree.

use std::collections::HashMap;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::{CreateZap, Tx, Zap};
use format::config::directory as keys;
use format::dsl::key;
use format::{BlockPointer, ObjectType, features};

use crate::bpobj::Bpobj;
use crate::dataset::Dataset;
use crate::deadlist::Deadlist;
use crate::directory::Directory;
use crate::error::Result;
use crate::layer::Dsl;
use crate::sizes::Sizes;

/// Entries of the newest part after which a new part is begun.
const PART_ENTRIES: u64 = 500_000;
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
        Deadlist::open(mos, id)?.destroy(tx)?;
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

/// Records what a sync of the clone's head allocated and freed, and gives the list up when the
/// clone shares too little with its origin.
pub(crate) fn record(
    head: &Arc<Dataset>,
    tx: &Tx,
    allocated: &[BlockPointer],
    freed: &[BlockPointer],
) -> Result<()> {
    let directory = head.directory();
    let Some(id) = directory.livelist()? else {
        return Ok(());
    };
    let list = Deadlist::open(&directory.dsl.mos, id)?;
    if !allocated.is_empty() || !freed.is_empty() {
        let begin_part = match list.entries()?.last_key_value() {
            None => true,
            Some((_, newest)) => {
                let part = Bpobj::open(&directory.dsl.mos, *newest)?.header()?;
                part.pointer_count.saturating_sub(part.freed_count) > PART_ENTRIES
            }
        };
        if begin_part {
            list.add_key(tx, tx.txg().previous())?;
        }
        list.insert(tx, allocated, false)?;
        list.insert(tx, freed, true)?;
    }
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

/// Frees one part of one livelist of a destroyed clone.
pub(crate) fn free_one(dsl: &Dsl, tx: &Tx) -> Result<()> {
    let mos = &dsl.mos;
    let pool = mos.directory()?;
    let Some(zap_id) = pool.lookup(keys::DELETED_CLONES.as_bytes())? else {
        return Ok(());
    };
    let zap = mos.zap(ObjectId(zap_id))?;
    let Some(entry) = zap.cursor(0).next_entry()? else {
        pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
        return mos.free(tx, ObjectId(zap_id));
    };
    let list = Deadlist::open(mos, ObjectId(entry.value))?;
    if let Some((newest, part)) = list.entries()?.pop_last() {
        free_part(dsl, tx, &list, newest, part)?;
    }
    if list.entries()?.is_empty() {
        list.destroy(tx)?;
        zap.remove(tx, &entry.name)?;
        mos.services
            .change_references(tx, &features::LIVELIST, -1)?;
        if zap.is_empty()? {
            pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
            mos.free(tx, ObjectId(zap_id))?;
        }
    }
    Ok(())
}

/// What tells one block from another: its addresses and properties, not its fill or checksum.
type BlockKey = [u64; 11];

fn block_key(pointer: &BlockPointer) -> BlockKey {
    std::array::from_fn(|index| pointer.words[index])
}

fn free_part(dsl: &Dsl, tx: &Tx, list: &Deadlist, key: Txg, part: ObjectId) -> Result<()> {
    let part = Bpobj::open(&dsl.mos, part)?;
    let mut live: HashMap<BlockKey, (i64, BlockPointer)> = HashMap::new();
    part.for_each(&mut |pointer, freed| {
        let (count, _) = live.entry(block_key(pointer)).or_insert((0, *pointer));
        *count += if freed { -1 } else { 1 };
        Ok(())
    })?;
    let mut blocks: Vec<_> = live
        .into_iter()
        .filter(|(_, (count, _))| *count > 0)
        .collect();
    blocks.sort_unstable_by_key(|(key, _)| *key);
    let store = dsl.mos.store.as_ref();
    let mut sizes = Sizes::ZERO;
    for (_, (count, pointer)) in blocks {
        for _ in 0..count {
            sizes += Sizes::of(store, &pointer);
            dsl.release(tx, &pointer)?;
        }
    }
    dsl.charge_free(tx, -sizes)?;
    list.drop_part(tx, key)
}
