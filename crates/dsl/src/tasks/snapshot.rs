//! Taking snapshots.

use std::sync::Arc;

use base::{Guid, ObjectId, Txg};
use dmu::{AllocateObject, Tx};
use format::dsl::{DatasetPhys, UsedBy, hidden, key};
use format::{ObjectType, version};

use super::limits::{Counted, check_limits};
use super::{change_count, note_snapshots_changed};
use crate::dataset::{Dataset, creation_txg, new_fsid, next_clones};
use crate::error::{DslError, Result};
use crate::layer::{Dsl, parse};
use crate::mos::change_record;
use crate::name::{Target, is_hidden};
use crate::property::{PropertyValue, set_snapshot_local};
use crate::services::{HistoryEvent, SpaceClass, Succession};
use crate::task::{Task, TaskContext};

/// Takes snapshots, all of one moment.
pub struct Snapshot {
    /// Their full names.
    pub names: Vec<String>,
    /// Properties that each gets.
    pub properties: Vec<(String, PropertyValue)>,
}

/// The two parts of a snapshot's name.
pub(super) fn snapshot_parts(name: &str) -> Result<(&str, &str)> {
    match parse(name)? {
        Target::Snapshot { dataset, snapshot } => Ok((dataset, snapshot)),
        Target::Head { .. } | Target::Bookmark { .. } => Err(DslError::NotSnapshot {
            name: name.to_owned(),
        }),
    }
}

