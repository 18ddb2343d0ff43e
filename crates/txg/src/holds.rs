//! Open-txg counters, one shard a group of threads, so that holding a txg takes no lock.
//!
//! A holder raises its shard's counter, then looks again whether the txg is open; the quiescer
//! closes the txg, then looks at the counters. Both orders are sequentially consistent, so one of
//! the two always sees the other.
//!
//! The next txg opens only when the last holder of the closed one is gone. So whatever is changed
//! in a txg comes after everything that was changed in the one before, without any lock.

use std::cell::Cell;
use std::sync::Arc;

use base::Txg;
use base::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;

/// How many shards the counters have; a power of two.
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 32 };

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    counts: [AtomicU64; Txg::SLOTS],
}

/// What came of asking for a hold.
enum Entered {
    /// It is held: the shard and the txg.
    Held(usize, Txg),
    /// The txg is closing.
    Closed,
    /// It closed while the counter was raised. The quiescer may have seen that and now waits for
    /// the counter to fall, so it must be woken as by any holder that leaves.
    Withdrawn,
}

/// The counters of all open transactions.
pub(crate) struct Holds {
    /// The txg, times two, plus one when it takes no more holds.
    open: AtomicU64,
    shards: Box<[Shard]>,
}

base::sync::thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Gives the calling thread the number of another: both then choose the same shards.
pub(crate) fn share_thread_index(index: usize) {
    MINE.with(|mine| mine.set(index));
}

/// A small number of the calling thread, to choose a shard by.
#[must_use]
pub fn thread_index() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

impl Holds {
    pub(crate) fn new(first: Txg) -> Self {
        Self {
            open: AtomicU64::new(first.0 << 1),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// The open txg, or the one that is closing.
    pub(crate) fn open(&self) -> Txg {
        Txg(self.open.load(Ordering::SeqCst) >> 1)
    }

    /// Whether holds must wait for the next txg to open.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.load(Ordering::SeqCst) & 1 == 1
    }

    /// Holds the open txg.
    fn enter(&self) -> Entered {
        let shard = thread_index() % SHARDS;
        let word = self.open.load(Ordering::SeqCst);
        if word & 1 == 1 {
            return Entered::Closed;
        }
        let txg = Txg(word >> 1);
        let count = &self.shards[shard].counts[txg.slot()];
        count.fetch_add(1, Ordering::SeqCst);
        if self.open.load(Ordering::SeqCst) == word {
            return Entered::Held(shard, txg);
        }
        count.fetch_sub(1, Ordering::SeqCst);
        Entered::Withdrawn
    }

    /// Drops a hold; true when the quiescer may wait for it.
    fn leave(&self, shard: usize, txg: Txg) -> bool {
        self.shards[shard].counts[txg.slot()].fetch_sub(1, Ordering::SeqCst);
        self.is_closed()
    }

    /// Closes the open txg to new holds.
    pub(crate) fn close(&self) -> Txg {
        Txg(self.open.fetch_or(1, Ordering::SeqCst) >> 1)
    }

    /// Opens the txg after the closed one.
    pub(crate) fn open_next(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether nobody holds `txg`.
    pub(crate) fn is_quiet(&self, txg: Txg) -> bool {
        let slot = txg.slot();
        self.shards
            .iter()
            .all(|shard| shard.counts[slot].load(Ordering::SeqCst) == 0)
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
    /// Nothing while the open txg is closing.
    pub(crate) fn try_new(engine: &Arc<Engine>) -> Option<Self> {
        match engine.holds().enter() {
            Entered::Held(shard, txg) => Some(Self {
                engine: Arc::clone(engine),
                shard,
                txg,
            }),
            Entered::Closed => None,
            Entered::Withdrawn => {
                engine.wake_quiescer();
                None
            }
        }
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
