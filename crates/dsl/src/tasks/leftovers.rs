//! What a session that broke off left behind: datasets that are half received or half destroyed,
//! and holds that were to last only as long as the session.

use std::sync::Arc;

use base::ObjectId;
use dmu::DmuError;
use format::ObjectType;
use format::dsl::{DatasetPhys, key};

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
    /// The datasets that are inconsistent and could not be destroyed, and those of which that cannot be told, with the
    /// reason.
    pub kept: Vec<(String, String)>,
    /// How many temporary holds were released.
    pub released: usize,
}

impl Dsl {
    /// Removes what a session that broke off left behind: datasets that are marked inconsistent,
    /// unless a receive may go on with them, and temporary holds. For a pool that was just opened.
    ///
    /// What is damaged is left as it is.
    ///
    /// # Errors
    /// A device does not answer, or the engine ended.
    pub fn clean_up(self: &Arc<Self>) -> Result<CleanedUp> {
        let mut done = CleanedUp::default();
        let mut doomed = Vec::new();
        let mut kept = Kept(&mut done.kept);
        collect(&self.root_directory()?, &mut doomed, &mut kept)?;
        // Children come after their parents: the deepest go first.
        for path in doomed.into_iter().rev() {
            match self.destroy_head(&path) {
                Ok(()) => done.destroyed.push(path),
                Err(crate::DslError::Engine(error)) => return Err(error.into()),
                Err(error) => done.kept.push((path, error.to_string())),
            }
        }
        let mut kept = Kept(&mut done.kept);
        kept.unless_damaged("space of datasets", self.count_unique())?;
        let has_holds = kept.unless_damaged("temporary holds", self.has_temporary_holds())?;
        if has_holds == Some(true) {
            let released = self.run(ReleaseTemporary);
            let released = kept.unless_damaged("temporary holds", released)?;
            done.released = released.unwrap_or(0);
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

/// Notes what cannot be told for damage.
struct Kept<'a>(&'a mut Vec<(String, String)>);

impl Kept<'_> {
    fn unless_damaged<T>(&mut self, what: &str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Err(error) if error.is_damage() => {
                self.0.push((what.to_owned(), error.to_string()));
                Ok(None)
            }
            found => found.map(Some),
        }
    }
}

/// The paths of inconsistent heads at and below a directory, parents before children.
fn collect(
    directory: &Arc<Directory>,
    doomed: &mut Vec<String>,
    kept: &mut Kept<'_>,
) -> Result<()> {
    let mut pending = vec![Arc::clone(directory)];
    while let Some(directory) = pending.pop() {
        // The root and the trees of the pool's own are never received.
        if directory.component().starts_with('$') {
            continue;
        }
        let name = directory.name();
        let left_over = kept.unless_damaged(&name, is_to_go(&directory))?;
        if left_over == Some(true) {
            doomed.push(name.clone());
        }
        let children = kept.unless_damaged(&name, directory.all_children())?;
        pending.extend(children.unwrap_or_default());
    }
    Ok(())
}

fn is_to_go(directory: &Directory) -> Result<bool> {
    match directory.head()? {
        Some(head) if directory.parent().is_some() => is_left_over(&head),
        Some(_) | None => Ok(false),
    }
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
