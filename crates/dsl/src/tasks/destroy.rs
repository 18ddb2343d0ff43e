//! Destroying snapshots and heads.

use std::sync::Arc;

use base::{ObjectId, Txg};
use format::bookmark::BookmarkPhys;
use format::dsl::{DatasetPhys, UsedBy, key};
use format::intent_log::LogHeader;
use format::{features, version};

use super::snapshot::snapshot_parts;
use super::{change_count, note_snapshots_changed, remapped, without_repeats};
use crate::dataset::{Dataset, next_clones};
use crate::deadlist::Deadlist;
use crate::delegation::free_grants;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::livelist;
use crate::name::is_hidden;
use crate::services::{HistoryEvent, SpaceClass, Succession};
use crate::sizes::{Sizes, change};
use crate::task::{Task, TaskContext};
use crate::tunables;

/// Destroys snapshots: all are checked before the first goes; then they go in as many txgs as it takes, newest first.
/// If that ends early (a crash, a hold that was placed meanwhile), the older ones are still there.
pub struct DestroySnapshots {
    /// Their full names; those that are left.
    pub names: Vec<String>,
    /// Those with clones or holds go away later, with the last of these.
    pub defer: bool,
}

impl Task for DestroySnapshots {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::ExtraReserved
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        without_repeats(&mut self.names);
        let mut sorted = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let snapshot = find(context.dsl, name)?;
            let phys = snapshot.phys()?;
            sorted.push((phys.creation_txg, name.clone()));
            if self.defer {
                context.dsl.require_version(version::HOLDS)?;
                continue;
            }
            if !snapshot.holds()?.is_empty() || snapshot.is_held_long() {
                return Err(DslError::busy(name.as_str()));
            }
            if phys.child_count > 1 {
                return Err(DslError::HasClones { name: name.clone() });
            }
        }
        // The newest last, to be taken first: then the deadlist that takes over the next one's has few keys of its own
        // to lose.
        sorted.sort();
        self.names = sorted.into_iter().map(|(_, name)| name).collect();
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let until_ns = destroy_until(context);
        let mut left = tunables::DESTROY_SNAPSHOTS_TXG.get().max(1);
        while let Some(name) = self.names.pop() {
            self.destroy_one(context, &name)?;
            left -= 1;
            if left == 0 || context.dsl.services().clock().now() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.names.is_empty()
    }
}

impl DestroySnapshots {
    fn destroy_one(&self, context: &TaskContext<'_>, name: &str) -> Result<()> {
        let snapshot = find(context.dsl, name)?;
        let in_use = snapshot.phys()?.child_count > 1
            || !snapshot.holds()?.is_empty()
            || snapshot.is_held_long();
        if !self.defer || !in_use {
            return destroy_snapshot(context, &snapshot);
        }
        let defer = DatasetPhys::FLAG_DEFER_DESTROY;
        snapshot.change(context.tx, |phys| phys.flags |= defer)?;
        context.record(&HistoryEvent {
            name: "defer_destroy",
            dataset: name,
            dataset_id: snapshot.id(),
            text: " ",
        })
    }
}

/// The time up to which this txg destroys snapshots: all tasks that do share it.
fn destroy_until(context: &TaskContext<'_>) -> u64 {
    let (now, txg) = (context.dsl.services().clock().now(), context.tx.txg());
    let mut destroying = context.dsl.destroying.lock();
    if destroying.0 != txg {
        let time_ns = tunables::DESTROY_MS.get().saturating_mul(1_000_000);
        *destroying = (txg, now.saturating_add(time_ns));
    }
    destroying.1
}

fn find(dsl: &Dsl, name: &str) -> Result<Arc<Dataset>> {
    let (path, short) = snapshot_parts(name)?;
    dsl.head(path)?
        .snapshot(short)?
        .ok_or_else(|| DslError::not_found(name))
}

