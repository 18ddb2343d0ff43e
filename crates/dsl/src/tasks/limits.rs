//! Limits on how many file systems and snapshots there may be below a directory, and the counts.
//!
//! Counts are kept below a directory from the moment that it is given its first limit, and in every
//! dataset that is made once any limit was set in the pool. A walk upwards ends at the first
//! directory that keeps none.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::dsl::key;
use format::features::FILESYSTEM_LIMITS;

use crate::actor::Actor;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::name::is_hidden;
use crate::property::Property;
use crate::property::dataset::{FILESYSTEM_LIMIT, SNAPSHOT_LIMIT};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// File systems and volumes below.
    FileSystems,
    /// Snapshots here and below.
    Snapshots,
}

impl Counted {
    /// The key of the count, and the property that limits it.
    const fn names(self) -> (&'static str, Property<u64>) {
        match self {
            Self::FileSystems => (key::FILESYSTEM_COUNT, FILESYSTEM_LIMIT),
            Self::Snapshots => (key::SNAPSHOT_COUNT, SNAPSHOT_LIMIT),
        }
    }
}

/// Changes a count of file systems or snapshots in a directory and those above it, as far as they
/// keep one.
pub(crate) fn change_count(tx: &Tx, from: &Arc<Directory>, key: &str, by: i64) -> Result<()> {
    let mut current = Some(Arc::clone(from));
    while let Some(directory) = current {
        let Some(count) = directory.extra_word(key)? else {
            break;
        };
        let zap = directory.dsl.mos.zapify(tx, &directory.object)?;
        zap.update(tx, key.as_bytes(), count.saturating_add_signed(by))?;
        current = directory.parent();
    }
    Ok(())
}

/// Refuses when what is about to be made below passes a limit set there or above. A limit does not
/// hold for who may change it.
pub(crate) fn check_limits<'a>(
    actor: &Actor,
    counted: Counted,
    made_in: impl Iterator<Item = &'a Arc<Directory>>,
) -> Result<()> {
    let mut more: BTreeMap<ObjectId, (Arc<Directory>, u64)> = BTreeMap::new();
    for directory in made_in {
        let mut current = Some(Arc::clone(directory));
        while let Some(directory) = current {
            current = directory.parent();
            let entry = more.entry(directory.id()).or_insert((directory, 0));
            entry.1 += 1;
        }
    }
    for (directory, more) in more.into_values() {
        check_at(actor, counted, &directory, more)?;
    }
    Ok(())
}

/// Refuses when what moves to under `to` passes a limit that does not hold where it is.
pub(super) fn check_moved(
    actor: &Actor,
    moved: &Arc<Directory>,
    from: &Arc<Directory>,
    to: &Arc<Directory>,
) -> Result<()> {
    if moved.dsl.services().references(&FILESYSTEM_LIMITS) == 0 {
        return Ok(());
    }
    let (file_systems, snapshots) = count(moved)?;
    let above: Vec<ObjectId> = from.ancestry().iter().map(|one| one.id()).collect();
    for directory in to.ancestry() {
        if above.contains(&directory.id()) {
            break;
        }
        check_at(actor, Counted::FileSystems, &directory, file_systems + 1)?;
        check_at(actor, Counted::Snapshots, &directory, snapshots)?;
    }
    Ok(())
}

fn check_at(actor: &Actor, counted: Counted, directory: &Arc<Directory>, more: u64) -> Result<()> {
    let (key, property) = counted.names();
    let Some(count) = directory.extra_word(key)? else {
        return Ok(());
    };
    let limit = directory.get(property)?.value;
    if more > 0 && count.saturating_add(more) > limit && !directory.permits(actor, property.name)? {
        return Err(DslError::Quota {
            name: directory.name(),
        });
    }
    Ok(())
}

/// How many file systems and snapshots a directory that moves takes along; none where nobody
/// counts. From now on it keeps them.
pub(super) fn known_counts(tx: &Tx, directory: &Arc<Directory>) -> Result<Option<(u64, u64)>> {
    let dsl = &directory.dsl;
    if dsl.services().references(&FILESYSTEM_LIMITS) == 0 {
        return Ok(None);
    }
    keep_counts(dsl, tx, directory).map(Some)
}

/// Begins to count in a directory that is given a limit, and in all below it.
pub(crate) fn start_counting(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<()> {
    let services = dsl.services();
    if services.references(&FILESYSTEM_LIMITS) == 0 {
        services.change_references(tx, &FILESYSTEM_LIMITS, 1)?;
    }
    keep_counts(dsl, tx, directory).map(drop)
}

/// A new directory has nothing below it.
pub(crate) fn count_from_now(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<()> {
    if dsl.services().references(&FILESYSTEM_LIMITS) == 0 {
        return Ok(());
    }
    store(dsl, tx, directory, (0, 0))
}

/// How many file systems and snapshots there are below: as kept, else counted.
fn count(directory: &Arc<Directory>) -> Result<(u64, u64)> {
    if let Some(known) = kept(directory)? {
        return Ok(known);
    }
    let mut found = (0, own_snapshots(directory)?);
    for child in directory.children()? {
        let below = count(&child)?;
        found = (found.0 + 1 + below.0, found.1 + below.1);
    }
    Ok(found)
}

/// The same, from now on kept, there and below.
fn keep_counts(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<(u64, u64)> {
    if let Some(known) = kept(directory)? {
        return Ok(known);
    }
    let mut found = (0, own_snapshots(directory)?);
    for child in directory.children()? {
        let below = keep_counts(dsl, tx, &child)?;
        found = (found.0 + 1 + below.0, found.1 + below.1);
    }
    store(dsl, tx, directory, found)?;
    Ok(found)
}

fn kept(directory: &Directory) -> Result<Option<(u64, u64)>> {
    let file_systems = directory.extra_word(key::FILESYSTEM_COUNT)?;
    Ok(file_systems.zip(directory.extra_word(key::SNAPSHOT_COUNT)?))
}

fn own_snapshots(directory: &Directory) -> Result<u64> {
    let mut found = 0;
    if let Some(head) = directory.head()? {
        for snapshot in head.snapshots()? {
            found += u64::from(!is_hidden(&snapshot.snapshot_name()?));
        }
    }
    Ok(found)
}

fn store(dsl: &Dsl, tx: &Tx, directory: &Directory, counts: (u64, u64)) -> Result<()> {
    let zap = dsl.mos.zapify(tx, &directory.object)?;
    zap.update(tx, key::FILESYSTEM_COUNT.as_bytes(), counts.0)?;
    Ok(zap.update(tx, key::SNAPSHOT_COUNT.as_bytes(), counts.1)?)
}
