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
mod stored;
mod work;

use dmu::{ObjectSet, Zap};
use format::config::directory;

use crate::pool::Pool;

pub use checkpoint::Checkpoint;
pub use clones::ClonedBlocks;
pub use dedup::DedupTables;
pub use expansion::Expansion;
pub use removal::Removal;
pub(crate) use stored::Stored;
pub use work::{LeafWork, Progress};

/// What a pool's own object set says.
pub struct Facts<'a> {
    pool: &'a Pool,
    stored: Stored<'a>,
}

impl Pool {
    /// What its own object set says.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let set: &ObjectSet = self.meta_object_set();
        let object = set.object(directory::OBJECT).ok();
        let directory = object.and_then(|object| Zap::open(&object).ok());
        Facts {
            pool: self,
            stored: Stored::new(set, directory),
        }
    }
}

impl Facts<'_> {
    /// The txg up to which the last whole scrub went; 0: there was none.
    #[must_use]
    pub fn last_scrubbed_txg(&self) -> u64 {
        let words = self.stored.words(directory::LAST_SCRUBBED_TXG);
        words.and_then(|words| words.first().copied()).unwrap_or(0)
    }

    /// What the dedup tables hold.
    #[must_use]
    pub fn dedup(&self) -> DedupTables {
        self.stored.dedup_tables()
    }

    /// Totals of the reference tables of all vdevs.
    #[must_use]
    pub fn clones(&self) -> ClonedBlocks {
        self.stored.cloned_blocks(&self.pool.config().root)
    }

    /// The checkpoint, if there is one.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.stored.checkpoint_of(&self.pool.config().root)
    }
}
