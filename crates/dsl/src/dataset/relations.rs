//! A dataset's relatives: snapshots, clones, holds, bookmarks.

use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::ZapMatch;
use format::bookmark::BookmarkPhys;
use format::deadlist::parse_integer_key;
use format::dsl::DatasetPhys;
use format::version;

use super::Dataset;
use crate::error::{DslError, Result};
use crate::mos::name_of;
use crate::name::is_hidden;

/// A bookmark of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The name after the `#`.
    pub name: String,
    /// What it keeps of its snapshot.
    pub phys: BookmarkPhys,
}

/// A hold of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub tag: String,
    /// When it was made: seconds since 1970.
    pub time: u64,
}

impl Dataset {
    /// The snapshot of this head with a name.
    ///
    /// # Errors
    /// This is no head, or the snapshot cannot be read.
    pub fn snapshot(&self, name: &str) -> Result<Option<Arc<Self>>> {
        let phys = self.phys()?;
        let stamp = self.dsl.stamp();
        let zap = self.snapshot_names()?;
        let how = if phys.has_flag(DatasetPhys::FLAG_CASE_INSENSITIVE) {
            ZapMatch::Normalized
        } else {
            ZapMatch::Exact
        };
        match zap.lookup_matching(name.as_bytes(), how)? {
            None => Ok(None),
            Some(found) => {
                let stored = name_of(&found.name);
                self.dsl
                    .snapshot_by_id(ObjectId(found.value), (&stored, &zap), stamp)
                    .map(Some)
            }
        }
    }

    /// All snapshots of this head, oldest first; hidden ones are left out.
    ///
    /// # Errors
    /// A snapshot cannot be read.
    pub fn snapshots(&self) -> Result<Vec<Arc<Self>>> {
        let found = self.named_snapshots()?.into_iter();
        Ok(found.map(|(_, snapshot)| snapshot).collect())
    }

    /// [`Self::snapshots`] with their names.
    ///
    /// # Errors
    /// A snapshot cannot be read.
    pub fn named_snapshots(&self) -> Result<Vec<(String, Arc<Self>)>> {
        let mut found = Vec::new();
        let stamp = self.dsl.stamp();
        let names = self.snapshot_names()?;
        for entry in names.entries()? {
            let name = name_of(&entry.name);
            if !is_hidden(&name) {
                let id = ObjectId(entry.value);
                let snapshot = self.dsl.snapshot_by_id(id, (&name, &names), stamp)?;
                found.push((snapshot.phys()?.creation_txg, name, snapshot));
            }
        }
        found.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let found = found.into_iter();
        Ok(found.map(|(_, name, snapshot)| (name, snapshot)).collect())
    }

    /// Whether this head has snapshots, hidden ones included.
    ///
    /// # Errors
    /// The names of snapshots cannot be read.
    pub fn has_snapshots(&self) -> Result<bool> {
        Ok(!self.snapshot_names()?.is_empty()?)
    }

