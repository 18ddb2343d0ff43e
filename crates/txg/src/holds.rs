//! Open-txg counters, one shard a group of threads, so that holding a txg takes no lock.
//!
//! A holder raises its shard's counter, then looks again whether the txg is open; the quiescer
//! closes the txg, then looks at the counters. Both orders are sequentially consistent, so one of
//! the two always sees the other.
//!
//! The next txg opens only when the last holder of the closed one is gone. So whatever is changed
//! in a txg comes after everything that was changed in the one before, without any lock.

use std::cell::Cell;

use base::Txg;
use base::invariant;
use base::invariant::Findings;
use base::sync::atomic::{AtomicU64, Ordering};

/// How many shards the counters have; a power of two.
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 32 };

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    counts: [AtomicU64; Txg::SLOTS],
}

/// What came of asking for a hold.
pub(crate) enum Entered {
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

/// The numbers of threads that run, one bit each: a thread that ends leaves its number to the next one that starts, and
/// with it whatever was kept for that number. So threads that come and go do not spread over ever more shards.
struct Indices {
    used: [AtomicBits; INDICES / 64],
}

/// Never the model checker's: they outlive a model.
type AtomicBits = std::sync::atomic::AtomicU64;

/// More threads than this at once share numbers.
const INDICES: usize = 4096;

static THREADS: Indices = Indices {
    used: [const { AtomicBits::new(0) }; INDICES / 64],
};

impl Indices {
    /// The lowest number that no running thread has.
    fn take(&self) -> Option<usize> {
        for (word, bits) in self.used.iter().enumerate() {
            let lowest = |bits: u64| (bits != u64::MAX).then(|| bits | (bits + 1));
            if let Ok(before) = bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowest) {
                return Some(word * 64 + before.trailing_ones() as usize);
            }
        }
        None
    }

    fn release(&self, index: usize) {
        if let Some(bits) = self.used.get(index / 64) {
            bits.fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
        }
    }
}

/// The calling thread's number.
struct ThreadIndex {
    index: Cell<Option<usize>>,
    /// What to return when the thread ends.
    own: Cell<Option<usize>>,
}

impl Drop for ThreadIndex {
    fn drop(&mut self) {
        if let Some(own) = self.own.get() {
            THREADS.release(own);
        }
    }
}

base::sync::thread_local! {
    static MINE: ThreadIndex = const {
        ThreadIndex {
            index: Cell::new(None),
            own: Cell::new(None),
        }
    };
}

/// Gives the calling thread the number of another: both then choose the same shards.
pub(crate) fn share_thread_index(index: usize) {
    MINE.with(|mine| mine.index.set(Some(index)));
}

/// A small number of the calling thread, to choose a shard by: no other running thread has it, unless it was told to
/// share that thread's, or there are thousands.
#[must_use]
pub fn thread_index() -> usize {
    let number = |mine: &ThreadIndex| {
        if let Some(index) = mine.index.get() {
            return index;
        }
        let own = THREADS.take();
        mine.own.set(own);
        let index = own.unwrap_or(0);
        mine.index.set(Some(index));
        index
    };
    // A thread that is already ending has none any more.
    MINE.try_with(number).unwrap_or(0)
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
    pub(crate) fn enter(&self) -> Entered {
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
    pub(crate) fn leave(&self, shard: usize, txg: Txg, findings: &Findings) -> bool {
        let count = &self.shards[shard].counts[txg.slot()];
        let is_held = invariant!(
            findings,
            count.fetch_sub(1, Ordering::SeqCst) != 0,
            "txg.holds",
            "a hold of txg {txg} is returned that nobody has"
        );
        if !is_held {
            // Below zero the txg would never be quiet, and nobody would be told.
            count.fetch_add(1, Ordering::SeqCst);
        }
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

#[cfg(all(test, not(shuttle)))]
mod tests;
