//! What a session that broke off left behind: datasets that are half received or half destroyed,
//! and holds that were to last only as long as the session.

use std::sync::Arc;

use base::ObjectId;
use dmu::DmuError;
use format::ObjectType;
use format::dsl::{DatasetPhys, key};

use super::DestroyHead;
use super::destroy::destroy_snapshot;
use super::hold::release;
use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::Result;
use crate::layer::Dsl;
use crate::mos::name_of;
use crate::services::SpaceClass;
use crate::task::{Task, TaskContext};

/// What [`Dsl::clean_up`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// The datasets that were destroyed.
    pub destroyed: Vec<String>,
    /// The datasets that are inconsistent and could not be destroyed, with the reason.
    pub kept: Vec<(String, String)>,
    /// How many temporary holds were released.
    pub released: usize,
}

impl Dsl {
    /// Removes what a session that broke off left behind: datasets that are marked inconsistent,
    /// unless a receive may go on with them, and temporary holds. For a pool that was just opened.
    ///
    /// # Errors
    /// The tree of datasets cannot be read, or the engine ended.
    pub fn clean_up(self: &Arc<Self>) -> Result<CleanedUp> {
        let mut done = CleanedUp::default();
        let mut doomed = Vec::new();
        collect(&self.root_directory()?, &mut doomed)?;
        // Children come after their parents: the deepest go first.
        for path in doomed.into_iter().rev() {
            match self.run(DestroyHead { path: path.clone() }) {
                Ok(()) => done.destroyed.push(path),
                Err(crate::DslError::Engine(error)) => return Err(error.into()),
                Err(error) => done.kept.push((path, error.to_string())),
            }
        }
        if self.has_temporary_holds()? {
            done.released = self.run(ReleaseTemporary)?;
        }
        Ok(done)
    }

    fn has_temporary_holds(&self) -> Result<bool> {
        match self.temporary_holds()? {
            Some(zap) => Ok(!zap.is_empty()?),
            None => Ok(false),
        }
    }
}

/// The paths of inconsistent heads at and below a directory, parents before children.
fn collect(directory: &Arc<Directory>, doomed: &mut Vec<String>) -> Result<()> {
    let mut pending = vec![Arc::clone(directory)];
    while let Some(directory) = pending.pop() {
        // The root and the trees of the pool's own are never received.
        if directory.component().starts_with('$') {
            continue;
        }
        if let Some(head) = directory.head()?
            && directory.parent().is_some()
            && is_left_over(&head)?
        {
            doomed.push(directory.name());
        }
        pending.extend(directory.all_children()?);
    }
    Ok(())
}

fn is_left_over(head: &Dataset) -> Result<bool> {
    let marked = head.phys()?.has_flag(DatasetPhys::FLAG_INCONSISTENT);
    Ok(marked && head.extra_word(key::RESUME_TO_GUID)?.is_none())
}

/// Releases all temporary holds.
#[derive(Debug)]
pub struct ReleaseTemporary;

impl Task for ReleaseTemporary {
    /// How many there were.
    type Output = usize;

    fn space(&self) -> SpaceClass {
        SpaceClass::ExtraReserved
    }

    fn check(&mut self, _context: &TaskContext<'_>) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<usize> {
        let (dsl, tx) = (context.dsl, context.tx);
        let Some(list) = dsl.temporary_holds()? else {
            return Ok(0);
        };
        let mut released = 0;
        for entry in list.entries()? {
            let name = name_of(&entry.name);
            let held = match held_by(dsl, &name) {
                // Whether it is held cannot be told. The entry stays: the hold would have nobody else to release it.
                Err(error) if error.is_damage() => continue,
                held => held?,
            };
            if let Some((snapshot, tag)) = held {
                release(context, &snapshot, tag)?;
                let phys = snapshot.phys()?;
                let is_last = snapshot.holds()?.is_empty() && phys.child_count == 1;
                if is_last && phys.has_flag(DatasetPhys::FLAG_DEFER_DESTROY) {
                    destroy_snapshot(context, &snapshot)?;
                }
                released += 1;
            }
            // The hold itself has gone already when its snapshot has.
            if list.lookup(&entry.name)?.is_some() {
                list.remove(tx, &entry.name)?;
            }
        }
        Ok(released)
    }
}

/// The snapshot that an entry of the list of temporary holds names, if that has the hold.
fn held_by<'a>(dsl: &Dsl, name: &'a str) -> Result<Option<(Arc<Dataset>, &'a str)>> {
    let numbered = name.split_once('-').and_then(|(object, tag)| {
        let object = u64::from_str_radix(object, 16).ok()?;
        Some((ObjectId(object), tag))
    });
    let Some((id, tag)) = numbered else {
        return Ok(None);
    };
    match dsl.mos.set.object(id) {
        Err(DmuError::NoSuchObject { .. }) => return Ok(None),
        // The number may be another's by now.
        Ok(object) if object.info().bonus_type != ObjectType::DSL_DATASET => return Ok(None),
        object => object?,
    };
    let snapshot = dsl.dataset_by_id(id)?;
    let is_held = snapshot.is_snapshot() && snapshot.holds()?.iter().any(|hold| hold.tag == tag);
    Ok(is_held.then_some((snapshot, tag)))
}
