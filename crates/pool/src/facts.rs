//! Facts that the pool's own object set keeps, for those who show them: what dedup tables and clones save, the
//! checkpoint, removals, work on leaves, how fragmented free space is.
//!
//! They are looked up anew each time. What is not there, or not as expected, counts as nothing: a damaged table must
//! not keep anybody from seeing the rest.

mod checkpoint;
mod clones;
mod dedup;
mod expansion;
mod fragmentation;
mod removal;
mod work;

use base::ObjectId;
use dmu::{Object, ObjectSet, Zap};
use format::config::directory;

use crate::pool::Pool;

pub use checkpoint::Checkpoint;
pub use clones::ClonedBlocks;
pub use dedup::DedupTables;
pub use expansion::Expansion;
pub use removal::Removal;
pub use work::{LeafWork, Progress};

/// What a pool's own object set says.
pub struct Facts<'a> {
    pool: &'a Pool,
    set: &'a ObjectSet,
    directory: Option<Zap>,
}

impl Pool {
    /// What its own object set says.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let set: &ObjectSet = self.meta_object_set();
        let object = set.object(directory::OBJECT).ok();
        Facts {
            pool: self,
            set,
            directory: object.and_then(|object| Zap::open(&object).ok()),
        }
    }
}

impl Facts<'_> {
    /// The txg up to which the last whole scrub went; 0: there was none.
    #[must_use]
    pub fn last_scrubbed_txg(&self) -> u64 {
        let words = self.words(directory::LAST_SCRUBBED_TXG);
        words.and_then(|words| words.first().copied()).unwrap_or(0)
    }

    /// An entry of the directory.
    fn words(&self, key: &str) -> Option<Vec<u64>> {
        let directory = self.directory.as_ref()?;
        let value = directory.lookup_value(key.as_bytes()).ok()??;
        Some(value.to_words())
    }

    /// The object that an entry of the directory names.
    fn object_named(&self, key: &str) -> Option<ObjectId> {
        let words = self.words(key)?;
        words.first().copied().map(ObjectId)
    }

    fn object(&self, id: ObjectId) -> Option<std::sync::Arc<Object>> {
        self.set.object(id).ok()
    }

    fn zap(&self, id: ObjectId) -> Option<Zap> {
        Zap::open(&self.object(id)?).ok()
    }
}
