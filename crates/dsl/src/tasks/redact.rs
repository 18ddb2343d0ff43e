//! Bookmarks with redaction lists: made with an empty list, which grows by tasks until it says that it is complete. One
//! that was interrupted is gone on with.

use std::sync::Arc;

use base::{Guid, ObjectId};
use format::features;
use format::redaction::{RedactedRange, SNAPSHOTS_IN_BONUS};

use super::bookmark::{add, bookmark_parts, of_snapshot};
use crate::dataset::Dataset;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::redaction::RedactionList;
use crate::services::{HistoryEvent, SpaceClass};
use crate::task::{Task, TaskContext};

/// Makes a bookmark of a snapshot with a redaction list, or finds the one that is not complete.
pub struct BeginRedaction {
    /// The bookmark's full name.
    pub name: String,
    /// The snapshot's full name.
    pub source: String,
    /// The full names of the snapshots that the list is by: later ones of the same file system, or of clones.
    pub by: Vec<String>,
}

impl BeginRedaction {
    /// The snapshot, the head that the bookmark is of, and the guids of the snapshots that the list is by.
    fn look(&self, dsl: &Arc<Dsl>) -> Result<(Arc<Dataset>, Arc<Dataset>, Vec<Guid>)> {
        let snapshot = find_snapshot(dsl, &self.source)?;
        let (path, _) = bookmark_parts(&self.name)?;
        let head = dsl.head(path)?;
        if snapshot.directory().id() != head.directory().id() {
            return Err(self.unrelated(&self.source));
        }
        if snapshot.redacted_by()?.is_some() {
            return Err(DslError::Unsupported {
                name: self.source.clone(),
                what: "a redacted snapshot",
            });
        }
        let mut guids = Vec::new();
        for name in &self.by {
            let other = find_snapshot(dsl, name)?;
            if other.id() == snapshot.id() || !snapshot.is_before(&other)? {
                return Err(self.unrelated(name));
            }
            let guid = other.guid()?;
            if !guids.contains(&guid) {
                guids.push(guid);
            }
        }
        Ok((snapshot, head, guids))
    }

    fn unrelated(&self, name: &str) -> DslError {
        DslError::Unrelated {
            name: name.to_owned(),
            other: self.source.clone(),
        }
    }

    fn check_features(&self, dsl: &Dsl, snapshots: usize) -> Result<()> {
        let needed = [
            &features::BOOKMARKS,
            &features::BOOKMARK_V2,
            &features::REDACTION_BOOKMARKS,
        ];
        for feature in needed {
            if !dsl.services().is_enabled(feature) {
                return Err(DslError::FeatureDisabled {
                    feature: feature.name,
                });
            }
        }
        if snapshots > SNAPSHOTS_IN_BONUS {
            return Err(DslError::Unsupported {
                name: self.name.clone(),
                what: "more than 36 redaction snapshots",
            });
        }
        Ok(())
    }

    /// The list of a bookmark that is there, if it is this one and not complete.
    fn existing(
        &self,
        (snapshot, head): (&Dataset, &Dataset),
        guids: &[Guid],
    ) -> Result<Option<RedactionList>> {
        let (_, short) = bookmark_parts(&self.name)?;
        let Some(found) = head.bookmark(short)? else {
            return Ok(None);
        };
        let list = head.redaction_list(&found)?;
        let is_same = |list: &RedactionList| !list.is_complete() && list.is_by(guids);
        match list.filter(is_same) {
            Some(list) if found.phys.guid == snapshot.guid()? => Ok(Some(list)),
            Some(_) | None => Err(DslError::exists(self.name.as_str())),
        }
    }
}

fn find_snapshot(dsl: &Arc<Dsl>, name: &str) -> Result<Arc<Dataset>> {
    let found = dsl.dataset(name)?;
    if found.is_snapshot() {
        return Ok(found);
    }
    Err(DslError::NotSnapshot {
        name: name.to_owned(),
    })
}

impl Task for BeginRedaction {
    /// The object and the block up to which the list is complete.
    type Output = (ObjectId, u64);

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (snapshot, head, guids) = self.look(context.dsl)?;
        self.check_features(context.dsl, guids.len())?;
        self.existing((&snapshot, &head), &guids).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<(ObjectId, u64)> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (snapshot, head, guids) = self.look(dsl)?;
        if let Some(list) = self.existing((&snapshot, &head), &guids)? {
            return Ok(list.reached());
        }
        let (path, short) = bookmark_parts(&self.name)?;
        let list = RedactionList::create(dsl, tx, &guids)?;
        let mut phys = of_snapshot(dsl, &snapshot)?;
        phys.redaction = list.id();
        add(context, &head, short, &phys)?;
        context.record(&HistoryEvent {
            name: "bookmark",
            dataset: path,
            dataset_id: head.id(),
            text: &format!(
                "name={short} creation_txg={} target_snap={} redact_obj={}",
                phys.creation_txg,
                phys.guid,
                list.id().0
            ),
        })?;
        Ok(list.reached())
    }
}

/// Adds ranges to the list of a bookmark.
pub struct ExtendRedaction {
    /// The bookmark's full name.
    pub name: String,
    /// The guid of its snapshot.
    pub guid: Guid,
    /// The object and the block up to which the list was complete.
    pub from: (ObjectId, u64),
    /// What comes behind that.
    pub ranges: Vec<RedactedRange>,
    /// The object and the block up to which it is complete then; all ones: there is no more.
    pub reached: (ObjectId, u64),
}

impl ExtendRedaction {
    fn list(&self, dsl: &Arc<Dsl>) -> Result<RedactionList> {
        let (path, short) = bookmark_parts(&self.name)?;
        let head = dsl.head(path)?;
        let gone = || DslError::not_found(self.name.as_str());
        let found = head.bookmark(short)?.ok_or_else(gone)?;
        let list = head.redaction_list(&found)?.ok_or_else(gone)?;
        if found.phys.guid != self.guid || list.reached() != self.from {
            return Err(DslError::busy(self.name.clone()));
        }
        Ok(list)
    }
}

impl Task for ExtendRedaction {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.list(context.dsl).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let mut list = self.list(context.dsl)?;
        list.append(context.tx, &self.ranges, self.reached)
    }
}
