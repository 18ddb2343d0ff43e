//! Writing a txg: the passes, and the uberblock at their end.
//!
//! Each pass writes what is dirty and so changes space maps, which live in the pool's own object set, which so is
//! dirty again. It converges: from the second pass on, blocks that this txg wrote before are rewritten in place, so
//! that the last pass allocates nothing. Only then the uberblock is written. Nothing is acknowledged before.

use crate::allocator::PoolAllocator;
use crate::blocks::{PassWriters, WriteRules};
use crate::config_state::ConfigState;
use crate::error::{PoolError, Result};
use crate::frees::Frees;
use crate::space_store::MosSpaceStore;
use crate::uberblock::Commit;
use base::clock::Clock;
use base::lock::{LockClass, Mutex, rank};
use base::Txg;
use dmu::{ObjectSet, SyncWorkers};
use dsl::{Bpobj, Dsl, SyncPass};
use format::BlockPointer;
use format::uberblock::Uberblock;
use pipeline::Pipeline;
use space::PoolSpace;
use std::sync::{Arc, Weak};
use txg::{Engine, SyncFailure, SyncTarget};
use vdev::{VdevTree, WriteGroup};

static LAST: LockClass = LockClass::new("pool.last_synced", rank::LAST - 20);

/// A txg that does not converge after so many passes never will: a bug of ours, and no uberblock is written.
const PASSES_MAX: u32 = 200;

/// What a sync works on.
pub(crate) struct Syncer {
    pub(crate) objects: Arc<ObjectSet>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) space: Arc<PoolSpace>,
    pub(crate) maps: Arc<MosSpaceStore>,
    pub(crate) allocator: Arc<PoolAllocator>,
    pub(crate) frees: Arc<Frees>,
    /// The list of deferred frees.
    pub(crate) deferred: Bpobj,
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) workers: SyncWorkers,
    pub(crate) config: Arc<ConfigState>,
    pub(crate) engine: Weak<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: WriteRules,
    /// Told in each pass what only the pool does: feature counts, history, scan.
    pub(crate) duties: Arc<dyn PassDuties>,
    pub(crate) last: LastSynced,
}

/// What the pool itself does in each pass.
pub(crate) trait PassDuties: Send + Sync {
    /// Before datasets are synced.
    fn before(&self, txg: Txg, pass: u32) -> Result<()>;
    /// After the space maps were written; `maps_change`: how many more maps with a histogram there are.
    fn after(&self, txg: Txg, pass: u32, maps_change: i64) -> Result<()>;
}

/// The newest uberblock.
pub(crate) struct LastSynced {
    uberblock: Mutex<Uberblock>,
}

impl LastSynced {
    pub(crate) fn new(uberblock: Uberblock) -> Self {
        Self { uberblock: Mutex::new(&LAST, uberblock) }
    }

    pub(crate) fn get(&self) -> Uberblock {
        self.uberblock.lock().clone()
    }
}

impl SyncTarget for Syncer {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        self.sync_txg(txg).map_err(|error| SyncFailure { reason: error.to_string() })
    }
}

impl Syncer {
    /// Writes a txg, and its uberblock if it changed anything.
    pub(crate) fn sync_txg(&self, txg: Txg) -> Result<()> {
        self.maps.begin(txg);
        let group = WriteGroup::new(txg);
        let root = self.passes(txg, &group)?;
        group.wait().map_err(PoolError::Commit)?;
        if let Some(root) = root {
            self.commit(txg, root)?;
        }
        self.space.finish(txg)?;
        self.dsl.finish(txg);
        Ok(())
    }

    /// Runs passes until one leaves nothing to write; the root pointer, unless nothing was written at all.
    fn passes(&self, txg: Txg, group: &Arc<WriteGroup>) -> Result<Option<BlockPointer>> {
        let mut root = None;
        for pass in 1..=PASSES_MAX {
            if let Some(written) = self.pass(txg, pass, group)? {
                root = Some(written);
            }
            let dirty = self.objects.is_dirty(txg)
                || self.dsl.is_dirty(txg)
                || self.space.is_dirty(txg);
            if !dirty {
                return Ok(root);
            }
        }
        Err(PoolError::NoConvergence { txg, passes: PASSES_MAX })
    }

    fn pass(
        &self,
        txg: Txg,
        pass: u32,
        group: &Arc<WriteGroup>,
    ) -> Result<Option<BlockPointer>> {
        let writers =
            PassWriters { pipeline: &self.pipeline, meta: self.rules, txg, pass, group };
        let engine = self.engine.upgrade();
        let context = SyncPass {
            txg,
            pass,
            workers: &self.workers,
            engine: engine.as_deref(),
            writers: &writers,
        };
        self.frees.begin(pass);
        self.duties.before(txg, pass)?;
        self.config.store(&self.objects, txg)?;
        let root = self.dsl.sync(&context)?;
        self.frees.list(&self.deferred, txg)?;
        if pass == 1 {
            self.dsl.background(&context)?;
            if root.is_some() || self.objects.is_dirty(txg) {
                self.frees.free_listed(&self.deferred, txg)?;
                self.space.flush_some(txg, &*self.maps)?;
            }
        }
        self.space.sync(txg, pass, &*self.maps)?;
        self.duties.after(txg, pass, self.maps.take_maps_change())?;
        if let Some(fault) = self.allocator.take_fault() {
            return Err(fault.into());
        }
        if let Some(fault) = self.frees.take_fault() {
            return Err(PoolError::Free(fault.to_string()));
        }
        Ok(root)
    }

    fn commit(&self, txg: Txg, root: BlockPointer) -> Result<()> {
        let seconds = u64::try_from(self.clock.now_ns() / 1_000_000_000).unwrap_or(0);
        let (version, guid_sum) =
            self.config.with(|config| (config.version(), config.root.guid_sum()));
        let uberblock = Uberblock::new(version, txg, guid_sum, seconds, root);
        let labels = self.config.for_labels();
        let commit = Commit {
            vdevs: &self.vdevs,
            labels: labels.as_ref(),
            uberblock: &uberblock,
            rotor: usize::try_from(txg.0 % 1024).unwrap_or(0),
        };
        commit.run()?;
        if labels.is_some() {
            self.config.labels_written();
        }
        *self.last.uberblock.lock() = uberblock;
        Ok(())
    }
}
