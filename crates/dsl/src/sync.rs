//! What the pool calls in each pass of a txg's sync, and after it.
//!
//! Order: heads (1), the pool's own object set (2), tasks (pass 1 only), background frees, and
//! again until nothing is dirty. Tasks that fill a new dataset sync it themselves, so that a
//! snapshot of it in the same txg sees it whole.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use base::metrics::{Counter, registry};
use base::{Txg, invariant};
use dmu::{BlockAccounting, BlockStore, ObjectSet, SyncContext, SyncWorkers, Tx};
use format::dsl::{UsedBy, hidden};
use format::{BlockPointer, features, version};

use crate::dataset::{Begun, Dataset};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::{SpaceClass, StoppedHead, SyncPass};
use crate::sizes::Sizes;

/// What the pool's own object set takes and could not be booked, because the account is damaged.
static MOS_CHARGES_LOST: LazyLock<Arc<Counter>> =
    LazyLock::new(|| registry().counter("dsl.mos_charges_lost"));

/// Charges blocks of the pool's own object set, and frees what dies.
struct MosAccounting<'a> {
    dsl: &'a Dsl,
    store: &'a dyn BlockStore,
    txg: Txg,
    /// What was charged in this sync, less what it came to by the dnodes.
    unmatched: AtomicI64,
}

impl BlockAccounting for MosAccounting<'_> {
    fn born(&self, pointer: &BlockPointer) {
        let sizes = Sizes::of(self.store, pointer);
        *self.dsl.mos_charge.lock() += sizes;
        self.unmatched.fetch_add(sizes.used, Ordering::Relaxed);
    }

    fn grew(&self, bytes: i64) {
        self.unmatched.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn killed(&self, pointer: &BlockPointer) {
        if pointer.is_hole() {
            return;
        }
        let sizes = Sizes::of(self.store, pointer);
        *self.dsl.mos_charge.lock() -= sizes;
        self.unmatched.fetch_sub(sizes.used, Ordering::Relaxed);
        if pointer.is_embedded() {
            return;
        }
        self.dsl.services().free(self.txg, pointer);
    }
}