impl Task for Snapshot {
    type Output = Vec<Arc<Dataset>>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        if !self.properties.is_empty() {
            context.dsl.require_version(version::SNAPSHOT_PROPERTIES)?;
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut made_in = Vec::new();
        for name in &self.names {
            let (path, short) = snapshot_parts(name)?;
            let head = context.dsl.head(path)?;
            if head.snapshot(short)?.is_some() || !seen.insert(path) {
                return Err(DslError::exists(name.as_str()));
            }
            check_txg(context, &head)?;
            check_reservation(&head)?;
            made_in.push(head.directory());
        }
        check_limits(context.actor, Counted::Snapshots, made_in.iter())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Self::Output> {
        let mut taken = Vec::new();
        for name in &self.names {
            let (path, short) = snapshot_parts(name)?;
            let head = context.dsl.head(path)?;
            let snapshot = take(context, &head, short)?;
            for (property, value) in &self.properties {
                set_snapshot_local(context.dsl, context.tx, &snapshot, property, value)?;
            }
            taken.push(snapshot);
        }
        Ok(taken)
    }
}

/// A head has one snapshot a txg: what follows from it is told from it by its birth.
pub(super) fn check_txg(context: &TaskContext<'_>, head: &Dataset) -> Result<()> {
    if head.phys()?.previous_snapshot_txg >= context.tx.txg() {
        let name = head.directory().name();
        return Err(DslError::Again { name });
    }
    Ok(())
}

/// A snapshot makes the head's unshared data shared: the whole reservation must fit again.
pub(super) fn check_reservation(head: &Dataset) -> Result<()> {
    let needed = head.phys()?.unique_bytes.min(head.ref_reservation()?);
    if needed > head.directory().available(SpaceClass::Normal)? {
        return Err(DslError::NoSpace);
    }
    Ok(())
}

/// The txg that a snapshot is of. Nothing is older than the origin of all, in whatever txg an upgrade makes it.
fn txg_taken(tx: &Tx, name: &str) -> Txg {
    match name {
        hidden::ORIGIN => Txg(1),
        _ => creation_txg(tx),
    }
}

/// Takes a snapshot of a head that was synced in this txg.
pub(crate) fn take(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    name: &str,
) -> Result<Arc<Dataset>> {
    let (dsl, tx) = (context.dsl, context.tx);
    let mos = &dsl.mos;
    let phys = head.phys()?;
    let shape = AllocateObject {
        object_type: ObjectType::DSL_DATASET,
        bonus_type: ObjectType::DSL_DATASET,
        bonus_len: DatasetPhys::SIZE as u16,
        ..AllocateObject::default()
    };
    let object = mos.set.allocate(tx, &shape)?;
    let id = object.id();
    let services = &mos.services;
    let taken = txg_taken(tx, name);
    change_record(&object, tx, |snapshot: &mut DatasetPhys| {
        *snapshot = DatasetPhys {
            next_snapshot: head.id(),
            snapshot_names: ObjectId(0),
            child_count: 1,
            creation_time: services.clock().now_s(),
            creation_txg: taken,
            unique_bytes: 0,
            fsid_guid: new_fsid(dsl),
            guid: Guid(services.rng().nonzero_u64()),
            next_clones: ObjectId(0),
            properties: ObjectId(0),
            user_references: ObjectId(0),
            ..phys.clone()
        };
    })?;
    link_previous(context, head, &phys, id)?;
    renew_deadlist(context, head, &phys)?;
    let reserved = phys.unique_bytes.min(head.ref_reservation()?);
    let directory = head.directory();
    if reserved != 0 {
        let sizes = crate::sizes::Sizes {
            used: reserved.cast_signed(),
            ..Default::default()
        };
        directory.charge(tx, UsedBy::RefReservation, sizes)?;
    }
    head.change(tx, |head| {
        head.previous_snapshot = id;
        head.previous_snapshot_txg = taken;
        head.unique_bytes = 0;
    })?;
    let names = head.snapshot_names()?;
    names.add(tx, name.as_bytes(), id.0)?;
    // A copy of what the object was before is nobody's.
    dsl.datasets.forget(id);
    let snapshot = dsl.snapshot_by_id(id, (name, &names), dsl.stamp())?;
    snapshot.leave_memory_if_undone(tx);
    inherit(dsl, tx, head, &snapshot)?;
    let taken = Succession::Taken {
        head: head.id(),
        snapshot: id,
    };
    services.succeeded(tx, taken)?;
    if is_hidden(name) {
        return Ok(snapshot);
    }
    note_snapshots_changed(dsl, tx, &directory)?;
    change_count(tx, &directory, key::SNAPSHOT_COUNT, 1)?;
    context.record(&HistoryEvent {
        name: "snapshot",
        dataset: &snapshot.name()?,
        dataset_id: id,
        text: " ",
    })?;
    Ok(snapshot)
}

/// What a snapshot has of its head beside the record.
fn inherit(dsl: &Dsl, tx: &Tx, head: &Dataset, snapshot: &Dataset) -> Result<()> {
    snapshot.activate_all(tx, &head.counted()?)?;
    super::remapped::pass_on(tx, head, snapshot)?;
    if head.is_encrypted()? {
        name_vectors(dsl, tx, snapshot)?;
    }
    Ok(())
}

/// Who receives increments of an encrypted snapshot as they are stored is to know that they belong to it.
fn name_vectors(dsl: &Dsl, tx: &Tx, snapshot: &Dataset) -> Result<()> {
    let ivset = dsl.services().rng().nonzero_u64();
    let extra = snapshot.make_extra(tx)?;
    Ok(extra.add(tx, key::IVSET_GUID.as_bytes(), ivset)?)
}

/// The dataset before the head now precedes the new snapshot.
fn link_previous(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    phys: &DatasetPhys,
    snapshot: ObjectId,
) -> Result<()> {
    let tx = context.tx;
    if phys.previous_snapshot.0 == 0 {
        return Ok(());
    }
    let previous = context.dsl.dataset_by_id(phys.previous_snapshot)?;
    let before = previous.phys()?;
    if before.next_snapshot == head.id() {
        return previous.change(tx, |phys| phys.next_snapshot = snapshot);
    }
    if before.next_clones.0 != 0 {
        let clones = next_clones(context.dsl, tx, &previous)?;
        clones.remove_int(tx, head.id().0)?;
        clones.add_int(tx, snapshot.0, snapshot.0)?;
    }
    Ok(())
}

/// The snapshot keeps the head's deadlist; the head gets an empty one with its keys, the previous
/// snapshot's txg and those of newer bookmarks that count what was freed.
fn renew_deadlist(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    phys: &DatasetPhys,
) -> Result<()> {
    let tx = context.tx;
    let old = head.deadlist()?;
    let new = old.empty_after(tx, Txg(u64::MAX), || head.txgs_before())?;
    if new.is_plain() {
        return head.change(tx, |head| head.deadlist = new.id());
    }
    // Known already, unless the list of before has none.
    let mut keys = if old.is_plain() { &new } else { &old }.entries()?;
    let mut wanted = vec![phys.previous_snapshot_txg];
    for bookmark in head.bookmarks()? {
        if bookmark.phys.counts_freed() && bookmark.phys.creation_txg > phys.previous_snapshot_txg {
            wanted.push(bookmark.phys.creation_txg);
        }
    }
    for key in wanted {
        if keys.insert(key, ObjectId(0)).is_none() {
            new.add_key(tx, key)?;
        }
    }
    head.change(tx, |head| head.deadlist = new.id())
}
