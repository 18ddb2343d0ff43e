//! A pool's datasets in memory, simple enough to be right: heads with their snapshots, clones, bookmarks, holds and
//! properties, and the tree of files in each.

pub mod choose;
pub mod real;

use crate::model::Tree;
use dsl::PropertyValue;
use std::collections::{BTreeMap, BTreeSet};

/// The number of a snapshot in a [`PoolModel`]: later ones are larger.
pub type SnapshotId = u64;

/// A snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number.
    pub id: SnapshotId,
    /// Its short name.
    pub name: String,
    /// The files when it was taken.
    pub tree: Tree,
    /// Names of its holds.
    pub holds: BTreeSet<String>,
    /// It goes with its last clone or hold.
    pub deferred: bool,
}

/// A dataset that can be changed.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Its files.
    pub tree: Tree,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// What it was cloned from.
    pub origin: Option<SnapshotId>,
    /// Bookmarks, with the snapshot that each remembers.
    pub bookmarks: BTreeMap<String, SnapshotId>,
    /// Properties set here.
    pub properties: BTreeMap<String, PropertyValue>,
}

/// One change of the tree of datasets. Names are full names.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new file system.
    Create(String),
    /// A clone of a snapshot (first) under a path (second).
    Clone(String, String),
    /// Destroy a head.
    Destroy(String),
    /// Destroy snapshots of one head, now or (true) when they may.
    DestroySnapshots(Vec<String>, bool),
    /// Snapshots of several heads, all of one moment.
    Snapshot(Vec<String>),
    /// Back to a snapshot's short name, which must be the latest.
    Rollback(String, String),
    /// Make a clone independent of its origin.
    Promote(String),
    /// Rename a head with all under it.
    Rename(String, String),
    /// Rename a snapshot.
    RenameSnapshot(String, String),
    /// Hold a snapshot.
    Hold(String, String),
    /// Release a hold.
    Release(String, String),
    /// A bookmark (first) of a snapshot (second).
    Bookmark(String, String),
    /// Destroy a bookmark.
    DestroyBookmark(String),
    /// Set a property.
    Set(String, String, PropertyValue),
    /// Inherit a property.
    Inherit(String, String),
}

/// The datasets of a pool, by path.
#[derive(Clone, Debug)]
pub struct PoolModel {
    heads: BTreeMap<String, Head>,
    next: SnapshotId,
}

/// Why the model refuses a change.
pub type Refused = &'static str;

type Outcome = Result<(), Refused>;

/// The part of a full name before its last `separator`, and the part after.
///
/// # Panics
/// If there is no separator: the caller's bug.
#[must_use]
pub fn split(name: &str, separator: char) -> (&str, &str) {
    name.rsplit_once(separator).expect("a full name")
}

impl PoolModel {
    /// A new pool: its root file system alone.
    #[must_use]
    pub fn new(pool: &str) -> Self {
        Self {
            heads: BTreeMap::from([(pool.to_owned(), Head::default())]),
            next: 1,
        }
    }

    /// Every head by its path.
    #[must_use]
    pub const fn heads(&self) -> &BTreeMap<String, Head> {
        &self.heads
    }

    /// The files of a head.
    ///
    /// # Panics
    /// If there is no such head: the caller's bug.
    pub fn tree_mut(&mut self, path: &str) -> &mut Tree {
        &mut self.heads.get_mut(path).expect("a head").tree
    }

    fn head(&self, path: &str) -> Result<&Head, Refused> {
        self.heads.get(path).ok_or("no such head")
    }

    fn head_mut(&mut self, path: &str) -> Result<&mut Head, Refused> {
        self.heads.get_mut(path).ok_or("no such head")
    }

    fn snapshot(&self, name: &str) -> Result<&Snapshot, Refused> {
        let (path, short) = split(name, '@');
        let mut all = self.head(path)?.snapshots.iter();
        all.find(|one| one.name == short).ok_or("no such snapshot")
    }

    fn snapshot_mut(&mut self, name: &str) -> Result<&mut Snapshot, Refused> {
        let (path, short) = split(name, '@');
        let mut all = self.head_mut(path)?.snapshots.iter_mut();
        all.find(|one| one.name == short).ok_or("no such snapshot")
    }

