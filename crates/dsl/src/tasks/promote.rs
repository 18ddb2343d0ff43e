//! Promoting a clone: its origin and everything older become its own, and the dataset that it was
//! cloned from becomes a clone of it.

use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::Tx;
use format::dsl::{DatasetPhys, UsedBy, key};
use format::features;

use super::change_key::{encryption_root, follow_promotion};
use super::{bookmark, change_count, note_snapshots_changed};
use crate::dataset::{Dataset, directory_clones, next_clones};
use crate::directory::{Directory, check_quotas};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::livelist;
use crate::name::is_hidden;
use crate::services::HistoryEvent;
use crate::sizes::Sizes;
use crate::task::{Task, TaskContext};

/// Promotes a clone.
pub struct Promote {
    /// The clone.
    pub path: String,
}

/// Who takes part in a promotion.
struct Parties {
    clone: Arc<Dataset>,
    clone_directory: Arc<Directory>,
    old_head: Arc<Dataset>,
    old_directory: Arc<Directory>,
    origin: Arc<Dataset>,
    /// The origin and what is older of its directory, newest first, with names.
    shared: Vec<(String, Arc<Dataset>)>,
    /// The snapshot that the old directory was cloned from.
    old_origin: Option<Arc<Dataset>>,
}

impl Parties {
    fn find(dsl: &Arc<Dsl>, path: &str) -> Result<Self> {
        let clone = dsl.head(path)?;
        let clone_directory = clone.directory();
        let origin = clone_directory
            .origin()?
            .ok_or_else(|| DslError::NotClone {
                name: path.to_owned(),
            })?;
        let old_directory = origin.directory();
        let old_head = old_directory
            .head()?
            .ok_or_else(|| DslError::damaged(old_directory.id(), "it has no head"))?;
        let names = old_head.snapshot_names()?;
        let mut shared = Vec::new();
        let mut current = Some(Arc::clone(&origin));
        while let Some(snapshot) = current {
            if snapshot.phys()?.directory != old_directory.id() {
                break;
            }
            shared.push((snapshot.name_in_head(&names)?, Arc::clone(&snapshot)));
            current = snapshot.previous()?;
        }
        let old_origin = old_directory.phys()?.origin;
        let old_origin = if old_origin.0 == 0 {
            None
        } else {
            Some(dsl.dataset_by_id(old_origin)?)
        };
        Ok(Self {
            clone,
            clone_directory,
            old_head,
            old_directory,
            origin,
            shared,
            old_origin,
        })
    }

    /// What moves from the old directory to the clone's.
    fn moved(&self) -> Result<Sizes> {
        let mut sizes = referenced(&self.origin.phys()?);
        for (_, snapshot) in &self.shared {
            if snapshot.phys()?.previous_snapshot.0 != 0 {
                sizes += snapshot.deadlist()?.sizes()?;
            }
        }
        if let Some(old_origin) = &self.old_origin {
            sizes -= referenced(&old_origin.phys()?);
        }
        Ok(sizes)
    }

    fn old_origin_txg(&self) -> Result<Txg> {
        self.old_origin
            .as_ref()
            .map_or(Ok(Txg(0)), |origin| Ok(origin.phys()?.creation_txg))
    }
}

fn referenced(phys: &DatasetPhys) -> Sizes {
    Sizes::stored(
        phys.referenced_bytes,
        phys.compressed_bytes,
        phys.uncompressed_bytes,
    )
}

