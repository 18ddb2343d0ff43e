//! Raising the pool's version: what newer versions keep of the tree is made in the txg that says so. And what older
//! software counted in another way, counted anew.

use std::sync::Arc;

use dmu::Tx;
use format::dsl::DatasetPhys;
use format::uberblock::VERSION_FEATURES;
use format::version;

use crate::dataset::{Dataset, directory_clones, next_clones};
use crate::directory::Directory;
use crate::error::Result;
use crate::layer::Dsl;
use crate::services::SpaceClass;
use crate::task::{Task, TaskContext};
use crate::tasks::destroy::renew_unique;

/// Raises the version of the pool.
pub struct RaiseVersion {
    /// The version, higher than that of the pool.
    pub version: u64,
}

impl RaiseVersion {
    fn crosses(&self, context: &TaskContext<'_>, version: u64) -> bool {
        context.dsl.services().version() < version && self.version >= version
    }
}

impl Task for RaiseVersion {
    type Output = ();

    fn check(&mut self, _context: &TaskContext<'_>) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let directories = dsl.every_directory()?;
        if self.crosses(context, version::UNIQUE_ACCURATE) {
            for directory in &directories {
                count_unique(tx, directory)?;
            }
        }
        if self.crosses(context, version::ORIGIN) {
            let origin = dsl.make_origin(context)?;
            for directory in &directories {
                descend(dsl, tx, directory, &origin)?;
            }
        }
        if self.crosses(context, version::DEADLISTS) {
            dsl.make_later_frees(tx, self.version)?;
            for directory in &directories {
                note_clone(dsl, tx, directory)?;
            }
        }
        // Last: what fails before is undone.
        Ok(dsl.services().raise_version(tx, self.version)?)
    }
}

/// What a head has for itself counts from now on: what older software stored may be wrong.
fn count_unique(tx: &Tx, directory: &Directory) -> Result<()> {
    let Some(head) = directory.head()? else {
        return Ok(());
    };
    renew_unique(tx, &head)?;
    let accurate = DatasetPhys::FLAG_UNIQUE_ACCURATE;
    head.change(tx, |phys| phys.flags |= accurate)
}

/// A head descends from the origin of all if it is no clone, and what it descends from knows what came after it.
fn descend(dsl: &Dsl, tx: &Tx, directory: &Directory, origin: &Arc<Dataset>) -> Result<()> {
    let Some(head) = directory.head()? else {
        return Ok(());
    };
    let oldest = head.oldest_own()?;
    let before = directory.phys()?.origin;
    let before = if before.0 == 0 {
        let taken = origin.phys()?.creation_txg;
        oldest.change(tx, |phys| {
            phys.previous_snapshot = origin.id();
            phys.previous_snapshot_txg = taken;
        })?;
        directory.change(tx, |phys| phys.origin = origin.id())?;
        origin.change(tx, |phys| phys.child_count += 1)?;
        Arc::clone(origin)
    } else {
        dsl.dataset_by_id(before)?
    };
    let id = oldest.id().0;
    Ok(next_clones(dsl, tx, &before)?.add_int(tx, id, id)?)
}

/// The directory of the snapshot that a head descends from knows the head.
fn note_clone(dsl: &Dsl, tx: &Tx, directory: &Directory) -> Result<()> {
    let phys = directory.phys()?;
    let (head, origin) = (phys.head_dataset, phys.origin);
    if head.0 == 0 || origin.0 == 0 {
        return Ok(());
    }
    let above = dsl.dataset_by_id(origin)?.directory();
    Ok(directory_clones(dsl, tx, &above)?.add_int(tx, head.0, head.0)?)
}

/// Counts anew what heads have for themselves of which that is not known to be right.
struct CountUnique;

impl Task for CountUnique {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::Unlimited
    }

    fn check(&mut self, _context: &TaskContext<'_>) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        for head in context.dsl.inexact_heads()? {
            renew_unique(context.tx, &head)?;
        }
        Ok(())
    }
}

impl Dsl {
    /// Has what heads of an old pool have for themselves counted anew, where older software may have left it wrong.
    pub(super) fn count_unique(&self) -> Result<()> {
        if self.services().version() >= VERSION_FEATURES || self.inexact_heads()?.is_empty() {
            return Ok(());
        }
        self.run(CountUnique)
    }

    /// Heads that do not say that it is right what they have for themselves, and where it is not.
    fn inexact_heads(&self) -> Result<Vec<Arc<Dataset>>> {
        let mut found = Vec::new();
        for directory in self.every_directory()? {
            let Some(head) = directory.head()? else {
                continue;
            };
            let phys = head.phys()?;
            let accurate = phys.has_flag(DatasetPhys::FLAG_UNIQUE_ACCURATE);
            if !accurate && phys.unique_bytes != head.unshared_bytes()? {
                found.push(head);
            }
        }
        Ok(found)
    }
}
