//! What the pool does in a sync on its own account, beside what datasets changed.
//!
//! Vdevs that come and go, scans, trims and settings wait in objects of their own for the next txg. The syncer owns
//! them as one kind and calls them in a fixed order; it knows nothing else of them, and they nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::invariant::Findings;
use dmu::Tx;
use space::PoolSpace;
use vdev::{VdevTree, WriteGroup};

use crate::allocation::maps::MosSpaceStore;
use crate::error::Result;
use crate::pool::services::PoolServices;

/// Work of the pool that waits for a txg.
pub(crate) trait SyncTask: Send + Sync {
    /// The first pass begins: does what waited. Datasets are synced after all tasks.
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()>;

    /// The txg is on disk.
    fn finish(&self, _space: &PoolSpace) {}

    /// The pool closes: what runs beside the sync ends, and stays as it is stored.
    fn close(&self) {}

    /// The pool stays open after all.
    fn stay(&self) {}
}

/// The first pass of a txg, as tasks see it.
pub(crate) struct FirstPass<'a> {
    pub(crate) tx: &'a Tx,
    pub(crate) services: &'a PoolServices,
    pub(crate) vdevs: &'a Arc<VdevTree>,
    pub(crate) space: &'a PoolSpace,
    pub(crate) maps: &'a MosSpaceStore,
    /// The device writes of the txg.
    pub(crate) group: &'a Arc<WriteGroup>,
    /// What was found to be broken in this pool.
    pub(crate) findings: &'a Arc<Findings>,
    pub(super) flush_all: &'a AtomicBool,
}

impl FirstPass<'_> {
    /// Moves all logged changes of space to the metaslabs' own maps in this txg.
    pub(crate) fn flush_maps(&self) {
        self.flush_all.store(true, Ordering::Relaxed);
    }
}
