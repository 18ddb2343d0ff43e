//! Whether there is space for a transaction: what quotas, reservations and the pool leave, less
//! what is on its way to the disk already. The only place that decides it.
//!
//! A shortage that ends when dirty data is on disk asks the caller to try again; only one that
//! stays is a refusal, so that a full pool is found before a txg would fail to sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Txg;
use dmu::{Admission, Refusal};
use txg::Engine;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::services::SpaceClass;

/// Admits transactions that change a head.
///
/// Most are admitted from an allowance that is measured once a txg; a transaction gives back what it
/// reserved and did not use. Without allowance each is judged by all that is not on disk yet.
pub struct HeadAdmission {
    head: Arc<Dataset>,
    /// None when the pool is read only.
    engine: Option<Arc<Engine>>,
    figures: Figures,
    /// The txg for which `left` was measured.
    txg: AtomicU64,
    /// Bytes that transactions of that txg may dirty without a question.
    left: AtomicU64,
}

/// What every decision asks, as of the last synced txg: only a sync changes it. Read without a lock; figures of
/// neighbouring txgs may mix, which an estimate bears.
#[derive(Default)]
struct Figures {
    /// The txg that the figures are of, plus one; 0 = none yet.
    stamp: AtomicU64,
    available: AtomicU64,
    copies: AtomicU64,
}

/// Which part of the available space the allowance of one txg is: three are in flight.
const SHARE: u64 = 4;

impl Dataset {
    /// What admits transactions that change this head.
    #[must_use]
    pub fn admission(self: &Arc<Self>) -> Arc<HeadAdmission> {
        Arc::new(HeadAdmission {
            head: Arc::clone(self),
            engine: self.dsl().engine.clone(),
            figures: Figures::default(),
            txg: AtomicU64::new(0),
            left: AtomicU64::new(0),
        })
    }
}

impl HeadAdmission {
    /// The head.
    #[must_use]
    pub fn head(&self) -> &Arc<Dataset> {
        &self.head
    }

    /// Takes back what a transaction of `txg` reserved and did not use.
    pub fn give_back(&self, txg: Txg, bytes: u64) {
        if self.txg.load(Ordering::Relaxed) == txg.0 {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn refresh(&self, engine: &Engine) -> Result<()> {
        let synced = engine.synced_txg().0;
        let figures = &self.figures;
        if figures.stamp.load(Ordering::Acquire) == synced + 1 {
            return Ok(());
        }
        let copies = self.head.directory().storage_policy()?.copies.clamp(1, 3);
        let available = self.head.available(SpaceClass::Normal)?;
        figures.available.store(available, Ordering::Relaxed);
        figures.copies.store(copies, Ordering::Relaxed);
        figures.stamp.store(synced + 1, Ordering::Release);
        Ok(())
    }

    /// What dirty bytes may take on disk: their copies, and as much again for metadata.
    fn promised_bytes(&self, dirty_bytes: u64) -> u64 {
        dirty_bytes.saturating_mul(self.figures.copies.load(Ordering::Relaxed) + 1)
    }

    fn decide(&self, engine: &Engine, dirty_bytes: u64, net_free: bool) -> Result<Option<Refusal>> {
        self.refresh(engine)?;
        // The caller's own bytes are among them.
        let unsynced = engine.dirty_counts().unsynced_bytes.max(dirty_bytes);
        let available = if net_free {
            // Quotas keep nobody from making room, and the slop is there for it.
            let used = self.head.dsl().root_directory()?.phys()?.used_bytes;
            let services = self.head.dsl().services();
            services
                .usable_bytes(SpaceClass::ExtraReserved)
                .saturating_sub(used)
        } else {
            self.figures.available.load(Ordering::Relaxed)
        };
        let outstanding = self.left.load(Ordering::Relaxed);
        if available >= self.promised_bytes(unsynced.saturating_add(outstanding)) {
            return Ok(None);
        }
        // The next txgs tell what was really used, and give back what was freed.
        let dsl = self.head.dsl();
        if unsynced > dirty_bytes
            || outstanding > 0
            || dsl.services().deferred_bytes() > 0
            || dsl.has_background_frees()?
        {
            return Ok(Some(Refusal::Retry));
        }
        Ok(Some(self.refusal()?))
    }

    fn refusal(&self) -> Result<Refusal> {
        let limited = self.head.ref_quota()? != 0 || self.head.directory().phys()?.quota != 0;
        Ok(if limited {
            Refusal::Quota
        } else {
            Refusal::NoSpace
        })
    }
}

impl Admission for HeadAdmission {
    fn admit(&self, dirty_bytes: u64, net_free: bool) -> std::result::Result<(), Refusal> {
        let Some(engine) = &self.engine else {
            return Err(Refusal::NoSpace);
        };
        let txg = engine.open_txg().0;
        let measured = self.txg.load(Ordering::Relaxed) == txg;
        if measured && (net_free || self.take(dirty_bytes)) {
            return Ok(());
        }
        if !measured {
            self.left.store(0, Ordering::Relaxed);
        }
        match self.decide(engine, dirty_bytes, net_free) {
            Ok(None) => {}
            Ok(Some(refusal)) => return Err(refusal),
            // A dataset whose space cannot be told takes no more.
            Err(_) => return Err(Refusal::NoSpace),
        }
        if self.txg.swap(txg, Ordering::Relaxed) != txg {
            let available = self.figures.available.load(Ordering::Relaxed);
            let allowance = available / SHARE / self.promised_bytes(1);
            self.left
                .store(allowance.saturating_sub(dirty_bytes), Ordering::Relaxed);
        }
        Ok(())
    }
}
