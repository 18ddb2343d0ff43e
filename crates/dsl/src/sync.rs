//! What the pool calls in each pass of a txg's sync, and after it.
//!
//! Order: heads (1), the pool's own object set (2), tasks (pass 1 only), background frees, and
//! again until nothing is dirty. Tasks that fill a new dataset sync it themselves, so that a
//! snapshot of it in the same txg sees it whole.

use std::sync::Arc;

use base::Txg;
use dmu::{BlockAccounting, BlockStore, SyncContext, Tx};
use format::dsl::{UsedBy, hidden};
use format::{BlockPointer, features};

use crate::error::Result;
use crate::layer::Dsl;
use crate::services::SyncPass;
use crate::sizes::Sizes;

/// Charges blocks of the pool's own object set, and frees what dies.
struct MosAccounting<'a> {
    dsl: &'a Dsl,
    store: &'a dyn BlockStore,
    txg: Txg,
}

impl BlockAccounting for MosAccounting<'_> {
    fn born(&self, pointer: &BlockPointer) {
        let sizes = Sizes::of(self.store, pointer);
        *self.dsl.mos_charge.lock() += sizes;
    }

    fn killed(&self, pointer: &BlockPointer) {
        if pointer.is_hole() {
            return;
        }
        let sizes = Sizes::of(self.store, pointer);
        *self.dsl.mos_charge.lock() -= sizes;
        if pointer.is_embedded() {
            return;
        }
        self.dsl.services().free(self.txg, pointer);
    }
}

impl Dsl {
    /// One pass: heads, the charge of the pool's own object set, that object set, and in pass 1
    /// the queued tasks. The new root of the pool's own object set, when it was written.
    ///
    /// # Errors
    /// Something cannot be read or written: the txg must not complete.
    pub fn sync(self: &Arc<Self>, pass: &SyncPass<'_>) -> Result<Option<BlockPointer>> {
        self.sync_heads(pass)?;
        let root = self.sync_mos(pass)?;
        if pass.pass == 1 {
            self.run_tasks(pass)?;
        }
        Ok(root)
    }

    /// Whether `txg` needs (another) pass on account of this layer: something is dirty, or a task
    /// waits.
    #[must_use]
    pub fn is_dirty(&self, txg: Txg) -> bool {
        *self.mos_charge.lock() != Sizes::ZERO
            || self.mos.set.is_dirty(txg)
            || !self.tasks.is_empty(txg)
            || self.dirty_heads(txg)
    }

    /// Whether a txg would do something: as [`Dsl::is_dirty`], or something waits to be freed.
    ///
    /// # Errors
    /// The lists of what waits cannot be read.
    pub fn has_work(&self, txg: Txg) -> Result<bool> {
        Ok(self.is_dirty(txg) || self.has_background_frees()?)
    }

    /// Writes the heads that are dirty in the pass's txg; true when there were any.
    ///
    /// # Errors
    /// A block cannot be read or written: the txg must not complete.
    fn sync_heads(&self, pass: &SyncPass<'_>) -> Result<bool> {
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        let mut any = false;
        for head in heads {
            any |= head.sync(pass)?;
        }
        Ok(any)
    }

    /// Charges the pool's own object set with what its last sync wrote, and writes it when it is
    /// dirty: its new root.
    ///
    /// # Errors
    /// A block cannot be read or written: the txg must not complete.
    fn sync_mos(&self, pass: &SyncPass<'_>) -> Result<Option<BlockPointer>> {
        let charge = std::mem::take(&mut *self.mos_charge.lock());
        if charge != Sizes::ZERO
            && let Some(directory) = self.hidden_directory(hidden::MOS)?
        {
            directory.charge(&Tx::syncing(pass.txg), UsedBy::Head, charge)?;
        }
        if !self.mos.set.is_dirty(pass.txg) {
            return Ok(None);
        }
        let writer = pass.writers.writer(None);
        let store = self.mos.store.as_ref();
        let accounting = MosAccounting {
            dsl: self,
            store,
            txg: pass.txg,
        };
        let root = self.mos.set.sync(&SyncContext {
            txg: pass.txg,
            writer: &*writer,
            accounting: &accounting,
            workers: pass.workers,
            engine: pass.engine,
            hole_birth: self.services().references(&features::HOLE_BIRTH) != 0,
            account_owners: false,
            account_objects: false,
        })?;
        Ok(Some(root))
    }

    fn dirty_heads(&self, txg: Txg) -> bool {
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        let open = heads.iter().filter_map(|head| head.open_object_set());
        open.into_iter().any(|object_set| object_set.is_dirty(txg))
    }

    /// `txg` is on disk: freed object numbers may be used again, and heads that nobody uses and
    /// that are clean close.
    pub fn finish(&self, txg: Txg) {
        self.mos.set.synced(txg);
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        for head in heads {
            if let Some(object_set) = head.open_object_set() {
                object_set.synced(txg);
            }
            head.close_if_idle(txg);
        }
    }
}
