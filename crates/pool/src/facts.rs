//! Facts that the pool's own object set keeps, for those who show them: what dedup tables and clones save, cache
//! devices, the checkpoint, removals, work on leaves, how fragmented free space is.
//!
//! They are looked up anew each time. What is not there, or not as expected, counts as nothing: a damaged table must
//! not keep anybody from seeing the rest.

mod checkpoint;
mod clones;
mod dedup;
mod expansion;
mod fragmentation;
mod rebuild;
mod removal;
mod stored;
mod work;

use dmu::{ObjectSet, Zap};
use format::config::directory;
use format::features;

use crate::error::Result;
use crate::pool::Pool;

pub use checkpoint::Checkpoint;
pub use clones::ClonedBlocks;
pub use dedup::DedupTables;
use dedup::With;
pub use expansion::Expansion;
pub use rebuild::RebuildFacts;
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

/// Tables that can be brought into memory before they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Which content is stored where.
    Dedup,
    /// Which blocks files share.
    BlockReferences,
}

impl Facts<'_> {
    /// Reads tables into the cache, as far as they fit into half of it; how many bytes.
    ///
    /// # Errors
    /// A block of a table cannot be read.
    pub fn prefetch(&self, tables: Tables) -> Result<u64> {
        const AHEAD_BYTES: u64 = 4 << 20;
        let objects = match tables {
            Tables::Dedup => self.stored.dedup_objects(With::Zaps),
            Tables::BlockReferences => self.stored.reference_objects(&self.pool.config().root),
        };
        let most = self.pool.pipeline().cache().limit_bytes() / 2;
        let mut read = 0;
        for object in objects.into_iter().filter_map(|id| self.stored.object(id)) {
            let (info, size) = (object.info(), u64::from(object.block_size()).max(1));
            for block in 0..=info.max_block {
                if read >= most {
                    return Ok(read);
                }
                if (block * size).is_multiple_of(AHEAD_BYTES) {
                    object.prefetch(block * size, AHEAD_BYTES);
                }
                object.read_block(block)?;
                read += size;
            }
        }
        Ok(read)
    }

    /// The txg up to which the last whole scrub went; 0: there was none.
    #[must_use]
    pub fn last_scrubbed_txg(&self) -> u64 {
        let words = self.stored.words(directory::LAST_SCRUBBED_TXG);
        words.and_then(|words| words.first().copied()).unwrap_or(0)
    }

    /// What the dedup tables hold.
    #[must_use]
    pub fn dedup(&self) -> DedupTables {
        let stored = self.stored.dedup_tables();
        stored.with(&self.pool.services.dedup.logged())
    }

    /// Totals of the reference tables of all vdevs.
    #[must_use]
    pub fn clones(&self) -> ClonedBlocks {
        self.stored.cloned_blocks(&self.pool.config().root)
    }

    /// The checkpoint, if there is one: also one that is being discarded.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let is_kept = self.pool.features().is_active(&features::ZPOOL_CHECKPOINT);
        self.stored.checkpoint_of(&self.pool.config().root, is_kept)
    }
}