    /// The dataset before this one: the next older snapshot, or the origin of a clone.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn previous(&self) -> Result<Option<Arc<Self>>> {
        let previous = self.phys()?.previous_snapshot;
        if previous.0 == 0 {
            Ok(None)
        } else {
            self.dsl.dataset_by_id(previous).map(Some)
        }
    }

    /// The latest snapshot of this head; none when it has no snapshot of its own.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn latest_snapshot(&self) -> Result<Option<Arc<Self>>> {
        let directory = self.phys()?.directory;
        let previous = self.previous()?;
        Ok(match previous {
            Some(previous) if previous.phys()?.directory == directory => Some(previous),
            _ => None,
        })
    }

    /// The dataset after this snapshot in its own chain: the next newer snapshot, or the head.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn next(&self) -> Result<Option<Arc<Self>>> {
        let next = self.phys()?.next_snapshot;
        if next.0 == 0 {
            Ok(None)
        } else {
            self.dsl.dataset_by_id(next).map(Some)
        }
    }

    /// The successors of this snapshot in clones: each clone's oldest snapshot, or its head.
    pub(crate) fn next_clones(&self) -> Result<Vec<Arc<Self>>> {
        if self.dsl.services().version() < version::ORIGIN {
            return self.next_clones_by_search();
        }
        let zap = self.phys()?.next_clones;
        if zap.0 == 0 {
            return Ok(Vec::new());
        }
        let entries = self.dsl.mos.zap(zap)?.entries()?;
        let numbers = entries
            .iter()
            .filter_map(|entry| parse_integer_key(&entry.name));
        numbers
            .map(|number| self.dsl.dataset_by_id(ObjectId(number)))
            .collect()
    }

    /// The same where snapshots do not note them: every directory is looked at, if there are any.
    fn next_clones_by_search(&self) -> Result<Vec<Arc<Self>>> {
        let mut found = Vec::new();
        if self.phys()?.child_count <= 1 {
            return Ok(found);
        }
        for directory in self.dsl.every_directory()? {
            if directory.phys()?.origin == self.id()
                && let Some(head) = directory.head()?
            {
                found.push(head.oldest_own()?);
            }
        }
        Ok(found)
    }

    /// The oldest dataset of a head's directory in its chain: a snapshot, or the head itself.
    pub(crate) fn oldest_own(self: &Arc<Self>) -> Result<Arc<Self>> {
        let directory = self.phys()?.directory;
        let mut current = Arc::clone(self);
        while let Some(previous) = current.previous()? {
            if previous.phys()?.directory != directory {
                break;
            }
            current = previous;
        }
        Ok(current)
    }

    /// The txgs of all snapshots before this dataset, down to 0: what its deadlist has as keys.
    pub(crate) fn txgs_before(self: &Arc<Self>) -> Result<Vec<Txg>> {
        let mut found = Vec::new();
        let mut current = Some(Arc::clone(self));
        while let Some(dataset) = current {
            found.push(dataset.phys()?.previous_snapshot_txg);
            current = dataset.previous()?;
        }
        Ok(found)
    }

    /// What a head does not share with the snapshot before it, reckoned from what that has and this one no longer.
    pub(crate) fn unshared_bytes(&self) -> Result<u64> {
        let shared = match self.previous()? {
            Some(previous) => {
                let dead = self.deadlist()?.sizes()?.used;
                previous
                    .phys()?
                    .referenced_bytes
                    .saturating_add_signed(-dead)
            }
            None => 0,
        };
        Ok(self.phys()?.referenced_bytes.saturating_sub(shared))
    }

    /// The heads of the clones of this snapshot, in no order.
    ///
    /// # Errors
    /// A clone cannot be read.
    pub fn clones(&self) -> Result<Vec<Arc<Self>>> {
        let mut heads = Vec::new();
        for clone in self.next_clones()? {
            heads.extend(clone.directory().head()?);
        }
        Ok(heads)
    }

    /// What comes after this snapshot: the dataset after it in its own chain, and the oldest one of
    /// each clone. A head has none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn successors(&self) -> Result<Vec<ObjectId>> {
        if !self.is_snapshot() {
            return Ok(Vec::new());
        }
        let mut found: Vec<_> = self.next_clones()?.iter().map(|clone| clone.id()).collect();
        let next = self.phys()?.next_snapshot;
        if next.0 != 0 {
            found.push(next);
        }
        Ok(found)
    }

    /// The names of the clones of this snapshot, in order.
    ///
    /// # Errors
    /// A clone cannot be read.
    pub fn clone_names(&self) -> Result<Vec<String>> {
        let clones = self.next_clones()?;
        let mut names: Vec<_> = clones
            .iter()
            .map(|clone| clone.directory().name())
            .collect();
        names.sort();
        Ok(names)
    }

    /// The holds of this snapshot, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn holds(&self) -> Result<Vec<Hold>> {
        let zap = self.phys()?.user_references;
        if zap.0 == 0 {
            return Ok(Vec::new());
        }
        let entries = self.dsl.mos.zap(zap)?.entries()?;
        let mut holds: Vec<_> = entries
            .iter()
            .map(|entry| Hold {
                tag: name_of(&entry.name),
                time: entry.value,
            })
            .collect();
        holds.sort_by(|one, other| one.tag.cmp(&other.tag));
        Ok(holds)
    }

    /// The bookmarks of this head, oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn bookmarks(&self) -> Result<Vec<Bookmark>> {
        let Some(zap) = self.bookmark_zap()? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in zap.entries()? {
            let value = zap.lookup_value(&entry.name)?;
            let words = value.map(|value| value.to_words()).unwrap_or_default();
            let phys = BookmarkPhys::from_words(&words).map_err(|source| DslError::Format {
                object: zap.object().id(),
                source,
            })?;
            found.push(Bookmark {
                name: name_of(&entry.name),
                phys,
            });
        }
        found.sort_by(|one, other| {
            (one.phys.creation_txg, &one.name).cmp(&(other.phys.creation_txg, &other.name))
        });
        Ok(found)
    }

    /// The bookmark of this head with a name.
    ///
    /// # Errors
    /// The bookmarks cannot be read.
    pub fn bookmark(&self, name: &str) -> Result<Option<Bookmark>> {
        Ok(self
            .bookmarks()?
            .into_iter()
            .find(|bookmark| bookmark.name == name))
    }

    /// Whether this snapshot is `other` or older than it in `other`'s ancestry.
    ///
    /// # Errors
    /// A snapshot cannot be read.
    pub fn is_before(&self, other: &Self) -> Result<bool> {
        let mut current = other.phys()?.previous_snapshot;
        let mine = self.phys()?.creation_txg;
        while current.0 != 0 {
            if current == self.id() {
                return Ok(true);
            }
            let next = self.dsl.dataset_by_id(current)?.phys()?;
            if next.creation_txg <= mine {
                return Ok(false);
            }
            current = next.previous_snapshot;
        }
        Ok(false)
    }

    /// The creation txg of the snapshot that this dataset's directory was cloned from; blocks born
    /// up to then are not charged here.
    pub(crate) fn origin_txg(&self) -> Result<Txg> {
        let origin = self.directory().phys()?.origin;
        if origin.0 == 0 {
            return Ok(Txg(0));
        }
        Ok(self.dsl.dataset_by_id(origin)?.phys()?.creation_txg)
    }
}
