//! Syncing a head: its blocks are written, those born are charged, those killed are freed or go
//! to the dead list.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use codec::{Checksum, Compression};
use dmu::{BlockAccounting, BlockStore, ObjectSet, SyncContext, Tx};
use format::dsl::UsedBy;
use format::{BlockPointer, ObjectSetPhys, features};

use super::{Dataset, DatasetFeature};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::livelist;
use crate::services::{Services, SyncPass};
use crate::sizes::{Sizes, change};

static DEAD: LockClass = LockClass::new("dsl.dead_blocks", rank::LAST + 2);

/// Signed sums that many threads add to.
#[derive(Default)]
struct Sums {
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

    fn get(&self) -> Sizes {
        Sizes {
            used: self.used.load(Ordering::Relaxed),
            compressed: self.compressed.load(Ordering::Relaxed),
            uncompressed: self.uncompressed.load(Ordering::Relaxed),
        }
    }
}

/// Blocks that cannot be freed at once.
#[derive(Default)]
struct Kept {
    /// Shared with the previous snapshot.
    dead: Vec<BlockPointer>,
    /// Not shared, but freed later (gang, dedup, cloned).
    later: Vec<BlockPointer>,
    /// For the livelist: born and killed, in that order.
    allocated: Vec<BlockPointer>,
    freed: Vec<BlockPointer>,
    /// Not shared with the previous snapshot, but with one that only a bookmark remembers.
    bookmarked: Vec<BlockPointer>,
}

/// Is told of every block that a head's sync writes or drops.
pub(crate) struct HeadAccounting<'a> {
    services: &'a dyn Services,
    store: &'a dyn BlockStore,
    txg: Txg,
    previous_snapshot_txg: Txg,
    /// Blocks born after this are noted for the livelist, when there is one.
    livelist_after: Option<Txg>,
    /// Blocks born up to this and dropped are noted for bookmarks.
    bookmarked_until: Option<Txg>,
    /// Change of everything referenced.
    referenced: Sums,
    /// Change of what is not shared with the previous snapshot.
    unique: Sums,
    features: AtomicU32,
    kept: Mutex<Kept>,
}

impl<'a> HeadAccounting<'a> {
    fn new(
        dsl: &'a Dsl,
        txg: Txg,
        previous_snapshot_txg: Txg,
        livelist_after: Option<Txg>,
        bookmarked_until: Option<Txg>,
    ) -> Self {
        Self {
            services: dsl.services(),
            store: dsl.mos.store.as_ref(),
            txg,
            previous_snapshot_txg,
            livelist_after,
            bookmarked_until,
            referenced: Sums::default(),
            unique: Sums::default(),
            features: AtomicU32::new(0),
            kept: Mutex::new(&DEAD, Kept::default()),
        }
    }

    fn notes_for_livelist(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_embedded()
            && self
                .livelist_after
                .is_some_and(|origin| pointer.birth() > origin)
    }

    fn note_features(&self, pointer: &BlockPointer) {
        /// Blocks above this need a feature.
        const OLD_BLOCK_MAX: u64 = 128 * 1024;
        let mut bits = 0;
        if pointer.lsize() > OLD_BLOCK_MAX {
            bits |= 1 << DatasetFeature::LargeBlocks as u32;
        }
        bits |= match pointer.checksum() {
            Ok(Checksum::Sha512) => 1 << DatasetFeature::Sha512 as u32,
            Ok(Checksum::Skein) => 1 << DatasetFeature::Skein as u32,
            Ok(Checksum::Edonr) => 1 << DatasetFeature::Edonr as u32,
            Ok(Checksum::Blake3) => 1 << DatasetFeature::Blake3 as u32,
            _ => 0,
        };
        if let Ok(Compression::Zstd(_)) = pointer.compression() {
            bits |= 1 << DatasetFeature::ZstdCompress as u32;
        }
        if bits != 0 && self.features.load(Ordering::Relaxed) & bits != bits {
            self.features.fetch_or(bits, Ordering::Relaxed);
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
        if !pointer.is_embedded() && pointer.physical_birth() < self.txg {
            self.services.shares(pointer);
        }
        if self.notes_for_livelist(pointer) {
            self.kept.lock().allocated.push(*pointer);
        }
    }

    fn killed(&self, pointer: &BlockPointer) {
        if pointer.is_hole() {
            return;
        }
        let sizes = Sizes::of(self.store, pointer);
        self.referenced.add(-sizes);
        if self.notes_for_livelist(pointer) {
            self.kept.lock().freed.push(*pointer);
        }
        if pointer.birth() <= self.previous_snapshot_txg {
            self.kept.lock().dead.push(*pointer);
            return;
        }
        self.unique.add(-sizes);
        if self
            .bookmarked_until
            .is_some_and(|until| pointer.birth() <= until)
        {
            self.kept.lock().bookmarked.push(*pointer);
        }
        if pointer.is_embedded() {
            return;
        }
        if self.services.frees_later(pointer) {
            self.kept.lock().later.push(*pointer);
        } else {
            self.services.free(self.txg, pointer);
        }
    }
}

impl Dataset {
    /// Writes what is dirty in this head and books it. Nothing happens when nothing is dirty.
    ///
    /// # Errors
    /// A block cannot be read or written: the txg must not complete then.
    pub(crate) fn sync(self: &Arc<Self>, pass: &SyncPass<'_>) -> Result<bool> {
        let Some(object_set) = self.open_object_set() else {
            return Ok(false);
        };
        if !object_set.is_dirty(pass.txg) {
            return Ok(false);
        }
        let tx = Tx::syncing(pass.txg);
        let phys = self.phys()?;
        let livelist = self.directory().livelist()?;
        let livelist_after = livelist.map(|_| self.origin_txg()).transpose()?;
        let accounting = HeadAccounting::new(
            &self.dsl,
            pass.txg,
            phys.previous_snapshot_txg,
            livelist_after,
            self.bookmarked_txg()?,
        );
        let policy = self.directory().storage_policy()?;
        let writer = pass.writers.writer(Some(&policy));
        let root = object_set.sync(&self.sync_context(pass, &object_set, &*writer, &accounting))?;
        self.change(&tx, |phys| phys.block_pointer = root)?;
        self.book(&tx, accounting, livelist.is_some())?;
        Ok(true)
    }

