//! Rolling a head back to its latest snapshot: a clone of the snapshot takes the head's place, and
//! the head's old contents go with the clone.

use std::sync::Arc;

use base::Txg;
use dmu::Tx;
use format::dsl::UsedBy;

use super::create::{clear_intent_log, create_clone};
use super::destroy::{destroy_head, end_intent_log};
use super::remapped;
use super::snapshot::check_txg;
use crate::dataset::Dataset;
use crate::error::{DslError, Result};
use crate::livelist;
use crate::services::{SpaceClass, Succession};
use crate::sizes::{Sizes, change};
use crate::task::{Task, TaskContext};

/// The hidden clone's name.
const COMPONENT: &str = "%rollback";

/// Rolls a head back to its latest snapshot. Whoever has the object set open must open it anew:
/// the dataset's epoch changes.
pub struct Rollback {
    /// The head.
    pub path: String,
    /// The snapshot's short name, when it must be a certain one.
    pub snapshot: Option<String>,
}

impl Task for Rollback {
    /// The full name of the snapshot.
    type Output = String;

    fn space(&self) -> SpaceClass {
        SpaceClass::Reserved
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let head = context.dsl.head(&self.path)?;
        let latest = head.latest_snapshot()?.ok_or_else(|| {
            DslError::not_found(format!(
                "{}@{}",
                self.path,
                self.snapshot.as_deref().unwrap_or("")
            ))
        })?;
        check_txg(context, &head)?;
        latest.check_root()?;
        if let Some(wanted) = &self.snapshot
            && latest.snapshot_name()? != *wanted
        {
            let name = format!("{}@{wanted}", self.path);
            return Err(match head.snapshot(wanted)? {
                Some(_) => DslError::NotLatest { name },
                None => DslError::not_found(name),
            });
        }
        let quota = head.ref_quota()?;
        if quota != 0 && latest.phys()?.referenced_bytes > quota {
            return Err(DslError::Quota {
                name: self.path.clone(),
            });
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<String> {
        let head = context.dsl.head(&self.path)?;
        let latest = head
            .latest_snapshot()?
            .ok_or_else(|| DslError::damaged(head.id(), "its latest snapshot went away"))?;
        let clone = create_clone(context, &head.directory(), COMPONENT, &latest)?;
        // The head's old contents go with the clone, and their log with them.
        end_intent_log(context, &head)?;
        swap(context, &clone, &head)?;
        clear_intent_log(context, &head)?;
        context.record(&crate::services::HistoryEvent {
            name: "rollback",
            dataset: &self.path,
            dataset_id: head.id(),
            text: " ",
        })?;
        destroy_head(context, &clone)?;
        latest.name()
    }
}

/// Exchanges the contents of a clone without snapshots and a head with the same previous snapshot.
pub(crate) fn swap(
    context: &TaskContext<'_>,
    clone: &Arc<Dataset>,
    head: &Arc<Dataset>,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let (theirs, mine) = (clone.phys()?, head.phys()?);
    let clone_dead = clone.deadlist()?;
    let head_dead = head.deadlist()?;
    let origin = dsl.dataset_by_id(mine.previous_snapshot)?;
    let unique = clone_dead.sizes_between(origin.phys()?.previous_snapshot_txg, None)?;
    origin.change(tx, |phys| phys.unique_bytes = unique.used.cast_unsigned())?;
    let total = |phys: &format::dsl::DatasetPhys, dead: Sizes| {
        Sizes::stored(
            phys.referenced_bytes,
            phys.compressed_bytes,
            phys.uncompressed_bytes,
        ) + dead
    };
    let moved = total(&theirs, clone_dead.sizes()?) - total(&mine, head_dead.sizes()?);
    let origin_txg = head.origin_txg()?;
    let buried = clone_dead.sizes_between(origin_txg, None)?.used
        - head_dead.sizes_between(origin_txg, None)?.used;
    let reservation = head.ref_reservation()?;
    head.directory().charge(tx, UsedBy::Head, moved)?;
    clone.directory().charge(tx, UsedBy::Head, -moved)?;
    head.directory()
        .transfer(tx, buried, UsedBy::Head, UsedBy::Snapshots)?;
    let released = reservation.min(mine.unique_bytes).cast_signed()
        - reservation.min(theirs.unique_bytes).cast_signed();
    charge_reservation(tx, head, released)?;
    exchange(tx, clone, head)?;
    remapped::exchange(tx, clone, head)?;
    let exchanged = Succession::Exchanged {
        one: clone.id(),
        other: head.id(),
    };
    dsl.services().succeeded(tx, exchanged)?;
    livelist::remove(&clone.directory(), tx)?;
    livelist::remove(&head.directory(), tx)?;
    recount_bookmarks(context, head, origin.phys()?.creation_txg)?;
    clone.replace_object_set(tx);
    head.replace_object_set(tx);
    Ok(())
}

fn charge_reservation(tx: &Tx, head: &Dataset, by: i64) -> Result<()> {
    let sizes = Sizes {
        used: by,
        ..Sizes::ZERO
    };
    head.directory().charge(tx, UsedBy::RefReservation, sizes)
}

fn exchange(tx: &Tx, clone: &Dataset, head: &Dataset) -> Result<()> {
    let counted = (clone.counted()?, head.counted()?);
    clone.deactivate_all(tx)?;
    head.deactivate_all(tx)?;
    head.activate_all(tx, &counted.0)?;
    clone.activate_all(tx, &counted.1)?;
    let (theirs, mine) = (clone.phys()?, head.phys()?);
    let put = |target: &Dataset, from: &format::dsl::DatasetPhys| {
        target.change(tx, |phys| {
            phys.block_pointer = from.block_pointer;
            phys.referenced_bytes = from.referenced_bytes;
            phys.compressed_bytes = from.compressed_bytes;
            phys.uncompressed_bytes = from.uncompressed_bytes;
            phys.unique_bytes = from.unique_bytes;
            phys.deadlist = from.deadlist;
        })
    };
    put(head, &theirs)?;
    put(clone, &mine)
}

/// What was freed since the snapshot was rolled back with the head.
fn recount_bookmarks(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    snapshot_txg: Txg,
) -> Result<()> {
    let Some(zap) = head.bookmark_zap()? else {
        return Ok(());
    };
    let dead = head.deadlist()?;
    for mut bookmark in head.bookmarks()? {
        if !bookmark.phys.counts_freed() || bookmark.phys.creation_txg < snapshot_txg {
            continue;
        }
        let freed = dead.sizes_between(Txg(0), Some(bookmark.phys.creation_txg))?;
        let mut zero = (0, 0, 0);
        change(&mut zero.0, freed.used);
        change(&mut zero.1, freed.compressed);
        change(&mut zero.2, freed.uncompressed);
        bookmark.phys.freed_before_next = zero.0;
        bookmark.phys.compressed_freed_before_next = zero.1;
        bookmark.phys.uncompressed_freed_before_next = zero.2;
        crate::tasks::bookmark::store(&zap, context.tx, &bookmark)?;
    }
    Ok(())
}
