//! Walks datasets in name order, page by page: nothing is opened, nothing is queued.

use std::collections::BTreeSet;
use std::io;

use admin::{DatasetQuery, DatasetRow, Failure, FailureKind, Selection, Sink, Types};

use super::answers::{Pages, paged};
use super::property_source::{PropertySource, all, named};

#[cfg(test)]
mod tests;

/// How many datasets go into one part of an answer.
const PAGE: usize = 256;
/// How many properties: whoever asks for thousands gets them a few datasets at a time.
const CELLS: usize = 16_384;
/// How often a dataset is looked at whose relatives come and go meanwhile.
const LOOKS_MAX: usize = 16;

/// What is in a pool, by name.
pub(crate) trait DatasetIndex {
    /// The pool's root.
    fn root(&self) -> String;
    /// Changes with every change of datasets and properties.
    fn stamp(&self) -> u64;
    /// Waits for the change that is being made, if one is.
    fn settle(&self);
    /// Finds a dataset, snapshot or bookmark; nothing if it does not exist.
    fn find(&self, name: &str) -> Result<Option<Box<dyn PropertySource + '_>>, Failure>;
    /// The full names of the datasets directly below, in byte order.
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure>;
    /// The snapshots of a dataset, oldest first, handed over one by one.
    fn snapshots(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
    /// The bookmarks of a dataset, oldest first.
    fn bookmarks(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
}

/// Why a walk ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something could not be read.
    Failure(Failure),
    /// The caller is gone.
    Gone(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Each once, in the order of their first places: what is asked for a thousand times takes no more than once.
pub(super) fn distinct<T: Clone + Ord>(asked: &[T]) -> Vec<T> {
    let mut seen = BTreeSet::new();
    asked
        .iter()
        .filter(|one| seen.insert(*one))
        .cloned()
        .collect()
}

/// Answers a query.
pub(crate) fn answer(
    dataset_index: &dyn DatasetIndex,
    query: &DatasetQuery,
    sink: Sink<'_>,
) -> io::Result<()> {
    let query = &DatasetQuery {
        roots: distinct(&query.roots),
        properties: match &query.properties {
            Selection::All => Selection::All,
            Selection::Names(names) => Selection::Names(distinct(names)),
        },
        ..query.clone()
    };
    let roots = if query.roots.is_empty() {
        vec![dataset_index.root()]
    } else {
        query.roots.clone()
    };
    let list = |pages: &mut Pages<'_, DatasetQuery>| {
        let mut walk = Walk {
            dataset_index,
            query,
            page: Vec::new(),
            cells: 0,
            pages,
        };
        for root in roots {
            match walk.root(&root) {
                Ok(()) => {}
                Err(Stop::Gone(error)) => return Err(error.into()),
                Err(Stop::Failure(failure)) => walk.pages.warn(failure)?,
            }
        }
        Ok(walk.flush()?)
    };
    paged(query, list, sink)
}

struct Walk<'a, 'sink> {
    dataset_index: &'a dyn DatasetIndex,
    query: &'a DatasetQuery,
    page: Vec<DatasetRow>,
    /// How many properties the page has.
    cells: usize,
    pages: &'a mut Pages<'sink, DatasetQuery>,
}

impl Walk<'_, '_> {
    fn root(&mut self, root: &str) -> Result<(), Stop> {
        let stamp = self.dataset_index.stamp();
        let Some(owner) = self.dataset_index.find(root)? else {
            let kind = FailureKind::Missing;
            return Err(Failure::cannot(kind, "open", root, "dataset does not exist").into());
        };
        let head = owner.kind().intersects(Types::HEADS);
        if head {
            drop(owner);
            return self.head(root, 0);
        }
        self.show(owner.as_ref(), stamp)
    }

    /// A file system or volume with what is below it, at a depth below the root of the walk.
    fn head(&mut self, dataset: &str, depth: u32) -> Result<(), Stop> {
        let stamp = self.dataset_index.stamp();
        if self.query.types.intersects(Types::HEADS) {
            // Gone since its parent was read: not an error.
            let Some(owner) = self.dataset_index.find(dataset)? else {
                return Ok(());
            };
            self.show(owner.as_ref(), stamp)?;
        }
        if self.query.depth.is_some_and(|limit| depth >= limit) {
            return Ok(());
        }
        let dataset_index = self.dataset_index;
        if self.query.types.intersects(Types::SNAPSHOT) {
            dataset_index.snapshots(dataset, &mut |snapshot| self.show(snapshot, stamp))?;
        }
        if self.query.types.intersects(Types::BOOKMARK) {
            dataset_index.bookmarks(dataset, &mut |bookmark| self.show(bookmark, stamp))?;
        }
        for child in dataset_index.children(dataset)? {
            self.head(&child, depth + 1)?;
        }
        Ok(())
    }

    /// Shows what was looked up under a stamp.
    fn show(&mut self, owner: &dyn PropertySource, stamp: u64) -> Result<(), Stop> {
        if !self.query.types.intersects(owner.kind()) {
            return Ok(());
        }
        let Some(row) = self.row(owner, stamp)? else {
            return Ok(());
        };
        self.cells += row.properties.len();
        self.page.push(row);
        if self.page.len() >= PAGE || self.cells >= CELLS {
            self.flush().map_err(Stop::Gone)
        } else {
            Ok(())
        }
    }

    /// The line of what was looked up under a stamp; none if it was destroyed or renamed before all of it was seen.
    /// What cannot be read although nothing changes is a failure.
    fn row(
        &self,
        owner: &dyn PropertySource,
        mut stamp: u64,
    ) -> Result<Option<DatasetRow>, Failure> {
        let mut row = self.row_of(owner);
        for _ in 0..LOOKS_MAX {
            if row.is_ok() && self.dataset_index.stamp() == stamp {
                break;
            }
            if row.is_err() {
                self.dataset_index.settle();
                if self.dataset_index.stamp() == stamp {
                    break;
                }
            }
            stamp = self.dataset_index.stamp();
            let now = self.dataset_index.find(owner.name())?;
            let Some(now) = now.filter(|now| now.created_txg() == owner.created_txg()) else {
                return Ok(None);
            };
            if row.is_ok() {
                break;
            }
            row = self.row_of(now.as_ref());
        }
        row.map(Some)
    }

    fn row_of(&self, owner: &dyn PropertySource) -> Result<DatasetRow, Failure> {
        let properties = match &self.query.properties {
            Selection::All => all(owner)?,
            Selection::Names(names) => named(owner, names)?,
        };
        Ok(DatasetRow {
            name: owner.name().to_owned(),
            kind: owner.kind(),
            created_txg: owner.created_txg(),
            properties,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.cells = 0;
        self.pages.page(std::mem::take(&mut self.page))
    }
}
