//! Requests to prune dedup tables.

use crate::blocks::dedup::pruning::DedupPrune;
use crate::error::Result;
use crate::pool::Pool;

impl Pool {
    /// Takes entries with one reference out of the dedup tables; how many.
    ///
    /// # Errors
    /// The pool is read-only or stopped, or a table cannot be read.
    pub fn prune_dedup(&self, wanted: DedupPrune) -> Result<u64> {
        let engine = &self.writer()?.engine;
        let now_s = self.clock().now_s();
        let tables = &self.services.dedup;
        tables.prune_by(wanted, now_s, &mut || Ok(engine.wait_synced(None)?))
    }
}
