//! What a file system must know about the space of its dataset, and how it asks without asking
//! each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Admits transactions from an allowance that is renewed once a txg, as long as there is plenty of
/// space; near the limits every transaction asks the dataset.
///
/// The allowance is a small part of what is available, for other datasets take from the same pool
/// and a byte may need several on the devices.
pub(crate) struct Allowance {
    engine: Arc<Engine>,
    space: Arc<dyn Space>,
    /// The txg for which `left` was measured.
    txg: AtomicU64,
    left: AtomicU64,
}

impl Allowance {
    /// Which part of the available space may be handed out without asking again.
    const SHARE: u64 = 64;

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
}

impl Admission for Allowance {
    fn admit(&self, bytes: u64, net_free: bool) -> Result<(), Refusal> {
        let txg = self.engine.open_txg().0;
        if self.txg.load(Ordering::Relaxed) == txg && self.take(bytes) {
            return Ok(());
        }
        self.space.admit(bytes, net_free)?;
        if self.txg.swap(txg, Ordering::Relaxed) != txg {
            let available = self.space.numbers().available;
            self.left.store(available / Self::SHARE, Ordering::Relaxed);
        }
        Ok(())
    }
}
