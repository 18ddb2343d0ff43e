//! How many blocks each txg in flight is to free: what frees are given beside dirty bytes, so that no sync has more to
//! walk and to list than it can do in a bounded time.

use base::Txg;
use base::invariant;
use base::invariant::Findings;
use base::sync::atomic::{AtomicU64, Ordering};

/// Blocks that the txgs in flight are to free.
#[derive(Default)]
pub(crate) struct Frees {
    booked: [AtomicU64; Txg::SLOTS],
    /// The most that one txg ever was to free.
    max: AtomicU64,
}

impl Frees {
    /// Books `blocks` on a txg that the caller holds, unless that passes `limit`. What is booked first always fits.
    pub(crate) fn try_book(&self, txg: Txg, blocks: u64, limit: u64) -> bool {
        let slot = &self.booked[txg.slot()];
        let fits = |booked: u64| {
            let after = booked.saturating_add(blocks);
            (booked == 0 || after <= limit).then_some(after)
        };
        match slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(before) => {
                let after = before.saturating_add(blocks);
                self.max.fetch_max(after, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// The txg is on disk: its slot belongs to a later one.
    pub(crate) fn synced(&self, txg: Txg) {
        self.booked[txg.slot()].store(0, Ordering::Relaxed);
    }

    /// `txg` opens, and takes over the slot of one that has synced: of that nothing is left.
    pub(crate) fn opens(&self, txg: Txg, findings: &Findings) {
        let booked = self.of(txg);
        invariant!(
            findings,
            booked == 0,
            "txg.frees",
            "{booked} blocks to free are booked on txg {txg} before it opens"
        );
    }

    /// Blocks booked on a txg in flight.
    pub(crate) fn of(&self, txg: Txg) -> u64 {
        self.booked[txg.slot()].load(Ordering::Relaxed)
    }

    /// The most that one txg ever was to free.
    pub(crate) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
}
