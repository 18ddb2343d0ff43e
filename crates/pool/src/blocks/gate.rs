//! Keeps freed space from being used again while somebody still looks at old block pointers, or repairs what they
//! point to.
//!
//! A block that is referenced in the state of txg T is freed in T + 1 at the earliest, and its
//! space can be allocated again at the end of T + 3 at the earliest. While a hold of T exists, T + 3 does not
//! end: what it would make free is not given away. Holds are short: syncing waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Txg;
use base::lock::{Condvar, LockClass, Mutex, rank};
use pipeline::{RepairPermit, Repairs};

static GATE: LockClass = LockClass::new("pool.reuse_gate", rank::LAST - 40);

/// At the end of so many txgs later, freed space can be used again.
const TXGS_UNTIL_REUSE: u64 = 3;

/// Whether the end of `txg` may give away what was in use in the state of `seen`, which any number can stand for that
/// a disk has.
const fn ends_reuse_of(seen: Txg, txg: Txg) -> bool {
    txg.0.saturating_sub(seen.0) >= TXGS_UNTIL_REUSE
}

/// See the module.
pub(crate) struct ReuseGate {
    holds: Mutex<BTreeMap<Txg, usize>>,
    released: Condvar,
    /// The last txg that was let through: it is on disk, and what it made free may be used. Changes under the lock.
    passed: AtomicU64,
}

/// While it lives, blocks of the state of its txg stay as they are.
pub(crate) struct Hold {
    gate: Arc<ReuseGate>,
    txg: Txg,
}

impl ReuseGate {
    /// `synced`: the newest txg on disk.
    pub(crate) fn new(synced: Txg) -> Arc<Self> {
        Arc::new(Self {
            holds: Mutex::new(&GATE, BTreeMap::new()),
            released: Condvar::new(),
            passed: AtomicU64::new(synced.0),
        })
    }

    /// The last txg that was let through.
    pub(crate) fn now(&self) -> Txg {
        Txg(self.passed.load(Ordering::Acquire))
    }

    /// Holds the state of `seen`, unless what was in use then may have been given away since.
    fn hold_since(self: &Arc<Self>, seen: Txg) -> Option<Hold> {
        let mut holds = self.holds.lock();
        if ends_reuse_of(seen, self.now()) {
            return None;
        }
        *holds.entry(seen).or_insert(0) += 1;
        Some(Hold {
            gate: Arc::clone(self),
            txg: seen,
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

    /// How many states are held.
    pub(crate) fn held(&self) -> usize {
        self.holds.lock().len()
    }

    /// Whether the end of `txg` may make space free for use.
    pub(crate) fn is_open(&self, txg: Txg) -> bool {
        let holds = self.holds.lock();
        let oldest = holds.first_key_value();
        oldest.is_none_or(|(held, _)| !ends_reuse_of(*held, txg))
    }

    /// Waits until the end of `txg`, which is on disk, may make space free for use.
    pub(crate) fn wait(&self, txg: Txg) {
        let mut holds = self.holds.lock();
        while holds
            .first_key_value()
            .is_some_and(|(held, _)| ends_reuse_of(*held, txg))
        {
            self.released.wait(&mut holds);
        }
        self.passed.fetch_max(txg.0, Ordering::AcqRel);
    }
}

/// Gives leave to repair by a gate.
pub(crate) struct GatedRepairs(pub(crate) Arc<ReuseGate>);

impl Repairs for GatedRepairs {
    fn permit(&self, seen: Txg, birth: Txg) -> Option<RepairPermit> {
        // While its txg syncs, a block may be rewritten where it is: a pointer that was taken meanwhile may be that of
        // an earlier pass, also when the txg is on disk by now.
        if birth > seen {
            return None;
        }
        let hold = self.0.hold_since(seen)?;
        Some(Box::new(hold))
    }
}

impl Hold {
    /// The txg whose state stays as it is.
    pub(crate) const fn txg(&self) -> Txg {
        self.txg
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
    fn a_hold_stops_the_end_of_the_third_txg_after_it() {
        let gate = ReuseGate::new(Txg(10));
        let hold = gate.hold(|| Txg(10));
        gate.wait(Txg(12));
        let waiter = Arc::clone(&gate);
        let thread = std::thread::spawn(move || waiter.wait(Txg(13)));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!thread.is_finished());
        drop(hold);
        thread.join().unwrap();
    }

    #[test]
    fn who_repairs_has_the_places_or_no_leave() {
        let gate = ReuseGate::new(Txg(10));
        let repairs = GatedRepairs(Arc::clone(&gate));
        assert!(
            repairs.permit(Txg(10), Txg(11)).is_none(),
            "not on disk yet"
        );
        gate.wait(Txg(11));
        assert!(
            repairs.permit(Txg(10), Txg(11)).is_none(),
            "seen while it was written: perhaps rewritten since"
        );
        assert!(repairs.permit(Txg(11), Txg(11)).is_some());
        gate.wait(Txg(12));
        let permit = repairs.permit(Txg(10), Txg(5));
        assert!(permit.is_some());
        let waiter = Arc::clone(&gate);
        let thread = std::thread::spawn(move || waiter.wait(Txg(13)));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!thread.is_finished(), "given away under a repair");
        drop(permit);
        thread.join().unwrap();
        assert!(
            repairs.permit(Txg(10), Txg(5)).is_none(),
            "perhaps another block's"
        );
        assert!(repairs.permit(Txg(11), Txg(5)).is_some());
    }

    #[test]
    fn any_number_of_a_txg_is_taken() {
        let gate = ReuseGate::new(Txg(10));
        let hold = gate.hold(|| Txg(u64::MAX));
        assert!(gate.is_open(Txg(13)));
        gate.wait(Txg(u64::MAX));
        drop(hold);
        let permit = GatedRepairs(Arc::clone(&gate)).permit(Txg(u64::MAX), Txg(5));
        assert!(permit.is_some());
    }
}