/// Destroys a snapshot that has neither clones nor holds.
///
/// # Errors
/// Somebody holds it for long: the task is undone.
pub(super) fn destroy_snapshot(context: &TaskContext<'_>, snapshot: &Arc<Dataset>) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let name = snapshot.name()?;
    // Who holds it reads its blocks, or writes damaged ones again: their places must not be given away. The hold may be
    // younger than the check.
    if snapshot.is_held_long() {
        return Err(DslError::busy(name));
    }
    let phys = snapshot.phys()?;
    let next = snapshot
        .next()?
        .ok_or_else(|| DslError::damaged(snapshot.id(), "no successor"))?;
    let directory = snapshot.directory();
    let head = directory
        .head()?
        .ok_or_else(|| DslError::damaged(directory.id(), "it has no head"))?;
    context.record(&HistoryEvent {
        name: "destroy",
        dataset: &name,
        dataset_id: snapshot.id(),
        text: " ",
    })?;
    snapshot.deactivate_all(tx)?;
    let keep_key = bookmarks_lose_snapshot(context, &head, &next, &phys)?;
    relink(context, snapshot, &next, &phys)?;
    if next.deadlist()?.is_plain() {
        free_plain(context, &next, &phys)?;
    } else {
        free_between(context, &next, &phys)?;
        next.deadlist()?.merge(tx, phys.deadlist)?;
    }
    remapped::merge(context, snapshot, &next, &phys)?;
    // Before the key goes, for what is between keys can only be summed while they are there.
    recompute_unique(context, &next, &phys)?;
    if !keep_key {
        if next.is_snapshot() {
            head.deadlist()?.remove_key(tx, phys.creation_txg)?;
            remapped::remove_key(tx, &head, phys.creation_txg)?;
        }
        remove_key_from_clones(dsl, tx, &directory.clone_heads()?, phys.creation_txg)?;
    }
    let names = head.snapshot_names()?;
    let name = snapshot.name_in_head(&names)?;
    names.remove(tx, name.as_bytes())?;
    note_snapshots_changed(dsl, tx, &directory)?;
    if !is_hidden(&name) {
        change_count(tx, &directory, key::SNAPSHOT_COUNT, -1)?;
    }
    for zap in [phys.next_clones, phys.properties, phys.user_references] {
        if zap.0 != 0 {
            dsl.mos.free(tx, zap)?;
        }
    }
    let merged = Succession::Merged {
        snapshot: snapshot.id(),
        taken: phys.creation_txg,
        next: next.id(),
    };
    dsl.services().succeeded(tx, merged)?;
    snapshot.leave_memory(tx);
    dsl.mos.free_zapified(tx, &snapshot.object)
}

/// Bookmarks of the snapshot say that it is gone; true when one still needs the deadlist's key.
fn bookmarks_lose_snapshot(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    next: &Arc<Dataset>,
    phys: &DatasetPhys,
) -> Result<bool> {
    let Some(zap) = head.bookmark_zap()? else {
        return Ok(false);
    };
    let mut keep = false;
    let dead = next.deadlist()?;
    for mut bookmark in head.bookmarks()? {
        let txg = bookmark.phys.creation_txg;
        let own = bookmark.phys.guid == phys.guid;
        if own {
            bookmark.phys.flags &= !BookmarkPhys::FLAG_SNAPSHOT_EXISTS;
        }
        let counts = bookmark.phys.counts_freed();
        keep |= counts && txg == phys.creation_txg;
        if counts && txg >= phys.previous_snapshot_txg && txg < phys.creation_txg {
            let gained = dead.sizes_between(Txg(0), Some(txg))?;
            change(&mut bookmark.phys.freed_before_next, gained.used);
            change(
                &mut bookmark.phys.compressed_freed_before_next,
                gained.compressed,
            );
            change(
                &mut bookmark.phys.uncompressed_freed_before_next,
                gained.uncompressed,
            );
        } else if !own {
            continue;
        }
        crate::tasks::bookmark::store(&zap, context.tx, &bookmark)?;
    }
    Ok(keep)
}

/// Takes the snapshot out of its chain.
fn relink(
    context: &TaskContext<'_>,
    snapshot: &Arc<Dataset>,
    next: &Arc<Dataset>,
    phys: &DatasetPhys,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    if let Some(previous) = snapshot.previous()? {
        let before = previous.phys()?;
        if before.next_snapshot == snapshot.id() {
            previous.change(tx, |phys| phys.next_snapshot = next.id())?;
            let gained = next.deadlist()?.sizes_between(
                before.previous_snapshot_txg,
                Some(phys.previous_snapshot_txg),
            )?;
            previous.change(tx, |phys| change(&mut phys.unique_bytes, gained.used))?;
        } else if before.next_clones.0 != 0 {
            let clones = next_clones(dsl, tx, &previous)?;
            clones.remove_int(tx, snapshot.id().0)?;
            clones.add_int(tx, next.id().0, next.id().0)?;
        }
    }
    next.change(tx, |next| {
        next.previous_snapshot = phys.previous_snapshot;
        next.previous_snapshot_txg = phys.previous_snapshot_txg;
    })
}

/// Frees what only the snapshot had: born after the one before it, dropped before the one after.
fn free_between(context: &TaskContext<'_>, next: &Arc<Dataset>, phys: &DatasetPhys) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let later = dsl.later_frees();
    let sizes = next
        .deadlist()?
        .move_to(tx, phys.previous_snapshot_txg, &later)?;
    let directory = next.directory();
    directory.charge(tx, UsedBy::Snapshots, -sizes)?;
    dsl.charge_free(tx, sizes)
}

