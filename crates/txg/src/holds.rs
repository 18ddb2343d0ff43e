//! Open-txg counters, one shard a group of threads, so that holding a txg takes no lock.
//!
//! A holder raises its shard's counter, then looks again at the open txg; the quiescer moves the
//! open txg, then looks at the counters. Both orders are sequentially consistent, so one of the two
//! always sees the other.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::Txg;

use crate::engine::Engine;

/// How many shards the counters have; a power of two.
const SHARDS: usize = 32;

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    counts: [AtomicU64; Txg::SLOTS],
}

/// The counters of all open transactions.
pub(crate) struct Holds {
    open: AtomicU64,
    quiescing: AtomicU64,
    shards: Box<[Shard]>,
}

/// The shard of the calling thread.
fn thread_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        mine.get()
    })
}

impl Holds {
    pub(crate) fn new(first: Txg) -> Self {
        Self {
            open: AtomicU64::new(first.0),
            quiescing: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    pub(crate) fn open(&self) -> Txg {
        Txg(self.open.load(Ordering::SeqCst))
    }

    /// Holds the open txg: the shard and the txg.
    fn enter(&self) -> (usize, Txg) {
        let shard = thread_shard();
        loop {
            let txg = self.open();
            self.shards[shard].counts[txg.slot()].fetch_add(1, Ordering::SeqCst);
            if self.open() == txg {
                return (shard, txg);
            }
            self.shards[shard].counts[txg.slot()].fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Drops a hold; true when the quiescer waits for this txg and wants to be woken.
    fn leave(&self, shard: usize, txg: Txg) -> bool {
        self.shards[shard].counts[txg.slot()].fetch_sub(1, Ordering::SeqCst);
        self.quiescing.load(Ordering::SeqCst) == txg.0
    }

    /// Closes the open txg to new holds and opens the next.
    pub(crate) fn close(&self) -> Txg {
        let txg = self.open();
        self.quiescing.store(txg.0, Ordering::SeqCst);
        self.open.store(txg.next().0, Ordering::SeqCst);
        txg
    }

    /// Whether nobody holds `txg`.
    pub(crate) fn is_quiet(&self, txg: Txg) -> bool {
        let slot = txg.slot();
        self.shards.iter().all(|shard| shard.counts[slot].load(Ordering::SeqCst) == 0)
    }
}

/// A hold of a txg: it cannot be synced before this is dropped.
#[must_use]
pub struct TxgHold {
    engine: Arc<Engine>,
    shard: usize,
    txg: Txg,
}

impl TxgHold {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        let (shard, txg) = engine.holds().enter();
        Self { engine: Arc::clone(engine), shard, txg }
    }

    /// The txg that is held.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.txg
    }

    /// The engine whose txg is held.
    #[must_use]
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Drop for TxgHold {
    fn drop(&mut self) {
        if self.engine.holds().leave(self.shard, self.txg) {
            self.engine.wake_quiescer();
        }
    }
}