    /// The full name of a snapshot.
    #[must_use]
    pub fn snapshot_name(&self, id: SnapshotId) -> Option<String> {
        self.heads.iter().find_map(|(path, head)| {
            let found = head.snapshots.iter().find(|one| one.id == id)?;
            Some(format!("{path}@{}", found.name))
        })
    }

    fn has_clones(&self, id: SnapshotId) -> bool {
        self.heads.values().any(|head| head.origin == Some(id))
    }

    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.heads.keys().any(|other| other.starts_with(&below))
    }

    /// The value of a property that holds at a head, from the nearest above that has one.
    #[must_use]
    pub fn effective(&self, path: &str, property: &str) -> Option<&PropertyValue> {
        let mut at = Some(path);
        while let Some(path) = at {
            if let Some(value) = self.heads.get(path)?.properties.get(property) {
                return Some(value);
            }
            at = path.rsplit_once('/').map(|(parent, _)| parent);
        }
        None
    }

    /// Does to the model what the change says.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn apply(&mut self, change: &Change) -> Outcome {
        match change {
            Change::Create(path) => self.add(path, Head::default()),
            Change::Clone(origin, path) => {
                let origin = self.snapshot(origin)?;
                let head = Head {
                    tree: origin.tree.clone(),
                    origin: Some(origin.id),
                    ..Head::default()
                };
                self.add(path, head)
            }
            Change::Destroy(path) => self.destroy(path),
            Change::DestroySnapshots(names, defer) => self.destroy_snapshots(names, *defer),
            Change::Snapshot(names) => self.take(names),
            Change::Rollback(path, short) => {
                let head = self.head_mut(path)?;
                let latest = head.snapshots.last().ok_or("no snapshot")?;
                if latest.name != *short {
                    return Err("not the latest snapshot");
                }
                head.tree = latest.tree.clone();
                Ok(())
            }
            Change::Promote(path) => self.promote(path),
            Change::Rename(from, to) => self.rename(from, to),
            _ => self.apply_small(change),
        }
    }

    fn apply_small(&mut self, change: &Change) -> Outcome {
        match change {
            Change::RenameSnapshot(from, to) => {
                let ((path, _), (other, short)) = (split(from, '@'), split(to, '@'));
                self.snapshot(from)?;
                if path != other {
                    return Err("of another head");
                }
                if self.snapshot(to).is_ok() {
                    return Err("the name is taken");
                }
                short.clone_into(&mut self.snapshot_mut(from)?.name);
                Ok(())
            }
            Change::Hold(name, tag) => {
                let fresh = self.snapshot_mut(name)?.holds.insert(tag.clone());
                fresh.then_some(()).ok_or("it is held so")
            }
            Change::Release(name, tag) => {
                let snapshot = self.snapshot_mut(name)?;
                let held = snapshot.holds.remove(tag);
                let id = snapshot.id;
                self.drop_deferred(id);
                held.then_some(()).ok_or("no such hold")
            }
            Change::Bookmark(name, source) => self.bookmark(name, source),
            Change::DestroyBookmark(name) => {
                let (path, short) = split(name, '#');
                let found = self.head_mut(path)?.bookmarks.remove(short);
                found.map(drop).ok_or("no such bookmark")
            }
            Change::Set(path, name, value) => {
                let properties = &mut self.head_mut(path)?.properties;
                properties.insert(name.clone(), value.clone());
                Ok(())
            }
            Change::Inherit(path, name) => {
                self.head_mut(path)?.properties.remove(name);
                Ok(())
            }
            _ => unreachable!("handled by the caller"),
        }
    }

    fn check_free(&self, path: &str) -> Outcome {
        let (parent, _) = path.rsplit_once('/').ok_or("the root")?;
        self.head(parent)?;
        if self.heads.contains_key(path) {
            return Err("the name is taken");
        }
        Ok(())
    }

    fn add(&mut self, path: &str, head: Head) -> Outcome {
        self.check_free(path)?;
        self.heads.insert(path.to_owned(), head);
        Ok(())
    }

    fn destroy(&mut self, path: &str) -> Outcome {
        let head = self.head(path)?;
        if !path.contains('/') || !head.snapshots.is_empty() || self.has_children(path) {
            return Err("the root, or it has snapshots or children");
        }
        let origin = head.origin;
        self.heads.remove(path);
        if let Some(origin) = origin {
            self.drop_deferred(origin);
        }
        Ok(())
    }

    /// A snapshot that waited for its last clone or hold goes.
    fn drop_deferred(&mut self, id: SnapshotId) {
        if self.has_clones(id) {
            return;
        }
        for head in self.heads.values_mut() {
            head.snapshots
                .retain(|one| one.id != id || !one.deferred || !one.holds.is_empty());
        }
    }

    fn destroy_snapshots(&mut self, names: &[String], defer: bool) -> Outcome {
        let mut ids = Vec::new();
        for name in names {
            let snapshot = self.snapshot(name)?;
            let in_use = !snapshot.holds.is_empty() || self.has_clones(snapshot.id);
            if in_use && !defer {
                return Err("held or cloned");
            }
            ids.push(snapshot.id);
        }
        for (name, id) in names.iter().zip(ids) {
            self.snapshot_mut(name)?.deferred = true;
            self.drop_deferred(id);
        }
        Ok(())
    }

    fn take(&mut self, names: &[String]) -> Outcome {
        for name in names {
            self.head(split(name, '@').0)?;
            if self.snapshot(name).is_ok() {
                return Err("the name is taken");
            }
        }
        let id = self.next;
        self.next += names.len() as u64;
        for (id, name) in (id..).zip(names) {
            let (path, short) = split(name, '@');
            let head = self.head_mut(path)?;
            let snapshot = Snapshot {
                id,
                name: short.to_owned(),
                tree: head.tree.clone(),
                holds: BTreeSet::new(),
                deferred: false,
            };
            head.snapshots.push(snapshot);
        }
        Ok(())
    }

    fn promote(&mut self, path: &str) -> Outcome {
        let clone = self.head(path)?;
        let origin = clone.origin.ok_or("no clone")?;
        let old = self.snapshot_name(origin).ok_or("its origin is gone")?;
        let old = split(&old, '@').0.to_owned();
        let names: Vec<&String> = clone.snapshots.iter().map(|one| &one.name).collect();
        let shared = |one: &Snapshot| one.id <= origin;
        let mut moving = self.head(&old)?.snapshots.iter().filter(|one| shared(one));
        if moving.any(|one| names.contains(&&one.name)) {
            return Err("a snapshot's name is taken");
        }
        let from = self.head_mut(&old)?;
        let mut snapshots: Vec<Snapshot> =
            from.snapshots.extract_if(.., |one| shared(one)).collect();
        let bookmarks: Vec<_> = from
            .bookmarks
            .extract_if(.., |_, id| *id <= origin)
            .collect();
        let old_origin = from.origin.replace(origin);
        let clone = self.head_mut(path)?;
        snapshots.append(&mut clone.snapshots);
        clone.snapshots = snapshots;
        clone.bookmarks.extend(bookmarks);
        clone.origin = old_origin;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Outcome {
        self.head(from)?;
        self.check_free(to)?;
        let below = format!("{from}/");
        if !from.contains('/') || to.starts_with(&below) {
            return Err("the root, or into itself");
        }
        let moves = |path: &str| path == from || path.starts_with(&below);
        let moved: Vec<_> = self.heads.extract_if(.., |path, _| moves(path)).collect();
        for (path, head) in moved {
            self.heads
                .insert(format!("{to}{}", &path[from.len()..]), head);
        }
        Ok(())
    }

    fn bookmark(&mut self, name: &str, source: &str) -> Outcome {
        let (path, short) = split(name, '#');
        let id = self.snapshot(source)?.id;
        let mut at = Some(path.to_owned());
        let mut limit = SnapshotId::MAX;
        let mut related = false;
        while let Some(path) = at {
            let head = self.head(&path)?;
            let mut own = head.snapshots.iter();
            related |= own.any(|one| one.id == id && id <= limit);
            limit = head.origin.unwrap_or(0);
            at = head.origin.and_then(|origin| self.snapshot_name(origin));
            at = at.map(|name| split(&name, '@').0.to_owned());
        }
        let head = self.head_mut(path)?;
        if !related || head.bookmarks.contains_key(short) {
            return Err("of another line, or the name is taken");
        }
        head.bookmarks.insert(short.to_owned(), id);
        Ok(())
    }
}