impl Task for Promote {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let parties = Parties::find(context.dsl, &self.path)?;
        let above = parties.clone_directory.parent();
        let above = above.map(|parent| encryption_root(&parent)).transpose()?;
        if let Some(root) = encryption_root(&parties.old_directory)?
            && root != parties.old_directory.id()
            && above.flatten() != Some(root)
        {
            return Err(DslError::KeyChange {
                name: self.path.clone(),
                reason: "cannot promote dataset outside its encryption root",
            });
        }
        if parties.clone.phys()?.has_flag(DatasetPhys::FLAG_NO_PROMOTE) {
            return Err(DslError::Unrelated {
                name: self.path.clone(),
                other: parties.old_directory.name(),
            });
        }
        for (name, _) in &parties.shared {
            if parties.clone.snapshot(name)?.is_some() {
                return Err(DslError::exists(format!("{}@{name}", self.path)));
            }
        }
        let moved = parties.moved()?.used;
        check_quotas(
            &parties.clone_directory,
            &parties.old_directory,
            moved.max(0).cast_unsigned(),
        )
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let parties = Parties::find(dsl, &self.path)?;
        let moved = parties.moved()?;
        let old_origin_txg = parties.old_origin_txg()?;
        follow_promotion(dsl, tx, &parties.old_directory, &parties.clone_directory)?;
        swap_successors(dsl, tx, &parties)?;
        swap_origins(dsl, tx, &parties)?;
        move_names(tx, &parties)?;
        account(tx, &parties, moved, old_origin_txg)?;
        livelist::remove(&parties.clone_directory, tx)?;
        livelist::remove(&parties.old_directory, tx)?;
        move_bookmarks(context, &parties)?;
        note_snapshots_changed(dsl, tx, &parties.clone_directory)?;
        note_snapshots_changed(dsl, tx, &parties.old_directory)?;
        context.record(&HistoryEvent {
            name: "promote",
            dataset: &self.path,
            dataset_id: parties.clone.id(),
            text: " ",
        })
    }
}

/// The oldest dataset of the clone's own.
fn oldest(parties: &Parties) -> Result<Arc<Dataset>> {
    let mut current = Arc::clone(&parties.clone);
    loop {
        match current.previous()? {
            Some(previous) if previous.id() != parties.origin.id() => current = previous,
            Some(_) => return Ok(current),
            None => {
                return Err(DslError::damaged(
                    current.id(),
                    "its origin is not before it",
                ));
            }
        }
    }
}

/// The origin's next dataset is now the clone's oldest; the old next one is a clone's.
fn swap_successors(dsl: &Dsl, tx: &Tx, parties: &Parties) -> Result<()> {
    let oldest = oldest(parties)?;
    let origin = &parties.origin;
    let phys = origin.phys()?;
    if phys.next_clones.0 != 0 {
        let clones = next_clones(dsl, tx, origin)?;
        clones.remove_int(tx, oldest.id().0)?;
        clones.add_int(tx, phys.next_snapshot.0, phys.next_snapshot.0)?;
    }
    let unique = oldest
        .deadlist()?
        .sizes_between(phys.previous_snapshot_txg, None)?;
    origin.change(tx, |phys| {
        phys.next_snapshot = oldest.id();
        phys.unique_bytes = unique.used.cast_unsigned();
    })
}

fn swap_origins(dsl: &Arc<Dsl>, tx: &Tx, parties: &Parties) -> Result<()> {
    let (clone, old_head) = (parties.clone.id(), parties.old_head.id());
    let old_origin = parties.old_directory.phys()?.origin;
    let shared: Vec<ObjectId> = parties.shared.iter().map(|(_, one)| one.id()).collect();
    let mut moving = Vec::new();
    for head in parties.old_directory.clone_heads()? {
        let origin = dsl.dataset_by_id(head)?.directory().phys()?.origin;
        if head != clone && shared.contains(&origin) {
            moving.push(head);
        }
    }
    parties
        .clone_directory
        .change(tx, |phys| phys.origin = old_origin)?;
    parties
        .old_directory
        .change(tx, |phys| phys.origin = parties.origin.id())?;
    if parties.old_directory.phys()?.clones.0 == 0 {
        return Ok(());
    }
    let theirs = directory_clones(dsl, tx, &parties.old_directory)?;
    let mine = directory_clones(dsl, tx, &parties.clone_directory)?;
    theirs.remove_int(tx, clone.0)?;
    if let Some(old_origin) = &parties.old_origin {
        let above = directory_clones(dsl, tx, &old_origin.directory())?;
        above.remove_int(tx, old_head.0)?;
        above.add_int(tx, clone.0, clone.0)?;
    }
    mine.add_int(tx, old_head.0, old_head.0)?;
    for head in moving {
        theirs.remove_int(tx, head.0)?;
        mine.add_int(tx, head.0, head.0)?;
    }
    Ok(())
}

