//! Syncing a head: its blocks are written, those born are charged, those killed are freed or go
//! to the deadlist.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmu::{ObjectSet, SyncContext, Tx};
use format::dsl::UsedBy;
use format::{BlockPointer, ObjectSetPhys, features, version};

use super::accounting::{Births, HeadAccounting};
use super::burial::METERS;
use super::{Dataset, DatasetFeature};
use crate::error::{DslError, Result};
use crate::livelist;
use crate::services::SyncPass;
use crate::sizes::{Sizes, change};

/// The sync of a head between its beginning and its booking.
pub(crate) struct Begun<'a> {
    pub(crate) object_set: Arc<ObjectSet>,
    accounting: HeadAccounting<'a>,
    has_livelist: bool,
}

impl Begun<'_> {
    /// What was written of a head that could not be written as a whole. Its blocks stay allocated, for who has the head
    /// open reads them.
    pub(crate) fn written(&self) -> Sizes {
        self.accounting.referenced.get()
    }
}

impl Dataset {
    /// Reads what the sync of this head will need.
    pub(crate) fn look_ahead(&self, object_set: &ObjectSet, pass: &SyncPass<'_>) -> Result<()> {
        let phys = self.phys()?;
        self.object.prepare_change()?;
        self.directory().prepare_charge()?;
        self.directory().livelist()?;
        self.directory().storage_policy()?;
        self.origin_txg()?;
        self.bookmarked_txg()?;
        if phys.previous_snapshot.0 != 0 {
            self.deadlist()?.look_ahead()?;
            self.previous()?;
        }
        Ok(object_set.look_ahead(pass.txg, pass.workers)?)
    }

    /// Writes what is dirty in this head and books it, in a transaction of the caller. Nothing happens when nothing is
    /// dirty.
    ///
    /// # Errors
    /// A block cannot be read or written: the txg must not complete then.
    pub(crate) fn sync_in(self: &Arc<Self>, tx: &Tx, pass: &SyncPass<'_>) -> Result<bool> {
        let Some(begun) = self.begin(tx, pass)? else {
            return Ok(false);
        };
        let root = self.write(&begun, pass)?;
        self.book(tx, begun, root)?;
        Ok(true)
    }

