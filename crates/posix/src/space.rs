//! What a file system must know about the space of its dataset, and how it asks without asking
//! each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Txg;
use dmu::{Admission, Refusal};
use dsl::DatasetFeature;
use txg::Engine;

/// Space as the dataset sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceNumbers {
    /// Bytes that the dataset refers to.
    pub referenced: u64,
    /// Bytes that can still be written: the least of pool, quotas and reservations.
    pub available: u64,
}

/// The dataset under a file system.
pub trait Space: Admission {
    /// The numbers now.
    fn numbers(&self) -> SpaceNumbers;

    /// Something is about to be stored that older software does not read: the dataset counts
    /// among the users of a feature from the txg that is open now.
    fn note_feature(&self, feature: DatasetFeature) {
        let _ = feature;
    }
}

/// Admits transactions from an allowance that is renewed once a txg.
///
/// The allowance is a part of what is available, so that what all txgs in flight dirty stays below
/// it; a transaction gives back what it reserved and did not use. When the allowance of a txg is
/// used up, the next txg's is waited for.
pub(crate) struct Allowance {
    engine: Arc<Engine>,
    space: Arc<dyn Space>,
    /// The txg for which `left` was measured.
    txg: AtomicU64,
    left: AtomicU64,
}

impl Allowance {
    /// Which part of the available space one txg may use: three are in flight.
    const SHARE: u64 = 4;

    pub(crate) fn new(engine: &Arc<Engine>, space: &Arc<dyn Space>) -> Self {
        Self {
            engine: Arc::clone(engine),
            space: Arc::clone(space),
            txg: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Takes back what a transaction of `txg` reserved and did not use.
    pub(crate) fn give_back(&self, txg: Txg, bytes: u64) {
        if self.txg.load(Ordering::Relaxed) == txg.0 {
            self.left.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Admission for Allowance {
    fn admit(&self, bytes: u64, net_free: bool) -> Result<(), Refusal> {
        let txg = self.engine.open_txg().0;
        let current = self.txg.load(Ordering::Relaxed) == txg;
        if current && (net_free || self.take(bytes)) {
            return Ok(());
        }
        self.space.admit(bytes, net_free)?;
        if self.txg.swap(txg, Ordering::Relaxed) != txg {
            let share = self.space.numbers().available / Self::SHARE;
            self.left
                .store(share.saturating_sub(bytes), Ordering::Relaxed);
            return Ok(());
        }
        if net_free || self.take(bytes) {
            Ok(())
        } else {
            Err(Refusal::Retry)
        }
    }
}
