//! Bookmarks with redaction lists: made with an empty list, which grows by tasks until it says that it is complete. One
//! that was interrupted is gone on with.

use std::sync::Arc;

use base::{Guid, ObjectId};
use format::features;
use format::redaction::{RedactedRange, RedactionHead, SNAPSHOTS_MAX};

use super::bookmark::{add, bookmark_parts, of_snapshot, remove};
use crate::dataset::{Bookmark, Dataset};
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
        let many = RedactionHead::spills(snapshots).then_some(&features::REDACTION_LIST_SPILL);
        for feature in needed.into_iter().chain(many) {
            if !dsl.services().is_enabled(feature) {
                return Err(DslError::FeatureDisabled {
                    feature: feature.name,
                });
            }
        }
        if snapshots > SNAPSHOTS_MAX {
            return Err(DslError::Unsupported {
                name: self.name.clone(),
                what: "more than 4,096 redaction snapshots",
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

/// A list that is being made. What its head and its snapshots are called may change meanwhile.
#[derive(Clone, Debug)]
pub struct GrowingList {
    /// The head whose bookmark it is.
    head: ObjectId,
    /// The bookmark's name there.
    bookmark: String,
    list: ObjectId,
    /// The object and the block up to which it is complete.
    reached: (ObjectId, u64),
}

impl GrowingList {
    /// The list's object.
    #[must_use]
    pub const fn id(&self) -> ObjectId {
        self.list
    }

    /// The object and the block up to which it is complete; all ones: there is no more.
    #[must_use]
    pub const fn reached(&self) -> (ObjectId, u64) {
        self.reached
    }

    /// The list, and its head and bookmark, as they are now.
    fn look(&self, dsl: &Arc<Dsl>) -> Result<(Arc<Dataset>, Bookmark, RedactionList)> {
        let gone = || DslError::not_found(self.bookmark.as_str());
        let head = dsl.dataset_by_id(self.head)?;
        if head.is_snapshot() {
            return Err(gone());
        }
        let found = head.bookmark(&self.bookmark)?.ok_or_else(gone)?;
        let list = head.redaction_list(&found)?;
        let is_this =
            |list: &RedactionList| list.id() == self.list && list.reached() == self.reached;
        let list = list.filter(is_this).ok_or_else(gone)?;
        Ok((head, found, list))
    }
}

impl Task for BeginRedaction {
    type Output = GrowingList;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (snapshot, head, guids) = self.look(context.dsl)?;
        self.check_features(context.dsl, guids.len())?;
        self.existing((&snapshot, &head), &guids).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<GrowingList> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (snapshot, head, guids) = self.look(dsl)?;
        let (path, short) = bookmark_parts(&self.name)?;
        let growing = |list: &RedactionList| GrowingList {
            head: head.id(),
            bookmark: short.to_owned(),
            list: list.id(),
            reached: list.reached(),
        };
        if let Some(list) = self.existing((&snapshot, &head), &guids)? {
            return Ok(growing(&list));
        }
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
        Ok(growing(&list))
    }
}

/// Adds ranges to a list.
pub struct ExtendRedaction {
    /// The list.
    pub list: GrowingList,
    /// What comes behind that up to which it is complete.
    pub ranges: Vec<RedactedRange>,
    /// The object and the block up to which it is complete then; all ones: there is no more.
    pub reached: (ObjectId, u64),
}

impl Task for ExtendRedaction {
    type Output = GrowingList;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.list.look(context.dsl).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<GrowingList> {
        let (_, _, mut list) = self.list.look(context.dsl)?;
        list.append(context.tx, &self.ranges, self.reached)?;
        Ok(GrowingList {
            reached: self.reached,
            ..self.list.clone()
        })
    }
}

/// Destroys the bookmark of a list that is not complete and not to be completed.
pub struct AbortRedaction {
    /// The list.
    pub list: GrowingList,
}

impl Task for AbortRedaction {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.list.look(context.dsl).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (head, bookmark, _) = self.list.look(context.dsl)?;
        remove(context, &head, &bookmark)
    }
}
