//! What this layer needs from the pool, which is above it: traits that the pool supplies.

use std::sync::Arc;

use base::clock::Clock;
use base::random::Rng;
use base::{ObjectId, Txg};
use dmu::{BlockStore, BlockWriter, SyncWorkers, Tx};
use format::BlockPointer;
use format::features::Feature;
use format::intent_log::LogHeader;
use txg::Engine;

use crate::policy::StoragePolicy;

/// How far a request may go into the pool's last space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// Creates and grows: stops at the slop.
    Normal,
    /// Administrative, small: half of the slop is left.
    Reserved,
    /// Frees in the end: a quarter of the slop is left.
    ExtraReserved,
    /// May use everything.
    Unlimited,
}

/// The pool, as this layer sees it.
pub trait Services: Send + Sync {
    /// Where blocks are read.
    fn store(&self) -> Arc<dyn BlockStore>;
    /// What time it is.
    fn clock(&self) -> &dyn Clock;
    /// Chance.
    fn rng(&self) -> &dyn Rng;
    /// The pool's version: 1 to 28, or 5000.
    fn version(&self) -> u64;
    /// Raises the pool's version; the last thing that a task does.
    ///
    /// # Errors
    /// What goes with it cannot be written.
    fn raise_version(&self, tx: &Tx, version: u64) -> dmu::Result<()>;
    /// Whether the pool may be changed.
    fn is_writable(&self) -> bool;
    /// Whether a feature may be used (enabled or active).
    fn is_enabled(&self, feature: &Feature) -> bool;
    /// How many things use a feature; 0 = not active.
    fn references(&self, feature: &Feature) -> u64;
    /// Changes how many things use a feature.
    ///
    /// # Errors
    /// The feature tables cannot be read.
    fn change_references(&self, tx: &Tx, feature: &Feature, change: i64) -> dmu::Result<()>;
    /// Bytes that datasets may use in all.
    fn usable_bytes(&self, class: SpaceClass) -> u64;
    /// How much more than its stored bytes a block is charged with, at most: whole sectors, parity, what is left over.
    fn charge_overhead(&self) -> u64 {
        0
    }
    /// Freed bytes that may not be used again yet, for a caller who waits for them: the next txgs free them, also
    /// if nothing changes in them.
    fn awaited_bytes(&self) -> u64;
    /// Frees a block that nothing references any more, in the way of the pass under way.
    fn free(&self, txg: Txg, pointer: &BlockPointer);
    /// A task begins: until [`Services::end_task`], what it frees, shares and ends only waits, and what it counts can
    /// be undone.
    fn begin_task(&self) {}
    /// The task has ended: what waited is done (`done`), or is as if it had never been asked for.
    fn end_task(&self, _txg: Txg, _done: bool) {}
    /// Whether freeing the block needs reads or tables (gang, dedup, cloned), so that it goes to
    /// the list of later frees.
    fn frees_later(&self, pointer: &BlockPointer) -> bool;
    /// A pointer to a block that an earlier txg stored has been written: it has one reference more.
    fn shares(&self, _pointer: &BlockPointer) {}
    /// A head's object set goes, and its intent log with it: frees the log's blocks.
    fn end_intent_log(&self, txg: Txg, head: ObjectId, header: &LogHeader);
    /// Whether an intent log that nobody uses holds the head's object set open.
    fn keeps_intent_log(&self, head: ObjectId) -> bool;
    /// A task put one dataset in the place of another; called in the task, after its change. Who
    /// goes through the datasets one by one moves with it.
    ///
    /// # Errors
    /// What the pool keeps on it cannot be written.
    fn succeeded(&self, _tx: &Tx, _succession: Succession) -> dmu::Result<()> {
        Ok(())
    }
    /// A head was taken out of service: its changes cannot be written.
    fn stopped(&self, _head: &StoppedHead) {}
    /// Writes an internal event into the pool's history.
    ///
    /// # Errors
    /// The history cannot be written.
    fn record_history(&self, tx: &Tx, event: &HistoryEvent<'_>) -> dmu::Result<()>;
}

/// How the contents of a dataset came to be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// A snapshot was taken: it has what the head had.
    Taken {
        /// The head.
        head: ObjectId,
        /// Its new snapshot.
        snapshot: ObjectId,
    },
    /// A snapshot was destroyed: what remains of it is its successor's.
    Merged {
        /// The snapshot.
        snapshot: ObjectId,
        /// The txg in which it was taken.
        taken: Txg,
        /// The next snapshot, or the head.
        next: ObjectId,
    },
    /// A head was destroyed.
    Gone {
        /// The head.
        head: ObjectId,
    },
    /// Two heads exchanged their contents.
    Exchanged {
        /// The one.
        one: ObjectId,
        /// The other.
        other: ObjectId,
    },
}

/// A head that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedHead {
    /// Its name.
    pub name: String,
    /// The last txg whose changes it has.
    pub synced: Txg,
    /// Why not.
    pub reason: String,
}

/// An internal event of the pool's history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryEvent<'a> {
    /// What happened: `create`, `snapshot`, `destroy`, …
    pub name: &'a str,
    /// The dataset that it happened to.
    pub dataset: &'a str,
    /// Its object number.
    pub dataset_id: ObjectId,
    /// More about it.
    pub text: &'a str,
}

/// Makes writers for the blocks of one object set.
pub trait WriterSource: Sync {
    /// A writer that follows `policy`; without one, the policy of the pool's own object set.
    fn writer<'a>(&'a self, policy: Option<&StoragePolicy>) -> Box<dyn BlockWriter + 'a>;
}

/// One pass of the sync of a txg.
#[derive(Clone, Copy)]
pub struct SyncPass<'a> {
    /// The txg.
    pub txg: Txg,
    /// The pass, from 1.
    pub pass: u32,
    /// How many threads may work at once.
    pub workers: &'a SyncWorkers,
    /// Whose dirty bytes are returned.
    pub engine: Option<&'a Engine>,
    /// Who writes blocks.
    pub writers: &'a dyn WriterSource,
}