    fn sync_context<'a>(
        &self,
        pass: &SyncPass<'a>,
        object_set: &ObjectSet,
        writer: &'a dyn dmu::BlockWriter,
        accounting: &'a HeadAccounting<'a>,
    ) -> SyncContext<'a> {
        let flags = object_set.flags();
        SyncContext {
            txg: pass.txg,
            writer,
            accounting,
            workers: pass.workers,
            engine: pass.engine,
            hole_birth: self.dsl.services().references(&features::HOLE_BIRTH) != 0,
            account_owners: flags & ObjectSetPhys::FLAG_USER_ACCOUNTING != 0,
            account_objects: flags & ObjectSetPhys::FLAG_USER_OBJECT_ACCOUNTING != 0,
        }
    }

    /// Books what a sync wrote and dropped.
    fn book(
        self: &Arc<Self>,
        tx: &Tx,
        accounting: HeadAccounting<'_>,
        has_livelist: bool,
    ) -> Result<()> {
        let referenced = accounting.referenced.get();
        let unique = accounting.unique.get();
        let features = accounting.features.load(Ordering::Relaxed);
        let kept = accounting.kept.into_inner();
        let before = self.change(tx, |phys| {
            let before = phys.unique_bytes;
            change(&mut phys.referenced_bytes, referenced.used);
            change(&mut phys.compressed_bytes, referenced.compressed);
            change(&mut phys.uncompressed_bytes, referenced.uncompressed);
            change(&mut phys.unique_bytes, unique.used);
            before
        })?;
        self.charge_head(tx, before, unique.used, unique)?;
        self.bury(tx, &kept.dead)?;
        self.bookmarks_saw_dead(tx, &kept.bookmarked)?;
        self.dsl.free_later(tx, &kept.later)?;
        if has_livelist {
            livelist::record(self, tx, &kept.allocated, &kept.freed)?;
        }
        let noted = self.noted_features.swap(0, Ordering::AcqRel);
        for feature in DatasetFeature::ALL {
            if (noted | features) & (1 << feature as u32) != 0 {
                self.activate(tx, feature)?;
            }
        }
        Ok(())
    }

    /// Blocks that the previous snapshot still has go to the dead list; what was shared with that
    /// snapshot alone is unique to it now.
    fn bury(&self, tx: &Tx, dead: &[BlockPointer]) -> Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        let store = self.dsl.mos.store.as_ref();
        self.deadlist()?.insert(tx, dead, false)?;
        let origin_txg = self.origin_txg()?;
        let moved: Sizes = dead
            .iter()
            .filter(|pointer| pointer.birth() > origin_txg)
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.directory()
            .transfer(tx, moved.used, UsedBy::Head, UsedBy::Snapshots)?;
        let previous = self
            .previous()?
            .ok_or_else(|| DslError::damaged(self.id(), "a dead block without a snapshot"))?;
        let phys = previous.phys()?;
        if phys.next_snapshot == self.id() {
            let unique: Sizes = dead
                .iter()
                .filter(|pointer| pointer.birth() > phys.previous_snapshot_txg)
                .map(|pointer| Sizes::of(store, pointer))
                .sum();
            previous.change(tx, |phys| change(&mut phys.unique_bytes, unique.used))?;
        }
        self.bookmarks_saw_dead(tx, dead)
    }

    /// Counts this dataset for a feature, once.
    pub(crate) fn activate(&self, tx: &Tx, feature: DatasetFeature) -> Result<()> {
        let guid = feature.feature().guid.as_bytes();
        let zap = self.make_extra(tx)?;
        if zap.lookup_value(guid)?.is_some() {
            return Ok(());
        }
        zap.add(tx, guid, 0)?;
        let services = &self.dsl.mos.services;
        Ok(services.change_references(tx, feature.feature(), 1)?)
    }

    /// Takes this dataset off the counts of all its features.
    pub(crate) fn deactivate_all(&self, tx: &Tx) -> Result<()> {
        for feature in self.features()? {
            if let Some(zap) = self.extra()? {
                zap.remove(tx, feature.feature().guid.as_bytes())?;
            }
            self.dsl
                .mos
                .services
                .change_references(tx, feature.feature(), -1)?;
        }
        Ok(())
    }
}
