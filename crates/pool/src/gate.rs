//! Keeps freed space from being used again while somebody still looks at old block pointers.
//!
//! A block that is referenced in the state of txg T is freed in T + 1 at the earliest, and its
//! space is allocated again in T + 4 at the earliest. While a hold of T exists, T + 4 does not
//! begin to sync. Holds are short: syncing waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Txg;
use base::lock::{Condvar, LockClass, Mutex, rank};

static GATE: LockClass = LockClass::new("pool.reuse_gate", rank::LAST - 40);

/// After so many txgs freed space is used again.
const TXGS_UNTIL_REUSE: u64 = 4;

/// See the module.
pub(crate) struct ReuseGate {
    holds: Mutex<BTreeMap<Txg, usize>>,
    released: Condvar,
}

/// While it lives, blocks of the state of its txg stay as they are.
pub(crate) struct Hold {
    gate: Arc<ReuseGate>,
    txg: Txg,
}

impl ReuseGate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            holds: Mutex::new(&GATE, BTreeMap::new()),
            released: Condvar::new(),
        })
    }

    /// Holds the newest state; `synced` says which txg that is, asked under the gate's lock.
    pub(crate) fn hold(self: &Arc<Self>, synced: impl FnOnce() -> Txg) -> Hold {
        let mut holds = self.holds.lock();
        let txg = synced();
        *holds.entry(txg).or_insert(0) += 1;
        Hold {
            gate: Arc::clone(self),
            txg,
        }
    }

    /// Whether `txg` may use freed space again.
    pub(crate) fn is_open(&self, txg: Txg) -> bool {
        let holds = self.holds.lock();
        let oldest = holds.first_key_value();
        oldest.is_none_or(|(held, _)| held.0 + TXGS_UNTIL_REUSE > txg.0)
    }

    /// Waits until `txg` may use freed space again.
    pub(crate) fn wait(&self, txg: Txg) {
        let mut holds = self.holds.lock();
        while holds
            .first_key_value()
            .is_some_and(|(held, _)| held.0 + TXGS_UNTIL_REUSE <= txg.0)
        {
            self.released.wait(&mut holds);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.gate.holds.lock();
        if let Some(count) = holds.get_mut(&self.txg) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.txg);
            }
        }
        drop(holds);
        self.gate.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_stops_the_fourth_txg_after_it() {
        let gate = ReuseGate::new();
        let hold = gate.hold(|| Txg(10));
        gate.wait(Txg(13));
        let waiter = Arc::clone(&gate);
        let thread = std::thread::spawn(move || waiter.wait(Txg(14)));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!thread.is_finished());
        drop(hold);
        thread.join().unwrap();
    }
}
