//! Batches on their way to the medium, by the txg whose maps have what they allocated.
//!
//! Invariant: a txg's uberblock is written when every batch that allocated in it, or before, is on the medium or has
//! failed. Otherwise a crash between the two leaves blocks that the maps call used and that no block of the chain leads
//! to: they would be lost for good. A batch enters while it holds its txg, so a txg that syncs knows all of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Txg;
use base::lock::{Condvar, LockClass, Mutex, rank};

static IN_FLIGHT: LockClass = LockClass::new("intent.in_flight", rank::INTENT + 24);

/// See the module.
pub(crate) struct InFlight {
    /// How many batches, by txg.
    batches: Mutex<BTreeMap<Txg, usize>>,
    left: Condvar,
}

/// One batch, until it is dropped.
pub(crate) struct Passage {
    of: Arc<InFlight>,
    txg: Txg,
}

impl InFlight {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            batches: Mutex::new(&IN_FLIGHT, BTreeMap::new()),
            left: Condvar::new(),
        })
    }

    /// A batch is about to allocate in `txg`, which its caller holds.
    pub(crate) fn enter(self: &Arc<Self>, txg: Txg) -> Passage {
        *self.batches.lock().entry(txg).or_default() += 1;
        Passage {
            of: Arc::clone(self),
            txg,
        }
    }

    /// Waits for the batches that allocated in `txg` or before; nobody holds that txg any more. A batch waits for
    /// devices, never for a txg.
    pub(crate) fn wait(&self, txg: Txg) {
        let mut batches = self.batches.lock();
        while batches
            .first_key_value()
            .is_some_and(|(first, _)| *first <= txg)
        {
            self.left.wait(&mut batches);
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut batches = self.of.batches.lock();
        if let Some(count) = batches.get_mut(&self.txg) {
            *count -= 1;
            if *count == 0 {
                batches.remove(&self.txg);
            }
        }
        drop(batches);
        self.of.left.notify_all();
    }
}

#[cfg(test)]
mod tests;
