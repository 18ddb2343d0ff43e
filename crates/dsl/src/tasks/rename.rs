//! Renaming datasets and snapshots.

use std::sync::Arc;

use format::dsl::{UsedBy, key};

use super::change_key::encryption_root;
use super::limits::{check_moved, known_counts};
use super::snapshot::snapshot_parts;
use super::{change_count, note_snapshots_changed, split_path};
use crate::dataset::Dataset;
use crate::directory::{Directory, check_quotas};
use crate::error::{DslError, Result};
use crate::name::{DEPTH_MAX, NAME_MAX, NameProblem, is_hidden};
use crate::services::HistoryEvent;
use crate::sizes::Sizes;
use crate::task::{Task, TaskContext};

/// Renames a head with everything under it.
pub struct Rename {
    /// The path now.
    pub from: String,
    /// The new path, in the same pool.
    pub to: String,
}

/// How much longer and deeper names get under a directory: (bytes of the longest, levels).
fn extent(directory: &Arc<Directory>) -> Result<(usize, usize)> {
    let mut longest = 0;
    let mut depth = 0;
    let start = directory.name().len();
    let levels = directory.depth();
    for head in directory.dsl.heads_under(directory)? {
        let below = head.directory();
        let length = below.name().len();
        depth = depth.max(below.depth() - levels);
        longest = longest.max(length - start);
        for snapshot in head.snapshots()? {
            longest = longest.max(length + 1 + snapshot.snapshot_name()?.len() - start);
        }
    }
    Ok((longest, depth))
}

impl Task for Rename {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let dsl = context.dsl;
        let directory = dsl.directory(&self.from)?;
        let old_parent = directory
            .parent()
            .ok_or_else(|| DslError::busy(self.from.as_str()))?;
        let (parent, component) = split_path(&self.to)?;
        let new_parent = dsl.directory(parent)?;
        if new_parent.child(component)?.is_some() {
            return Err(DslError::exists(self.to.as_str()));
        }
        let inside = new_parent
            .ancestry()
            .iter()
            .any(|one| one.id() == directory.id());
        if inside {
            let (name, other) = (self.from.clone(), self.to.clone());
            return Err(DslError::Unrelated { name, other });
        }
        let bad = |problem| DslError::BadName {
            name: self.to.clone(),
            problem,
        };
        let (longest, depth) = extent(&directory)?;
        if self.to.len() + longest > NAME_MAX {
            return Err(bad(NameProblem::TooLong));
        }
        if new_parent.depth() + 2 + depth > DEPTH_MAX {
            return Err(bad(NameProblem::TooDeep));
        }
        if let Some(root) = encryption_root(&directory)?
            && root != directory.id()
            && encryption_root(&new_parent)? != Some(root)
        {
            return Err(DslError::KeyChange {
                name: self.from.clone(),
                reason: "cannot move encrypted child outside of its encryption root",
            });
        }
        let phys = directory.phys()?;
        check_quotas(&new_parent, &old_parent, phys.used_bytes.max(phys.reserved))?;
        check_moved(context.actor, &directory, &old_parent, &new_parent)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let directory = dsl.directory(&self.from)?;
        let (parent, component) = split_path(&self.to)?;
        let new_parent = dsl.directory(parent)?;
        let old_parent = directory
            .parent()
            .ok_or_else(|| DslError::busy(self.from.as_str()))?;
        context.record(&HistoryEvent {
            name: "rename",
            dataset: &self.from,
            dataset_id: directory.phys()?.head_dataset,
            text: &format!("-> {}", self.to),
        })?;
        old_parent
            .child_map()?
            .remove(tx, directory.component().as_bytes())?;
        new_parent
            .child_map()?
            .add(tx, component.as_bytes(), directory.id().0)?;
        if old_parent.id() != new_parent.id() {
            move_charges(tx, &directory, &old_parent, &new_parent)?;
            directory.change(tx, |phys| phys.parent = new_parent.id())?;
            dsl.primary_cache.note_change();
        }
        directory.set_place(tx, Some(new_parent), component.to_owned());
        Ok(())
    }
}

