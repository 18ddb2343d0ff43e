//! Datasets and snapshots.

use admin::changes::{
    Bookmark, CloneSnapshot, Create, Destroy, Hold, Promote, Release, Rename, Rollback, Snapshot,
    VolumeSpec,
};
use admin::rows::dataset::{REFERENCED, USED};
use admin::{Change, DatasetQuery, DestroyTarget, Selection, Types, Value};

use super::assignments::assignments;
use super::{DestroyOptions, Error, Pool, Result, RollbackOptions};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatasetKind {
    /// Files.
    FileSystem,
    /// A disk.
    Volume,
    /// A dataset as it was.
    Snapshot,
    /// A point in time without data.
    Bookmark,
}

/// A dataset, snapshot or bookmark in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetInfo {
    /// Its full name.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// The txg in which it was made: orders snapshots.
    pub created_txg: u64,
    /// Bytes that it refers to; 0 for a bookmark.
    pub referenced: u64,
    /// Bytes that would be free if it and what is below it were not there.
    pub used: u64,
}

/// Which datasets are listed.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.create_dataset("pond/a", &[])?;
/// pool.snapshot(&["pond/a@one"])?;
/// let snapshots = ListOptions::new().only(DatasetKind::Snapshot);
/// for found in pool.datasets("pond", snapshots)? {
///     assert_eq!(found.name, "pond/a@one");
/// }
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOptions {
    depth: Option<u32>,
    types: Types,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ListOptions {
    /// File systems and volumes, as deep as they go.
    #[must_use]
    pub fn new() -> Self {
        Self {
            depth: None,
            types: Types::HEADS,
        }
    }

    /// Not deeper than so many levels; 0: only where the list begins, 1: its snapshots and children, too.
    #[must_use]
    pub fn depth(mut self, levels: u32) -> Self {
        self.depth = Some(levels);
        self
    }

    /// Only of this kind.
    #[must_use]
    pub fn only(mut self, kind: DatasetKind) -> Self {
        self.types = match kind {
            DatasetKind::FileSystem => Types::FILESYSTEM,
            DatasetKind::Volume => Types::VOLUME,
            DatasetKind::Snapshot => Types::SNAPSHOT,
            DatasetKind::Bookmark => Types::BOOKMARK,
        };
        self
    }

    /// Snapshots and bookmarks, too.
    #[must_use]
    pub fn all(mut self) -> Self {
        self.types = Types::ALL;
        self
    }
}

impl Pool {
    /// Visits the datasets from `root` on in the order of their names (snapshots by age), in bounded memory.
    ///
    /// # Errors
    /// There is no `root`, a part cannot be read, or what `visit` returns.
    pub fn for_each_dataset(
        &self,
        root: &str,
        options: ListOptions,
        visit: &mut dyn FnMut(DatasetInfo) -> Result<()>,
    ) -> Result<()> {
        let names = [REFERENCED.name, USED.name];
        let query = DatasetQuery {
            roots: vec![root.to_owned()],
            depth: options.depth,
            types: options.types,
            properties: Selection::Names(names.map(str::to_owned).into()),
        };
        let mut ended = false;
        self.ask_pages(query, &mut |rows| {
            for row in rows {
                let number = |name| match row.get(name).map(|setting| &setting.value) {
                    Some(Value::Number(number)) => *number,
                    _ => 0,
                };
                let info = DatasetInfo {
                    kind: kind(row.kind),
                    created_txg: row.created_txg,
                    referenced: number(REFERENCED.name),
                    used: number(USED.name),
                    name: row.name,
                };
                if !ended {
                    visit(info).inspect_err(|_| ended = true)?;
                }
            }
            Ok(())
        })
    }

    /// The datasets from `root` on: see [`Pool::for_each_dataset`].
    ///
    /// # Errors
    /// There is no `root`, or a part cannot be read.
    pub fn datasets(&self, root: &str, options: ListOptions) -> Result<Vec<DatasetInfo>> {
        let mut found = Vec::new();
        self.for_each_dataset(root, options, &mut |info| {
            found.push(info);
            Ok(())
        })?;
        Ok(found)
    }

    /// Makes a file system with these properties.
    ///
    /// # Errors
    /// It exists, its parent does not, or a property makes no sense.
    pub fn create_dataset(&self, name: &str, properties: &[(&str, &str)]) -> Result<()> {
        self.change(Change::Create(Create {
            name: name.to_owned(),
            volume: None,
            properties: assignments(properties)?,
            parents: false,
            unmounted: true,
            key: None,
        }))
    }

    /// Makes a volume of `size` bytes, with these properties. It reserves its space, unless they say
    /// `("refreservation", "none")`.
    ///
    /// # Errors
    /// It exists, its parent does not, a property makes no sense, or there is no room.
    pub fn create_volume(&self, name: &str, size: u64, properties: &[(&str, &str)]) -> Result<()> {
        let sparse = ("refreservation", "none");
        let others: Vec<_> = properties
            .iter()
            .filter(|one| **one != sparse)
            .copied()
            .collect();
        self.change(Change::Create(Create {
            name: name.to_owned(),
            volume: Some(VolumeSpec {
                size,
                sparse: others.len() < properties.len(),
            }),
            properties: assignments(&others)?,
            parents: false,
            unmounted: true,
            key: None,
        }))
    }

    /// Makes a bookmark (`"tank/home#monday"`) of a snapshot or of another bookmark: what an incremental stream or
    /// `written#` can begin at when the snapshot is gone.
    ///
    /// # Errors
    /// There is no such snapshot, or the name is taken.
    pub fn bookmark(&self, source: &str, name: &str) -> Result<()> {
        self.change(Change::Bookmark(Bookmark {
            source: source.to_owned(),
            name: name.to_owned(),
        }))
    }

    /// Destroys a file system, volume, snapshot (`"tank/home@monday"`) or bookmark.
    ///
    /// # Errors
    /// There is none of that name; it has children, clones or holds, or somebody has its files open.
    pub fn destroy(&self, name: &str, options: DestroyOptions) -> Result<()> {
        let target = match (name.split_once('@'), name.contains('#')) {
            (Some((dataset, snapshot)), _) => DestroyTarget::Snapshots {
                dataset: dataset.to_owned(),
                specs: vec![snapshot.to_owned()],
            },
            (None, true) => DestroyTarget::Bookmark(name.to_owned()),
            (None, false) => DestroyTarget::Dataset(name.to_owned()),
        };
        self.change(Change::Destroy(Destroy {
            target,
            recursive: options.recursive,
            dependents: options.dependents,
            force: false,
            deferred: false,
            dry_run: false,
        }))
    }

    /// Gives a dataset, with all below it, or a snapshot another name. Open files stay open.
    ///
    /// # Errors
    /// There is none of that name, the new one is taken, or its parent is not there.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.change(Change::Rename(Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            parents: false,
            recursive: false,
            keep_mounts: true,
            force: false,
        }))
    }

    /// Takes snapshots, all of one moment.
    ///
    /// # Errors
    /// A dataset is not there or a snapshot is; none was taken then.
    pub fn snapshot(&self, names: &[&str]) -> Result<()> {
        self.take(names, false)
    }

    /// Takes a snapshot of a dataset and everything below it, all of one moment.
    ///
    /// # Errors
    /// As [`Pool::snapshot`].
    pub fn snapshot_recursive(&self, name: &str) -> Result<()> {
        self.take(&[name], true)
    }

    fn take(&self, names: &[&str], recursive: bool) -> Result<()> {
        self.change(Change::Snapshot(Snapshot {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            recursive,
            properties: Vec::new(),
        }))
    }

    /// The snapshots of a dataset, oldest first.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn snapshots(&self, dataset: &str) -> Result<Vec<DatasetInfo>> {
        if dataset.contains(['@', '#']) {
            let text = format!("'{dataset}' is not a dataset");
            return Err(Error::Invalid(text.into()));
        }
        let options = ListOptions::new().only(DatasetKind::Snapshot).depth(1);
        let mut found = self.datasets(dataset, options)?;
        let own = format!("{dataset}@");
        found.retain(|info| info.name.starts_with(&own));
        Ok(found)
    }

    /// Makes a dataset what it was at a snapshot. Handles on its files are stale then; handles on the file system go on
    /// with what is there now.
    ///
    /// # Errors
    /// It is not the newest, and `options` do not allow newer snapshots and bookmarks to be destroyed, or clones of
    /// these.
    pub fn rollback(&self, snapshot: &str, options: RollbackOptions) -> Result<()> {
        self.change(Change::Rollback(Rollback {
            snapshot: snapshot.to_owned(),
            destroy_later: options.newer,
            destroy_clones: options.clones,
            force: false,
        }))
    }

    /// Makes a dataset that begins as the snapshot is, and shares its blocks.
    ///
    /// # Errors
    /// The snapshot is not there, or the name is taken.
    pub fn clone_snapshot(
        &self,
        snapshot: &str,
        name: &str,
        properties: &[(&str, &str)],
    ) -> Result<()> {
        self.change(Change::Clone(CloneSnapshot {
            snapshot: snapshot.to_owned(),
            name: name.to_owned(),
            properties: assignments(properties)?,
            parents: false,
            unmounted: true,
        }))
    }

    /// Makes a clone the origin of its origin, so that the latter can be destroyed.
    ///
    /// # Errors
    /// It is no clone, or names of snapshots clash.
    pub fn promote(&self, name: &str) -> Result<()> {
        self.change(Change::Promote(Promote {
            name: name.to_owned(),
        }))
    }

    /// Keeps a snapshot from being destroyed until [`Pool::release`].
    ///
    /// # Errors
    /// It is not there, or held with this tag already.
    pub fn hold(&self, snapshot: &str, tag: &str) -> Result<()> {
        self.change(Change::Hold(Hold {
            tag: tag.to_owned(),
            snapshots: vec![snapshot.to_owned()],
            recursive: false,
        }))
    }

    /// Takes a hold back.
    ///
    /// # Errors
    /// There is none with this tag.
    pub fn release(&self, snapshot: &str, tag: &str) -> Result<()> {
        self.change(Change::Release(Release {
            tag: tag.to_owned(),
            snapshots: vec![snapshot.to_owned()],
            recursive: false,
        }))
    }
}

fn kind(types: Types) -> DatasetKind {
    match types {
        Types::VOLUME => DatasetKind::Volume,
        Types::SNAPSHOT => DatasetKind::Snapshot,
        Types::BOOKMARK => DatasetKind::Bookmark,
        _ => DatasetKind::FileSystem,
    }
}
