//! Holds: names that keep a snapshot from being destroyed.

use std::sync::Arc;

use base::ObjectId;
use dmu::Zap;
use format::config::directory as keys;
use format::dsl::DatasetPhys;
use format::{ObjectType, version};

use super::destroy::destroy_snapshot;
use super::without_repeats;
use crate::dataset::Dataset;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::{HistoryEvent, SpaceClass};
use crate::task::{Task, TaskContext};

/// Holds snapshots.
pub struct Hold {
    /// Full names of snapshots, each with a hold's name.
    pub holds: Vec<(String, String)>,
}

fn snapshot_of(context: &TaskContext<'_>, name: &str) -> Result<Arc<Dataset>> {
    let snapshot = context.dsl.dataset(name)?;
    if snapshot.is_snapshot() {
        Ok(snapshot)
    } else {
        Err(DslError::NotSnapshot {
            name: name.to_owned(),
        })
    }
}

impl Task for Hold {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        context.dsl.require_version(version::HOLDS)?;
        without_repeats(&mut self.holds);
        /// Tags are names in a ZAP; temporary ones get a prefix there.
        const TAG_MAX: usize = 255 - 17;
        for (name, tag) in &self.holds {
            let snapshot = snapshot_of(context, name)?;
            if tag.is_empty() || tag.len() > TAG_MAX {
                return Err(DslError::BadValue {
                    name: name.clone(),
                    property: "hold".to_owned(),
                    value: tag.clone(),
                });
            }
            if snapshot.holds()?.iter().any(|hold| hold.tag == *tag) {
                return Err(DslError::HoldExists {
                    name: name.clone(),
                    tag: tag.clone(),
                });
            }
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        for (name, tag) in &self.holds {
            let snapshot = snapshot_of(context, name)?;
            let id = snapshot.phys()?.user_references;
            let zap = if id.0 == 0 {
                let zap = dsl.mos.new_zap(tx, ObjectType::USER_REFERENCES, 0)?;
                snapshot.change(tx, |phys| phys.user_references = zap.object().id())?;
                zap
            } else {
                dsl.mos.zap(id)?
            };
            zap.add(tx, tag.as_bytes(), dsl.services().clock().now_s())?;
            context.record(&HistoryEvent {
                name: "hold",
                dataset: name,
                dataset_id: snapshot.id(),
                text: &format!("tag={tag} temp=0 refs={}", snapshot.holds()?.len()),
            })?;
        }
        Ok(())
    }
}

/// Releases holds. A snapshot that waited for its last hold or clone to go is destroyed.
pub struct Release {
    /// Full names of snapshots, each with a hold's name.
    pub holds: Vec<(String, String)>,
}

impl Task for Release {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::ExtraReserved
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        without_repeats(&mut self.holds);
        for (name, tag) in &self.holds {
            let snapshot = snapshot_of(context, name)?;
            if !snapshot.holds()?.iter().any(|hold| hold.tag == *tag) {
                return Err(DslError::NoSuchHold {
                    name: name.clone(),
                    tag: tag.clone(),
                });
            }
            // With its last hold it may go.
            let phys = snapshot.phys()?;
            let released = self.holds.iter().filter(|(other, _)| other == name).count();
            if phys.has_flag(DatasetPhys::FLAG_DEFER_DESTROY)
                && phys.child_count == 1
                && snapshot.holds()?.len() == released
                && snapshot.is_held_long()
            {
                return Err(DslError::busy(name.as_str()));
            }
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        for (name, tag) in &self.holds {
            let snapshot = snapshot_of(context, name)?;
            release(context, &snapshot, tag)?;
            let phys = snapshot.phys()?;
            let left = snapshot.holds()?.len();
            let deferred = phys.has_flag(DatasetPhys::FLAG_DEFER_DESTROY);
            if left == 0 && deferred && phys.child_count == 1 {
                destroy_snapshot(context, &snapshot)?;
            }
        }
        Ok(())
    }
}

impl Dsl {
    /// The ZAP of temporary holds: object number and tag to the time of the hold.
    pub(super) fn temporary_holds(&self) -> Result<Option<Zap>> {
        let id = self.mos.directory_word(keys::TEMPORARY_HOLDS)?;
        id.filter(|id| *id != 0)
            .map(|id| self.mos.zap(ObjectId(id)))
            .transpose()
    }
}

/// The key of a temporary hold in the pool's list of them.
fn temporary_key(snapshot: ObjectId, tag: &str) -> String {
    format!("{:x}-{tag}", snapshot.0)
}

/// Removes a hold that a snapshot has.
pub(super) fn release(context: &TaskContext<'_>, snapshot: &Arc<Dataset>, tag: &str) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let holds = snapshot.phys()?.user_references;
    dsl.mos.zap(holds)?.remove(tx, tag.as_bytes())?;
    if let Some(temporary) = dsl.temporary_holds()? {
        let key = temporary_key(snapshot.id(), tag);
        if temporary.lookup(key.as_bytes())?.is_some() {
            temporary.remove(tx, key.as_bytes())?;
        }
    }
    let left = snapshot.holds()?.len();
    context.record(&HistoryEvent {
        name: "release",
        dataset: &snapshot.name()?,
        dataset_id: snapshot.id(),
        text: &format!("tag={tag} refs={left}"),
    })
}