fn move_charges(
    tx: &dmu::Tx,
    directory: &Arc<Directory>,
    from: &Arc<Directory>,
    to: &Arc<Directory>,
) -> Result<()> {
    let phys = directory.phys()?;
    let sizes = Sizes::stored(
        phys.used_bytes,
        phys.compressed_bytes,
        phys.uncompressed_bytes,
    );
    let reserved = phys.reserved.saturating_sub(phys.used_bytes).cast_signed();
    let reserved = Sizes {
        used: reserved,
        ..Sizes::ZERO
    };
    from.charge(tx, UsedBy::Children, -sizes)?;
    from.charge(tx, UsedBy::ChildReservations, -reserved)?;
    to.charge(tx, UsedBy::Children, sizes)?;
    to.charge(tx, UsedBy::ChildReservations, reserved)?;
    let Some((file_systems, snapshots)) = known_counts(tx, directory)? else {
        return Ok(());
    };
    for (key, count) in [
        (key::FILESYSTEM_COUNT, file_systems + 1),
        (key::SNAPSHOT_COUNT, snapshots),
    ] {
        change_count(tx, from, key, -count.cast_signed())?;
        change_count(tx, to, key, count.cast_signed())?;
    }
    Ok(())
}

/// Renames a snapshot.
pub struct RenameSnapshot {
    /// The full name now.
    pub from: String,
    /// The new short name.
    pub to: String,
    /// The snapshots of that name of everything below as well.
    pub recursive: bool,
}

impl RenameSnapshot {
    fn heads(&self, context: &TaskContext<'_>) -> Result<Vec<(Arc<Dataset>, Arc<Dataset>)>> {
        let (path, short) = snapshot_parts(&self.from)?;
        let head = context.dsl.head(path)?;
        if !self.recursive {
            let found = head.snapshot(short)?;
            let snapshot = found.ok_or_else(|| DslError::not_found(self.from.as_str()))?;
            return Ok(vec![(head, snapshot)]);
        }
        let mut found = Vec::new();
        for head in context.dsl.heads_under(&head.directory())? {
            if let Some(snapshot) = head.snapshot(short)? {
                found.push((head, snapshot));
            }
        }
        if found.is_empty() {
            return Err(DslError::not_found(self.from.as_str()));
        }
        Ok(found)
    }
}

impl Task for RenameSnapshot {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        crate::name::check_component(&self.to).map_err(|problem| DslError::BadName {
            name: self.to.clone(),
            problem,
        })?;
        for (head, _) in self.heads(context)? {
            let name = format!("{}@{}", head.name()?, self.to);
            if head.snapshot(&self.to)?.is_some() {
                return Err(DslError::exists(name));
            }
            if name.len() > NAME_MAX {
                return Err(DslError::BadName {
                    name,
                    problem: NameProblem::TooLong,
                });
            }
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let tx = context.tx;
        for (head, snapshot) in self.heads(context)? {
            let names = head.snapshot_names()?;
            let old = snapshot.name_in_head(&names)?;
            context.record(&HistoryEvent {
                name: "rename",
                dataset: &snapshot.name()?,
                dataset_id: snapshot.id(),
                text: &format!("-> @{}", self.to),
            })?;
            names.remove(tx, old.as_bytes())?;
            names.add(tx, self.to.as_bytes(), snapshot.id().0)?;
            snapshot.set_snapshot_name(tx, &self.to);
            let shown = i64::from(!is_hidden(&self.to)) - i64::from(!is_hidden(&old));
            change_count(tx, &head.directory(), key::SNAPSHOT_COUNT, shown)?;
            note_snapshots_changed(context.dsl, tx, &head.directory())?;
        }
        Ok(())
    }
}
