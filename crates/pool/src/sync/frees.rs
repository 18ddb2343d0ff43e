//! Freeing blocks in the way of the pass: at once, or on the list of deferred frees.
//!
//! In a pool without space map logs every free dirties a space map, which is itself written in the pass: frees from
//! the second pass on would keep the passes from converging. They are listed, and freed in the next txg.

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, registry};
use dmu::Tx;
use dsl::NamedList;
use format::BlockPointer;
use pipeline::FreeError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use crate::blocks::PipelineStore;
use crate::blocks::dedup::DedupTables;
use crate::blocks::references::BlockReferenceTable;
use crate::scan::pending::PendingBlocks;

/// What can be watched here, for the whole process.
struct Meters {
    /// Gang blocks that were freed although their header is damaged: their members leaked.
    gangs_leaked: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    gangs_leaked: registry().counter("pool.gangs_leaked"),
});

static PENDING: LockClass = LockClass::new("pool.deferred_frees", rank::LAST + 3);

/// The pass from which on frees are deferred.
const DEFER_PASS: u32 = 2;

/// Frees blocks for the layers above.
pub(crate) struct Frees {
    store: Arc<PipelineStore>,
    references: Arc<BlockReferenceTable>,
    dedup: Arc<DedupTables>,
    /// The pool has space map logs: everything is freed at once.
    at_once: bool,
    pass: AtomicU32,
    pending: Mutex<Pending>,
    /// What a scan has found is not to be looked at when it is freed.
    scan: Arc<PendingBlocks>,
}

#[derive(Default)]
struct Pending {
    blocks: Vec<BlockPointer>,
    fault: Option<FreeError>,
}

impl Frees {
    pub(crate) fn new(
        store: Arc<PipelineStore>,
        references: Arc<BlockReferenceTable>,
        dedup: Arc<DedupTables>,
        at_once: bool,
    ) -> Self {
        Self {
            store,
            references,
            dedup,
            at_once,
            pass: AtomicU32::new(0),
            pending: Mutex::new(&PENDING, Pending::default()),
            scan: Arc::new(PendingBlocks::new()),
        }
    }

    /// The blocks that a scan has found, which is told of every free.
    pub(crate) const fn scan(&self) -> &Arc<PendingBlocks> {
        &self.scan
    }

    /// Begins a pass.
    pub(crate) fn begin(&self, pass: u32) {
        self.pass.store(pass, Ordering::Relaxed);
    }

    /// Frees a block that its dataset does not reference any more; with others who do, the pass settles it.
    pub(crate) fn free(&self, txg: Txg, pointer: &BlockPointer) {
        if self.at_once || self.pass.load(Ordering::Relaxed) < DEFER_PASS {
            self.free_now(txg, pointer);
        } else if !pointer.is_hole() && !pointer.is_embedded() {
            self.pending.lock().blocks.push(*pointer);
        }
    }

    fn free_now(&self, txg: Txg, pointer: &BlockPointer) {
        if self.references.may_be_shared(pointer) {
            self.references.dropped(pointer);
        } else {
            self.free_last(txg, pointer);
        }
    }

    /// Frees the space of a block whose last reference went, as far as clones are concerned: of what a dedup table
    /// counts, that decides.
    pub(crate) fn free_last(&self, txg: Txg, pointer: &BlockPointer) {
        if pointer.is_dedup() {
            return self.dedup.dropped(pointer);
        }
        self.scan.freed(txg, pointer);
        match self.store.free(pointer, txg) {
            Ok(()) => {}
            // Who the members were nobody can say any more.
            Err(FreeError::Gang(_)) => METERS.gangs_leaked.increment(),
            Err(error @ FreeError::Dedup) => {
                self.pending.lock().fault.get_or_insert(error);
            }
        }
    }

    /// Puts what this pass deferred on the list.
    pub(crate) fn list(&self, list: &NamedList, txg: Txg) -> dsl::Result<()> {
        let blocks = std::mem::take(&mut self.pending.lock().blocks);
        if blocks.is_empty() {
            return Ok(());
        }
        list.append(&Tx::syncing(txg), &blocks)
    }

    /// Frees everything that earlier txgs put on the list; what cannot be read of it leaks.
    pub(crate) fn free_listed(&self, list: &NamedList, txg: Txg) -> dsl::Result<()> {
        if list.is_empty()? {
            return Ok(());
        }
        list.take(&Tx::syncing(txg), u64::MAX, &mut |pointer| {
            self.free_now(txg, pointer)
        })?;
        Ok(())
    }

    /// What could not be freed, if anything since the last call.
    pub(crate) fn take_fault(&self) -> Option<FreeError> {
        self.pending.lock().fault.take()
    }
}
