//! What the sync of a head writes and drops: it is charged, freed, or put on lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use base::invariant::Findings;
use base::lock::{LockClass, Mutex, rank};
use base::{Txg, invariant};
use codec::{Checksum, Compression};
use dmu::{BlockAccounting, BlockStore, SyncWorkers, Tx};
use format::BlockPointer;
use format::object_type::SwapClass;

use super::burial::{Burial, Kept};
use super::features::has_large_micro_zaps;
use super::{Dataset, DatasetFeature};
use crate::error::Result;
use crate::layer::Dsl;
use crate::services::Services;
use crate::sizes::Sizes;

static WAITING: LockClass = LockClass::new("dsl.waiting_blocks", rank::LAST + 1);

/// Signed sums that many threads add to.
#[derive(Default)]
pub(super) struct Sums {
    used: AtomicI64,
    compressed: AtomicI64,
    uncompressed: AtomicI64,
}

impl Sums {
    fn add(&self, sizes: Sizes) {
        self.used.fetch_add(sizes.used, Ordering::Relaxed);
        self.compressed
            .fetch_add(sizes.compressed, Ordering::Relaxed);
        self.uncompressed
            .fetch_add(sizes.uncompressed, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Sizes {
        Sizes {
            used: self.used.load(Ordering::Relaxed),
            compressed: self.compressed.load(Ordering::Relaxed),
            uncompressed: self.uncompressed.load(Ordering::Relaxed),
        }
    }
}

/// Is told of every block that a head's sync writes or drops.
///
/// Nothing is freed, shared or put on a list before all of the head is written ([`HeadAccounting::settle`]): a head
/// that cannot be written stays as it was. What waits is a pointer for each block that the txg replaces or frees.
pub(crate) struct HeadAccounting<'a> {
    services: &'a dyn Services,
    store: &'a dyn BlockStore,
    txg: Txg,
    previous_snapshot_txg: Txg,
    /// Blocks born after this are noted for the livelist, when there is one.
    livelist_after: Option<Txg>,
    /// Blocks born up to this and dropped are noted for bookmarks.
    bookmarked_until: Option<Txg>,
    waiting: Mutex<Waiting>,
    /// Change of everything referenced; what was written, until that is settled.
    pub(super) referenced: Sums,
    /// Change of what is not shared with the previous snapshot.
    pub(super) unique: Sums,
    /// What went to the deadlist and is charged to this directory.
    pub(super) buried: Sums,
    /// What went to the deadlist and only the previous snapshot has now.
    pub(super) previous_unique: Sums,
    births: Births,
    /// By how much the head grew, as its dnodes count it.
    grown_bytes: AtomicI64,
    pub(super) dropped_blocks: AtomicU64,
    /// Large blocks of ZAPs are those of micro ZAPs, which the pool may have.
    has_large_micro_zaps: bool,
    /// Bytes that nothing refers to any more and nobody can free, of what is not shared with the previous snapshot.
    pub(super) leaked_bytes: AtomicU64,
    pub(super) features: AtomicU32,
    pub(super) burial: Burial<'a>,
}

/// What was born or dropped and is not settled yet.
#[derive(Default)]
struct Waiting {
    /// Blocks that others have as well, or that a livelist is told of.
    born: Vec<BlockPointer>,
    killed: Vec<BlockPointer>,
}

/// What the births of dead blocks are compared with.
#[derive(Clone, Copy, Default)]
pub(super) struct Births {
    /// Blocks born after it are charged to this head's directory.
    pub(super) origin: Txg,
    /// Blocks born after it only the previous snapshot has, of the snapshots in its own chain; none: it is another's.
    pub(super) before_previous: Option<Txg>,
}

impl<'a> HeadAccounting<'a> {
    pub(super) fn new(
        head: &'a Arc<Dataset>,
        tx: &Tx,
        livelist_after: Option<Txg>,
    ) -> Result<Self> {
        let dsl: &Dsl = &head.dsl;
        let previous_snapshot_txg = head.phys()?.previous_snapshot_txg;
        Ok(Self {
            services: dsl.services(),
            store: dsl.mos.store.as_ref(),
            txg: tx.txg(),
            previous_snapshot_txg,
            livelist_after,
            bookmarked_until: head.bookmarked_txg()?,
            waiting: Mutex::new(&WAITING, Waiting::default()),
            referenced: Sums::default(),
            unique: Sums::default(),
            buried: Sums::default(),
            previous_unique: Sums::default(),
            births: head.births()?,
            grown_bytes: AtomicI64::new(0),
            dropped_blocks: AtomicU64::new(0),
            has_large_micro_zaps: has_large_micro_zaps(dsl.services()),
            leaked_bytes: AtomicU64::new(0),
            features: AtomicU32::new(0),
            burial: Burial::new(head, tx),
        })
    }

    fn bury(&self, pointer: &BlockPointer, sizes: Sizes) {
        if pointer.space_birth() > self.births.origin {
            self.buried.add(sizes);
        }
        let before = self.births.before_previous;
        if before.is_some_and(|before| pointer.space_birth() > before) {
            self.previous_unique.add(sizes);
        }
        self.burial.keep(Kept::Dead, pointer);
    }