/// Both steps where the next one's deadlist has no keys: every block in it is looked at, in this txg. What only the
/// snapshot had is freed, the rest joins the snapshot's own deadlist, which is the next one's from now on.
fn free_plain(context: &TaskContext<'_>, next: &Arc<Dataset>, phys: &DatasetPhys) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let dead = next.deadlist()?;
    let rest = Deadlist::open(&dsl.mos, phys.deadlist)?;
    let sizes = dead.divide(tx, phys.previous_snapshot_txg, &rest, &mut |pointer| {
        dsl.release(tx, pointer)
    })?;
    next.change(tx, |next| next.deadlist = rest.id())?;
    dead.destroy(tx)?;
    next.directory().charge(tx, UsedBy::Snapshots, -sizes)
}

/// A txg that is no snapshot's any more is no key of the heads cloned after it either.
fn remove_key_from_clones(dsl: &Dsl, tx: &dmu::Tx, heads: &[ObjectId], key: Txg) -> Result<()> {
    let mut pending: Vec<ObjectId> = heads.to_vec();
    while let Some(id) = pending.pop() {
        let clone = dsl.dataset_by_id(id)?;
        if clone.origin_txg()? <= key {
            continue;
        }
        clone.deadlist()?.remove_key(tx, key)?;
        remapped::remove_key(tx, &clone, key)?;
        pending.extend(clone.directory().clone_heads()?);
    }
    Ok(())
}

/// What the snapshot shared only with its successor is unique to that now.
fn recompute_unique(
    context: &TaskContext<'_>,
    next: &Arc<Dataset>,
    phys: &DatasetPhys,
) -> Result<()> {
    let tx = context.tx;
    if next.is_snapshot() {
        let after = next
            .next()?
            .ok_or_else(|| DslError::damaged(next.id(), "no successor"))?;
        let gained = after
            .deadlist()?
            .sizes_between(phys.previous_snapshot_txg, Some(phys.creation_txg))?;
        return next.change(tx, |next| change(&mut next.unique_bytes, gained.used));
    }
    renew_unique(tx, next)
}

/// What a head has for itself, counted anew; what its reservation still keeps follows.
pub(super) fn renew_unique(tx: &dmu::Tx, head: &Dataset) -> Result<()> {
    let before = head.phys()?.unique_bytes;
    let unique = head.unshared_bytes()?;
    head.change(tx, |head| head.unique_bytes = unique)?;
    let reservation = head.ref_reservation()?;
    if reservation == 0 {
        return Ok(());
    }
    let before = reservation.saturating_sub(before);
    let after = reservation.saturating_sub(unique);
    let delta = after.wrapping_sub(before).cast_signed();
    let sizes = Sizes {
        used: delta,
        ..Sizes::ZERO
    };
    head.directory().charge(tx, UsedBy::RefReservation, sizes)
}

/// Destroys a head that has no snapshots and no children.
pub struct DestroyHead {
    /// Its path.
    pub path: String,
}

impl Task for DestroyHead {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::ExtraReserved
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        check_head(context, &self.path)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let head = context.dsl.head(&self.path)?;
        context.record(&HistoryEvent {
            name: "destroy",
            dataset: &self.path,
            dataset_id: head.id(),
            text: " ",
        })?;
        // What is hidden is not counted.
        let directory = head.directory();
        if let Some(parent) = directory.parent()
            && !is_hidden(&directory.component())
        {
            change_count(context.tx, &parent, key::FILESYSTEM_COUNT, -1)?;
        }
        end_intent_log(context, &head)?;
        destroy_head(context, &head)
    }
}

/// Whether a head can be destroyed.
pub(super) fn check_head(context: &TaskContext<'_>, path: &str) -> Result<()> {
    let directory = context.dsl.directory(path)?;
    let head = directory.head()?.ok_or_else(|| DslError::not_found(path))?;
    let name = || path.to_owned();
    if directory.parent().is_none() {
        return Err(DslError::busy(name()));
    }
    if head.has_snapshots()? {
        return Err(DslError::HasSnapshots { name: name() });
    }
    if directory.has_children()? {
        return Err(DslError::HasChildren { name: name() });
    }
    if head.is_in_use() || head.is_held_long() {
        return Err(DslError::busy(name()));
    }
    // Its origin goes with it, if it was only kept for this clone.
    if let Some(origin) = head.previous()?
        && origin.phys()?.has_flag(DatasetPhys::FLAG_DEFER_DESTROY)
        && origin.phys()?.child_count == 2
        && origin.holds()?.is_empty()
        && origin.is_held_long()
    {
        return Err(DslError::busy(origin.name()?));
    }
    Ok(())
}

