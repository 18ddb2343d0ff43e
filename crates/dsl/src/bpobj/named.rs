//! Lists that the pool directory names: what is freed later.

use base::ObjectId;
use dmu::Tx;
use format::BlockPointer;
use format::config::directory;

use super::{Bpobj, Taken, append_list_to, append_to, unless_lost};
use crate::error::{DslError, Result};
use crate::mos::Mos;
use crate::sizes::Sizes;

/// A list that the pool directory names. Another takes its place when it cannot be added to any more.
#[derive(Clone)]
pub struct NamedList {
    mos: Mos,
    name: &'static str,
}

impl NamedList {
    /// The list of a name, which need not be there.
    #[must_use]
    pub fn new(mos: &Mos, name: &'static str) -> Self {
        Self {
            mos: mos.clone(),
            name,
        }
    }

    fn id(&self) -> Result<Option<ObjectId>> {
        Ok(self.mos.directory_word(self.name)?.map(ObjectId))
    }

    /// The list; none when there is none, or none that can be opened.
    fn list(&self) -> Result<Option<Bpobj>> {
        let id = self.id()?;
        let list = id.map(|id| unless_lost(Bpobj::open(&self.mos, id)));
        Ok(list.transpose()?.flatten())
    }

    /// Whether the pool has such a list.
    ///
    /// # Errors
    /// The pool directory cannot be read.
    pub fn exists(&self) -> Result<bool> {
        Ok(self.id()?.is_some())
    }

    /// Whether nothing is listed, as far as can be told.
    ///
    /// # Errors
    /// The pool directory cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        self.list()?.map_or(Ok(true), |list| list.is_empty())
    }

    /// Sizes of all that is listed, as far as can be told.
    ///
    /// # Errors
    /// The pool directory cannot be read.
    pub fn sizes(&self) -> Result<Sizes> {
        self.list()?.map_or(Ok(Sizes::ZERO), |list| list.sizes())
    }

    /// Appends block pointers.
    ///
    /// # Errors
    /// There is no such list, or it cannot be written.
    pub fn append(&self, tx: &Tx, pointers: &[BlockPointer]) -> Result<()> {
        self.change(tx, |id| append_to(&self.mos, tx, id, pointers, false))
    }

    /// Appends a list, as [`Bpobj::append_list`].
    ///
    /// # Errors
    /// There is no such list, or it cannot be written.
    pub fn append_list(&self, tx: &Tx, other: ObjectId) -> Result<()> {
        self.change(tx, |id| append_list_to(&self.mos, tx, id, other))
    }

    fn change(
        &self,
        tx: &Tx,
        change: impl FnOnce(ObjectId) -> Result<Option<ObjectId>>,
    ) -> Result<()> {
        let id = self
            .id()?
            .ok_or_else(|| DslError::damaged(directory::OBJECT, "no list of later frees"))?;
        if let Some(new) = change(id)? {
            let directory = self.mos.directory()?;
            directory.update(tx, self.name.as_bytes(), new.0)?;
        }
        Ok(())
    }

    /// Frees the list, if nothing is in it; whether it was.
    ///
    /// # Errors
    /// The list cannot be freed, or the directory not be written.
    pub fn drop_empty(&self, tx: &Tx) -> Result<bool> {
        let Some(list) = self
            .list()?
            .filter(|list| list.is_empty().is_ok_and(|empty| empty))
        else {
            return Ok(false);
        };
        list.destroy(tx)?;
        self.mos.directory()?.remove(tx, self.name.as_bytes())?;
        Ok(true)
    }

    /// Takes up to `limit` pointers off the list, as [`Bpobj::take`].
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn take(&self, tx: &Tx, limit: u64, take: &mut dyn FnMut(&BlockPointer)) -> Result<Taken> {
        match self.list()? {
            Some(list) => list.take(tx, limit, take),
            None => Ok(Taken::default()),
        }
    }
}