    fn notes_for_livelist(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_embedded()
            && self
                .livelist_after
                .is_some_and(|origin| pointer.space_birth() > origin)
    }

    fn note_features(&self, pointer: &BlockPointer) {
        /// Blocks above this need a feature.
        const OLD_BLOCK_MAX: u64 = 128 * 1024;
        let mut bits = 0;
        if pointer.lsize() > OLD_BLOCK_MAX {
            bits |= 1 << DatasetFeature::LargeBlocks as u32;
            let is_zap = pointer.object_type().swap_class() == Some(SwapClass::Zap);
            // A fat ZAP has smaller ones. Where the feature is not enabled no stream is to activate it.
            if is_zap && pointer.level() == 0 && self.has_large_micro_zaps {
                bits |= 1 << DatasetFeature::LargeMicrozap as u32;
            }
        }
        bits |= match pointer.checksum() {
            Ok(Checksum::Sha512) => 1 << DatasetFeature::Sha512 as u32,
            Ok(Checksum::Skein) => 1 << DatasetFeature::Skein as u32,
            Ok(Checksum::Edonr) => 1 << DatasetFeature::Edonr as u32,
            Ok(Checksum::Blake3) => 1 << DatasetFeature::Blake3 as u32,
            Ok(
                Checksum::Off
                | Checksum::Label
                | Checksum::GangHeader
                | Checksum::Zilog
                | Checksum::Fletcher2
                | Checksum::Fletcher4
                | Checksum::Sha256
                | Checksum::Zilog2
                | Checksum::NoParity,
            )
            | Err(_) => 0,
        };
        if pointer.is_rewritten() {
            bits |= 1 << DatasetFeature::PhysicalRewrite as u32;
        }
        if let Ok(Compression::Zstd(_)) = pointer.compression() {
            bits |= 1 << DatasetFeature::ZstdCompress as u32;
        }
        if bits != 0 && self.features.load(Ordering::Relaxed) & bits != bits {
            self.features.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

impl HeadAccounting<'_> {
    /// All of the head is written: what it dropped is freed, or kept for the lists that it belongs to.
    pub(super) fn settle(&self, workers: &SyncWorkers) -> Result<()> {
        /// Blocks that one job settles, and for which threads are started.
        const JOB_BLOCKS: usize = 4096;
        let Waiting { born, killed } = std::mem::take(&mut *self.waiting.lock());
        for pointer in &born {
            if self.is_shared(pointer) {
                self.services.shares(pointer);
            }
            if self.notes_for_livelist(pointer) {
                self.burial.keep(Kept::Allocated, pointer);
            }
        }
        let jobs: Vec<&[BlockPointer]> = killed.chunks(JOB_BLOCKS).collect();
        workers.run(jobs.len(), jobs.len() > 1, |job| {
            jobs[job].iter().for_each(|pointer| self.dropped(pointer));
            Ok(())
        })
    }

    /// What a head gained and lost in a sync is what its blocks are charged with, block by block.
    pub(super) fn check(&self, findings: &Findings) {
        let charged = self.referenced.get().used;
        let grown = self.grown_bytes.load(Ordering::Relaxed);
        invariant!(
            findings,
            charged == grown,
            "dsl.blocks",
            "a head is charged with {charged} bytes more in txg {}, and its dnodes with {grown}",
            self.txg
        );
    }

    /// Whether a new pointer leads to a block that an earlier txg stored.
    fn is_shared(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_embedded() && pointer.physical_birth() < self.txg
    }

    fn dropped(&self, pointer: &BlockPointer) {
        let sizes = Sizes::of(self.store, pointer);
        self.referenced.add(-sizes);
        self.dropped_blocks.fetch_add(1, Ordering::Relaxed);
        if self.notes_for_livelist(pointer) {
            self.burial.keep(Kept::Freed, pointer);
        }
        if pointer.space_birth() <= self.previous_snapshot_txg {
            self.bury(pointer, sizes);
            return;
        }
        self.unique.add(-sizes);
        if self
            .bookmarked_until
            .is_some_and(|until| pointer.space_birth() <= until)
        {
            self.burial.keep(Kept::Bookmarked, pointer);
        }
        if pointer.is_embedded() {
            return;
        }
        if self.services.frees_later(pointer) {
            self.burial.keep(Kept::Later, pointer);
        } else {
            self.services.free(self.txg, pointer);
        }
    }
}

impl BlockAccounting for HeadAccounting<'_> {
    fn born(&self, pointer: &BlockPointer) {
        if pointer.is_hole() {
            return;
        }
        let sizes = Sizes::of(self.store, pointer);
        self.referenced.add(sizes);
        self.unique.add(sizes);
        self.note_features(pointer);
        if self.is_shared(pointer) || self.notes_for_livelist(pointer) {
            self.waiting.lock().born.push(*pointer);
        }
    }

    fn killed(&self, pointer: &BlockPointer) {
        if !pointer.is_hole() {
            self.waiting.lock().killed.push(*pointer);
        }
    }

    fn leaked(&self, pointer: &BlockPointer, bytes: u64) {
        // What is below a block that the previous snapshot has is older still: the snapshot is charged with it.
        if pointer.space_birth() > self.previous_snapshot_txg {
            self.leaked_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn grew(&self, bytes: i64) {
        self.grown_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