/// Whether a head may be taken out of service for an error of its sync, and nothing else: it is damaged, and `txg` has
/// not booked anything of it in an earlier pass.
fn may_stop(error: &DslError, object_set: &ObjectSet, txg: Txg) -> bool {
    error.is_damage() && object_set.root_pointer().birth() < txg
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
            self.run_tasks(pass);
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

    /// First thing in a txg's sync: a head that is dirty and cannot be written, because something is damaged that its
    /// sync needs, is taken out of service, before anything of the txg is written or freed. It stays as its last
    /// sync left it, and the others go on.
    ///
    /// # Errors
    /// Something failed that is no damage: the txg must not complete.
    pub fn look_ahead(&self, pass: &SyncPass<'_>) -> Result<()> {
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        for head in heads {
            let Some(object_set) = head.open_object_set() else {
                continue;
            };
            if !object_set.is_dirty(pass.txg) {
                continue;
            }
            match head.look_ahead(&object_set, pass) {
                Ok(()) => {}
                Err(error) if error.is_damage() => {
                    self.stop(&head, &object_set, pass.txg, &error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes a head out of service whose sync in `txg` is not possible.
    fn stop(&self, head: &Arc<Dataset>, object_set: &ObjectSet, txg: Txg, error: &DslError) {
        object_set.stop();
        let stopped = StoppedHead {
            name: head.directory().name(),
            synced: txg.previous(),
            reason: error.to_string(),
        };
        self.services().stopped(&stopped);
        self.stopped.lock().insert(head.id(), stopped);
    }

    /// The heads that were taken out of service since the pool was opened.
    #[must_use]
    pub fn stopped_heads(&self) -> Vec<StoppedHead> {
        self.stopped.lock().values().cloned().collect()
    }

    /// Writes the heads that are dirty in the pass's txg; true when there were any. Those with much to write one after
    /// the other, each on all threads; the others beside each other, each on one, so that their reads and the steps
    /// that follow each other (data, dnodes, root) do not add up. They are begun and booked in the order of their
    /// numbers.
    ///
    /// One that cannot be written because something is damaged, although [`Dsl::look_ahead`] saw nothing, is taken out
    /// of service: nothing of it was freed. What was written of it leaks.
    ///
    /// # Errors
    /// A block cannot be written, or a device does not answer: the txg must not complete.
    fn sync_heads(&self, pass: &SyncPass<'_>) -> Result<bool> {
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        let tx = Tx::syncing(pass.txg);
        let mut begun = Vec::new();
        for head in &heads {
            begun.extend(self.begin_head(head, &tx, pass)?.map(|begun| (head, begun)));
        }
        let roots: Vec<OnceLock<Result<BlockPointer>>> =
            begun.iter().map(|_| OnceLock::new()).collect();
        let write = |index: usize, pass: &SyncPass<'_>| -> Result<()> {
            let (head, begun) = &begun[index];
            let root = match head.write(begun, pass) {
                Err(error) if !may_stop(&error, &begun.object_set, pass.txg) => return Err(error),
                root => root,
            };
            // Each head is written once.
            let _ = roots[index].set(root);
            Ok(())
        };
        let is_large = |index: &usize| begun[*index].1.object_set.is_heavy(pass.txg);
        let (large, small): (Vec<usize>, Vec<usize>) = (0..begun.len()).partition(is_large);
        large.into_iter().try_for_each(|index| write(index, pass))?;
        let alone = SyncWorkers::new(1);
        let each = SyncPass {
            workers: &alone,
            ..*pass
        };
        let several = small.len() > 1;
        pass.workers
            .run(small.len(), several, |job| write(small[job], &each))?;
        let any = !begun.is_empty();
        for ((head, begun), root) in begun.into_iter().zip(roots) {
            match root.into_inner() {
                Some(Ok(root)) => head.book(&tx, begun, root)?,
                Some(Err(error)) => {
                    self.stop(head, &begun.object_set, pass.txg, &error);
                    self.charge_leak(&tx, begun.written())?;
                }
                None => {}
            }
        }
        Ok(any)
    }

    /// Begins the sync of a head, if that is dirty and possible.
    fn begin_head<'a>(
        &self,
        head: &'a Arc<Dataset>,
        tx: &Tx,
        pass: &SyncPass<'_>,
    ) -> Result<Option<Begun<'a>>> {
        match head.begin(tx, pass) {
            Err(error) => match head.open_object_set() {
                Some(object_set) if may_stop(&error, &object_set, pass.txg) => {
                    self.stop(head, &object_set, pass.txg, &error);
                    Ok(None)
                }
                _ => Err(error),
            },
            begun => begun,
        }
    }

    /// Charges the pool's own object set with what its last sync wrote, and writes it when it is
    /// dirty: its new root.
    ///
    /// # Errors
    /// A block cannot be read or written: the txg must not complete.
    fn sync_mos(&self, pass: &SyncPass<'_>) -> Result<Option<BlockPointer>> {
        let charge = std::mem::take(&mut *self.mos_charge.lock());
        if charge != Sizes::ZERO {
            match self.charge_mos(pass.txg, charge) {
                // The account is wrong from then on, and no more than that.
                Err(error) if error.is_damage() => MOS_CHARGES_LOST.increment(),
                charged => charged?,
            }
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
            unmatched: AtomicI64::new(0),
        };
        let root = self.mos.set.sync(&SyncContext {
            txg: pass.txg,
            writer: &*writer,
            accounting: &accounting,
            workers: pass.workers,
            engine: pass.engine,
            hole_birth: self.services().references(&features::HOLE_BIRTH) != 0,
            counts_bytes: self.services().version() >= version::COMPRESSED_TOTALS,
            account_owners: false,
            account_objects: false,
        })?;
        let unmatched = accounting.unmatched.into_inner();
        if let Some(engine) = pass.engine {
            invariant!(
                engine.findings(),
                unmatched == 0,
                "dsl.blocks",
                "the pool's own objects are charged with {unmatched} bytes in txg {} that are not in their dnodes",
                pass.txg
            );
        }
        Ok(Some(root))
    }

    fn charge_mos(&self, txg: Txg, charge: Sizes) -> Result<()> {
        let directory = self.hidden_directory(hidden::MOS)?;
        directory.map_or(Ok(()), |directory| {
            directory.prepare_charge()?;
            directory.charge(&Tx::syncing(txg), UsedBy::Head, charge)
        })
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
        // Where it cannot be told, nothing is promised.
        let available = self.available_bytes(SpaceClass::Normal).unwrap_or(0);
        self.account.synced(txg, available);
        let heads: Vec<_> = self.heads.lock().values().cloned().collect();
        for head in heads {
            if let Some(object_set) = head.open_object_set() {
                object_set.synced(txg);
            }
            head.close_if_idle(txg);
        }
    }
}