    /// Begins the sync of this head, if something of it is dirty.
    ///
    /// # Errors
    /// As [`Dataset::sync_in`].
    pub(crate) fn begin(
        self: &Arc<Self>,
        tx: &Tx,
        pass: &SyncPass<'_>,
    ) -> Result<Option<Begun<'_>>> {
        let open = self.open_object_set();
        let Some(object_set) = open.filter(|object_set| object_set.is_dirty(pass.txg)) else {
            return Ok(None);
        };
        // The feature may have been enabled since it was opened: it acts from the first sync on.
        self.allow_large_micro_zaps(&object_set);
        let has_livelist = livelist::begin(&self.directory(), tx, pass.pass)?;
        let livelist_after = has_livelist.then(|| self.origin_txg()).transpose()?;
        Ok(Some(Begun {
            object_set,
            accounting: HeadAccounting::new(self, tx, livelist_after)?,
            has_livelist,
        }))
    }

    /// Writes what is dirty in this head: its new root. Of the datasets' records nothing changes: heads may be written
    /// beside each other.
    ///
    /// # Errors
    /// A block cannot be read or written: nothing was freed then.
    pub(crate) fn write(&self, begun: &Begun<'_>, pass: &SyncPass<'_>) -> Result<BlockPointer> {
        let policy = self.directory().storage_policy()?;
        let writer = pass.writers.writer(Some(&policy));
        let Begun {
            object_set,
            accounting,
            ..
        } = begun;
        let root = object_set.sync(&self.sync_context(pass, object_set, &*writer, accounting))?;
        accounting.settle(pass.workers)?;
        if let Some(engine) = pass.engine {
            accounting.check(engine.findings());
        }
        Ok(root)
    }

    fn sync_context<'a>(
        &self,
        pass: &SyncPass<'a>,
        object_set: &ObjectSet,
        writer: &'a dyn dmu::BlockWriter,
        accounting: &'a HeadAccounting<'_>,
    ) -> SyncContext<'a> {
        let flags = object_set.flags();
        SyncContext {
            txg: pass.txg,
            writer,
            accounting,
            workers: pass.workers,
            engine: pass.engine,
            hole_birth: self.dsl.services().references(&features::HOLE_BIRTH) != 0,
            counts_bytes: self.dsl.services().version() >= version::COMPRESSED_TOTALS,
            account_owners: flags & ObjectSetPhys::FLAG_USER_ACCOUNTING != 0,
            account_objects: flags & ObjectSetPhys::FLAG_USER_OBJECT_ACCOUNTING != 0,
        }
    }

    /// Books what a sync wrote and dropped.
    ///
    /// # Errors
    /// As [`Dataset::sync_in`].
    pub(crate) fn book(
        self: &Arc<Self>,
        tx: &Tx,
        begun: Begun<'_>,
        root: BlockPointer,
    ) -> Result<()> {
        let Begun {
            accounting,
            has_livelist,
            ..
        } = begun;
        self.change(tx, |phys| phys.block_pointer = root)?;
        let referenced = accounting.referenced.get();
        let unique = accounting.unique.get();
        let features = accounting.features.load(Ordering::Relaxed);
        let (buried, previous_unique) = (accounting.buried.get(), accounting.previous_unique.get());
        let leaked_bytes = accounting.leaked_bytes.into_inner();
        METERS
            .dropped
            .record(accounting.dropped_blocks.into_inner());
        accounting.burial.finish(tx)?;
        let before = self.change(tx, |phys| {
            let before = phys.unique_bytes;
            change(&mut phys.referenced_bytes, referenced.used);
            change(&mut phys.compressed_bytes, referenced.compressed);
            change(&mut phys.uncompressed_bytes, referenced.uncompressed);
            change(&mut phys.unique_bytes, unique.used);
            before
        })?;
        self.charge_head(tx, before, unique.used, unique)?;
        self.leak(tx, leaked_bytes)?;
        self.book_buried(tx, buried, previous_unique)?;
        if has_livelist {
            livelist::give_up_when_useless(self, tx)?;
        }
        self.store_received(tx)?;
        let noted = self.noted_features.swap(0, Ordering::AcqRel);
        for feature in DatasetFeature::ALL {
            if (noted | features) & (1 << feature as u32) != 0 {
                self.activate(tx, feature)?;
            }
        }
        Ok(())
    }

    /// What was lost below damaged blocks is the pool's from now on, not this dataset's. Some of it may be the previous
    /// snapshot's: no more than what is this head's alone leaves it.
    fn leak(&self, tx: &Tx, bytes: u64) -> Result<()> {
        let phys = self.phys()?;
        let (before, bytes) = (phys.unique_bytes, bytes.min(phys.unique_bytes));
        if bytes == 0 {
            return Ok(());
        }
        let gone = Sizes {
            used: bytes.cast_signed(),
            ..Sizes::ZERO
        };
        self.change(tx, |phys| {
            change(&mut phys.referenced_bytes, -gone.used);
            change(&mut phys.unique_bytes, -gone.used);
        })?;
        self.charge_head(tx, before, -gone.used, -gone)?;
        self.dsl.charge_leak(tx, gone)
    }

    /// What was shared with the previous snapshot alone is unique to it now, and is charged to snapshots.
    fn book_buried(&self, tx: &Tx, buried: Sizes, previous_unique: Sizes) -> Result<()> {
        if buried != Sizes::ZERO {
            self.directory()
                .transfer(tx, buried.used, UsedBy::Head, UsedBy::Snapshots)?;
        }
        if previous_unique == Sizes::ZERO {
            return Ok(());
        }
        let previous = self
            .previous()?
            .ok_or_else(|| DslError::damaged(self.id(), "a dead block without a snapshot"))?;
        previous.change(tx, |phys| {
            change(&mut phys.unique_bytes, previous_unique.used)
        })
    }

    pub(super) fn births(&self) -> Result<Births> {
        let Some(previous) = self.previous()? else {
            return Ok(Births::default());
        };
        let phys = previous.phys()?;
        let is_own = phys.next_snapshot == self.id();
        Ok(Births {
            origin: self.origin_txg()?,
            before_previous: is_own.then_some(phys.previous_snapshot_txg),
        })
    }
}
