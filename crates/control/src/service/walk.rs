//! Walks datasets in name order, page by page: nothing is opened, nothing is queued.

use std::io;

use super::Sink;
use super::subject::{Subject, all, named};
use crate::message::{DatasetQuery, DatasetRow, Response, Selection};
use crate::property::Types;
use crate::{Failure, FailureKind};

#[cfg(test)]
mod tests;

/// How many datasets go into one part of an answer.
const PAGE: usize = 256;

/// What is in a pool, by name.
pub(crate) trait Catalogue {
    /// The pool's root.
    fn root(&self) -> String;
    /// Finds a dataset, snapshot or bookmark; nothing if it does not exist.
    fn find(&self, name: &str) -> Result<Option<Box<dyn Subject + '_>>, Failure>;
    /// The full names of the datasets directly below, in byte order.
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure>;
    /// The snapshots of a dataset, oldest first, handed over one by one.
    fn snapshots(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn Subject) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
    /// The bookmarks of a dataset, oldest first.
    fn bookmarks(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn Subject) -> Result<(), Stop>,
    ) -> Result<(), Stop>;
}

/// Why a walk ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something could not be read.
    Failure(Failure),
    /// The asker is gone.
    Gone(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Answers a query.
pub(crate) fn answer(
    catalogue: &dyn Catalogue,
    query: &DatasetQuery,
    sink: Sink<'_>,
) -> io::Result<()> {
    let mut walk = Walk {
        catalogue,
        query,
        page: Vec::new(),
        sink,
    };
    let roots = if query.roots.is_empty() {
        vec![catalogue.root()]
    } else {
        query.roots.clone()
    };
    for root in roots {
        match walk.root(&root) {
            Ok(()) => {}
            Err(Stop::Gone(error)) => return Err(error),
            Err(Stop::Failure(failure)) => (walk.sink)(Response::Warning(failure))?,
        }
    }
    walk.flush()?;
    (walk.sink)(Response::Done)
}

struct Walk<'a> {
    catalogue: &'a dyn Catalogue,
    query: &'a DatasetQuery,
    page: Vec<DatasetRow>,
    sink: Sink<'a>,
}

impl Walk<'_> {
    fn root(&mut self, root: &str) -> Result<(), Stop> {
        let Some(subject) = self.catalogue.find(root)? else {
            let kind = FailureKind::Missing;
            return Err(Failure::cannot(kind, "open", root, "dataset does not exist").into());
        };
        let head = subject.kind().meets(Types::HEADS);
        if head {
            drop(subject);
            return self.head(root, 0);
        }
        self.show(subject.as_ref())
    }

    /// A file system or volume with what is below it, at a depth below the root of the walk.
    fn head(&mut self, dataset: &str, depth: u32) -> Result<(), Stop> {
        if self.query.types.meets(Types::HEADS) {
            // Gone since its parent was read: not an error.
            let Some(subject) = self.catalogue.find(dataset)? else {
                return Ok(());
            };
            self.show(subject.as_ref())?;
        }
        if self.query.depth.is_some_and(|limit| depth >= limit) {
            return Ok(());
        }
        let catalogue = self.catalogue;
        if self.query.types.meets(Types::SNAPSHOT) {
            catalogue.snapshots(dataset, &mut |snapshot| self.show(snapshot))?;
        }
        if self.query.types.meets(Types::BOOKMARK) {
            catalogue.bookmarks(dataset, &mut |bookmark| self.show(bookmark))?;
        }
        for child in catalogue.children(dataset)? {
            self.head(&child, depth + 1)?;
        }
        Ok(())
    }

    fn show(&mut self, subject: &dyn Subject) -> Result<(), Stop> {
        if !self.query.types.meets(subject.kind()) {
            return Ok(());
        }
        let properties = match &self.query.properties {
            Selection::All => all(subject)?,
            Selection::Names(names) => named(subject, names)?,
        };
        self.page.push(DatasetRow {
            name: subject.name().to_owned(),
            kind: subject.kind(),
            created_txg: subject.created_txg(),
            properties,
        });
        if self.page.len() >= PAGE {
            self.flush().map_err(Stop::Gone)
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        (self.sink)(Response::Datasets(std::mem::take(&mut self.page)))
    }
}