/// Frees the intent log of a head whose object set goes.
pub(super) fn end_intent_log(context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<()> {
    if head.phys()?.block_pointer.is_hole() {
        return Ok(());
    }
    let header = match head.root_object_set() {
        Ok(objects) => objects.intent_log_header(),
        // Where the log begins cannot be read: its blocks leak.
        Err(error) if error.is_damage() => LogHeader::EMPTY,
        Err(error) => return Err(error),
    };
    let services = context.dsl.services();
    services.end_intent_log(context.tx.txg(), head.id(), &header);
    Ok(())
}

/// Destroys a head and its directory; its intent log was freed.
pub(super) fn destroy_head(context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let directory = head.directory();
    head.deactivate_all(tx)?;
    let phys = head.phys()?;
    let origin = head.previous()?;
    if let Some(origin) = &origin {
        origin.change(tx, |phys| {
            phys.child_count = phys.child_count.saturating_sub(1)
        })?;
        if origin.phys()?.next_clones.0 != 0 {
            next_clones(dsl, tx, origin)?.remove_int(tx, head.id().0)?;
        }
    }
    head.deadlist()?.destroy(tx)?;
    remapped::destroy(tx, head)?;
    free_contents(context, head, &phys)?;
    destroy_bookmarks(context, head)?;
    dsl.mos.free(tx, phys.snapshot_names)?;
    if let Some(origin) = &origin {
        let clones = origin.directory().phys()?.clones;
        if clones.0 != 0 {
            dsl.mos.zap(clones)?.remove_int(tx, head.id().0)?;
        }
    }
    let gone = Succession::Gone { head: head.id() };
    dsl.services().succeeded(tx, gone)?;
    head.leave_memory(tx);
    dsl.mos.free_zapified(tx, &head.object)?;
    destroy_directory(context, &directory)?;
    if let Some(origin) = origin
        && origin.phys()?.has_flag(DatasetPhys::FLAG_DEFER_DESTROY)
        && origin.phys()?.child_count == 1
        && origin.holds()?.is_empty()
    {
        destroy_snapshot(context, &origin)?;
    }
    Ok(())
}

/// Hands the blocks of a head to the background, or frees them when the pool knows none.
fn free_contents(context: &TaskContext<'_>, head: &Arc<Dataset>, phys: &DatasetPhys) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let directory = head.directory();
    let space = directory.phys()?;
    let sizes = Sizes::stored(
        space.used_bytes,
        space.compressed_bytes,
        space.uncompressed_bytes,
    );
    let reserved = space.used_breakdown[UsedBy::RefReservation.index()].cast_signed();
    let own = Sizes {
        used: sizes.used - reserved,
        ..sizes
    };
    let reservation = Sizes {
        used: reserved,
        ..Sizes::ZERO
    };
    directory.charge(tx, UsedBy::RefReservation, -reservation)?;
    directory.charge(tx, UsedBy::Head, -own)?;
    if livelist::delete(&directory, tx)? {
        return dsl.charge_free(tx, own);
    }
    if dsl.services().is_enabled(&features::ASYNC_DESTROY) {
        if !phys.block_pointer.is_hole() {
            dsl.queue_tree(tx, &phys.block_pointer, phys.previous_snapshot_txg, own)?;
            dsl.charge_free(tx, own)?;
        }
        return Ok(());
    }
    dsl.free_tree_now(tx, &phys.block_pointer, phys.previous_snapshot_txg)
}

fn destroy_bookmarks(context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let bookmarks = head.bookmarks()?;
    let Some(zap) = head.bookmark_zap()? else {
        return Ok(());
    };
    for bookmark in bookmarks {
        crate::tasks::bookmark::uncount(dsl, tx, &bookmark)?;
    }
    dsl.mos
        .services
        .change_references(tx, &features::BOOKMARKS, -1)?;
    dsl.mos.free(tx, zap.object().id())
}

fn destroy_directory(
    context: &TaskContext<'_>,
    directory: &Arc<crate::directory::Directory>,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    if directory.phys()?.reserved != 0 {
        directory.set_reservation(tx, 0)?;
    }
    let phys = directory.phys()?;
    free_grants(dsl, tx, phys.delegation)?;
    for zap in [phys.child_map, phys.properties, phys.clones] {
        if zap.0 != 0 {
            dsl.mos.free(tx, zap)?;
        }
    }
    if let Some(parent) = directory.parent() {
        parent
            .child_map()?
            .remove(tx, directory.component().as_bytes())?;
    }
    directory.release_key_record(tx)?;
    let gone = Arc::clone(directory);
    tx.on_success(move || gone.dsl.directories.forget(gone.id()));
    dsl.mos.free_zapified(tx, &directory.object)
}

impl Dataset {
    /// Whether somebody beside this layer uses the object set.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        // The dataset holds one and this count another.
        let known = 2 + usize::from(self.dsl().services().keeps_intent_log(self.id()));
        self.open_object_set()
            .is_some_and(|object_set| Arc::strong_count(&object_set) > known)
    }
}
