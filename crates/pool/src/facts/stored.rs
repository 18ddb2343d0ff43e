//! What the directory of the pool's own object set leads to.

use std::sync::Arc;

use base::ObjectId;
use dmu::{Object, ObjectSet, Zap};

/// The pool's own object set, and its directory if that can be read.
pub(crate) struct Stored<'a> {
    set: &'a ObjectSet,
    pub(super) directory: Option<Zap>,
}

impl<'a> Stored<'a> {
    pub(crate) const fn new(set: &'a ObjectSet, directory: Option<Zap>) -> Self {
        Self { set, directory }
    }

    /// An entry of the directory.
    pub(super) fn words(&self, key: &str) -> Option<Vec<u64>> {
        let directory = self.directory.as_ref()?;
        let value = directory.lookup_value(key.as_bytes()).ok()??;
        Some(value.to_words())
    }

    /// The object that an entry of the directory names.
    pub(super) fn object_named(&self, key: &str) -> Option<ObjectId> {
        let words = self.words(key)?;
        words.first().copied().map(ObjectId)
    }

    pub(super) fn object(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.set.object(id).ok()
    }

    pub(super) fn zap(&self, id: ObjectId) -> Option<Zap> {
        Zap::open(&self.object(id)?).ok()
    }
}
