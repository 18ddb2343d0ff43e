//! Livelists: what a clone allocated and freed since its origin, so that destroying it need not
//! walk its tree.

use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::config::directory as keys;
use format::dsl::key;
use format::{ObjectType, features};

use crate::bpobj::{Bpobj, unless_lost};
use crate::dataset::Dataset;
use crate::deadlist::Deadlist;
use crate::directory::Directory;
use crate::error::Result;
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
            let zap = mos.new_zap(tx, ObjectType::OTN_ZAP_METADATA, 0)?;
            pool.add(tx, keys::DELETED_CLONES.as_bytes(), zap.object().id().0)?;
            zap
        }
    };
    zap.add_int(tx, id.0, id.0)?;
    Ok(true)
}