fn move_names(tx: &Tx, parties: &Parties) -> Result<()> {
    let from = parties.old_head.snapshot_names()?;
    let to = parties.clone.snapshot_names()?;
    let mut visible = 0;
    for (name, snapshot) in &parties.shared {
        from.remove(tx, name.as_bytes())?;
        to.add(tx, name.as_bytes(), snapshot.id().0)?;
        let directory = parties.clone_directory.id();
        snapshot.change(tx, |phys| phys.directory = directory)?;
        snapshot.set_directory(tx, &parties.clone_directory);
        visible += i64::from(!is_hidden(name));
    }
    change_count(tx, &parties.old_directory, key::SNAPSHOT_COUNT, -visible)?;
    change_count(tx, &parties.clone_directory, key::SNAPSHOT_COUNT, visible)
}

/// Sizes in the deadlists of a chain, from `newest` back to (not including) `end`, of blocks born
/// after `birth`.
fn dead_in_chain(newest: &Arc<Dataset>, end: Option<ObjectId>, birth: Txg) -> Result<i64> {
    let mut sum = 0;
    let mut current = Some(Arc::clone(newest));
    while let Some(dataset) = current {
        if Some(dataset.id()) == end {
            break;
        }
        if dataset.phys()?.deadlist.0 != 0 {
            sum += dataset.deadlist()?.sizes_between(birth, None)?.used;
        }
        current = dataset.previous()?;
    }
    Ok(sum)
}

fn account(tx: &Tx, parties: &Parties, moved: Sizes, old_origin_txg: Txg) -> Result<()> {
    let end = parties.old_origin.as_ref().map(|origin| origin.id());
    let mine = dead_in_chain(&parties.clone, end, old_origin_txg)?;
    let origin_txg = parties.origin.phys()?.creation_txg;
    let theirs = dead_in_chain(&parties.old_head, Some(parties.origin.id()), origin_txg)?;
    for (directory, sizes, snapshots) in [
        (&parties.clone_directory, moved, mine),
        (&parties.old_directory, -moved, theirs),
    ] {
        let before = directory.space()?.by_snapshots.cast_signed();
        directory.charge(tx, UsedBy::Head, sizes)?;
        directory.transfer(tx, snapshots - before, UsedBy::Head, UsedBy::Snapshots)?;
    }
    Ok(())
}

/// Bookmarks up to the origin belong to the clone now.
fn move_bookmarks(context: &TaskContext<'_>, parties: &Parties) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let Some(from) = parties.old_head.bookmark_zap()? else {
        return Ok(());
    };
    let limit = parties.origin.phys()?.creation_txg;
    let bookmarks = parties.old_head.bookmarks()?;
    let moving: Vec<_> = bookmarks
        .iter()
        .filter(|one| one.phys.creation_txg <= limit)
        .collect();
    if moving.is_empty() {
        return Ok(());
    }
    let to = bookmark::zap_of(context, &parties.clone)?;
    for one in &moving {
        let value = from.lookup_value(one.name.as_bytes())?;
        let value =
            value.ok_or_else(|| DslError::damaged(from.object().id(), "a bookmark went away"))?;
        from.remove(tx, one.name.as_bytes())?;
        to.update_value(tx, one.name.as_bytes(), &value)?;
    }
    if from.is_empty()? {
        dsl.mos
            .services
            .change_references(tx, &features::BOOKMARKS, -1)?;
        parties
            .old_head
            .make_extra(tx)?
            .remove(tx, key::BOOKMARKS.as_bytes())?;
        dsl.mos.free(tx, from.object().id())?;
    }
    Ok(())
}
