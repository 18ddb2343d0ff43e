//! Blocks that a head knows by the places to which they were moved when a device was removed, while older snapshots
//! know them by the places on that device.
//!
//! OpenZFS rewrites such pointers as it goes, and lists in the dataset (`remap_deadlist`, by birth as a deadlist) the
//! old places that snapshots still need. When the last snapshot that has one goes, the old place is obsolete: it enters
//! a list of the pool's, from which the mapping of the removed device is shortened. Here no pointers are rewritten, but
//! the lists are kept as datasets come and go.

use std::sync::Arc;

use base::Txg;
use dmu::Tx;
use format::bpobj::BpobjPhys;
use format::config::directory;
use format::dsl::DatasetPhys;
use format::features::OBSOLETE_COUNTS;

use crate::bpobj::{Bpobj, NamedList};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::task::TaskContext;

/// A snapshot of a head was taken: it is now the snapshot whose blocks these are.
pub(super) fn pass_on(tx: &Tx, head: &Dataset, snapshot: &Dataset) -> Result<()> {
    if let Some(list) = head.remapped()? {
        head.set_remapped(tx, None)?;
        snapshot.set_remapped(tx, Some(list.id()))?;
    }
    Ok(())
}

/// A snapshot goes: what its successor knows by other places, and no older snapshot has, nobody needs any more; for the
/// rest the successor has the list now.
pub(super) fn merge(
    context: &TaskContext<'_>,
    snapshot: &Dataset,
    next: &Arc<Dataset>,
    phys: &DatasetPhys,
) -> Result<()> {
    let tx = context.tx;
    let theirs = next.remapped()?;
    if let Some(list) = &theirs {
        let target = obsolete_list(context)?;
        list.move_to(tx, phys.previous_snapshot_txg, &target)?;
    }
    let Some(own) = snapshot.remapped()? else {
        return Ok(());
    };
    snapshot.set_remapped(tx, None)?;
    match theirs {
        Some(list) if list.keys()?.below(Txg(u64::MAX)).is_some() => list.merge(tx, own.id()),
        Some(empty) => {
            next.set_remapped(tx, Some(own.id()))?;
            empty.destroy(tx)
        }
        None => next.set_remapped(tx, Some(own.id())),
    }
}

/// The snapshot of this txg is gone: what was listed since is now listed with what is older.
pub(super) fn remove_key(tx: &Tx, dataset: &Dataset, key: Txg) -> Result<()> {
    match dataset.remapped()? {
        Some(list) => list.remove_key(tx, key),
        None => Ok(()),
    }
}

/// A head goes: what its snapshots have they have under the old places.
pub(super) fn destroy(tx: &Tx, head: &Dataset) -> Result<()> {
    let Some(list) = head.remapped()? else {
        return Ok(());
    };
    head.set_remapped(tx, None)?;
    list.destroy(tx)
}

/// Two heads exchange their contents.
pub(super) fn exchange(tx: &Tx, one: &Dataset, other: &Dataset) -> Result<()> {
    let lists = (one.remapped()?, other.remapped()?);
    if lists.0.is_none() && lists.1.is_none() {
        return Ok(());
    }
    one.set_remapped(tx, lists.1.map(|list| list.id()))?;
    other.set_remapped(tx, lists.0.map(|list| list.id()))
}

/// The pool's list of places that are to be noted as obsolete, made if there is none.
fn obsolete_list(context: &TaskContext<'_>) -> Result<NamedList> {
    const BLOCK_SIZE: u32 = BpobjPhys::BLOCK_SIZE;
    let (mos, tx) = (&context.dsl.mos, context.tx);
    let list = NamedList::new(mos, directory::OBSOLETE_BPOBJ);
    if !list.exists()? {
        let new = Bpobj::create(mos, tx, BLOCK_SIZE)?.id();
        let key = directory::OBSOLETE_BPOBJ.as_bytes();
        mos.directory()?.add(tx, key, new.0)?;
        let services = context.dsl.services();
        services.change_references(tx, &OBSOLETE_COUNTS, 1)?;
    }
    Ok(list)
}
