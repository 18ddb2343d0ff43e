//! Readers beside a pass of the sync.
//!
//! From its second pass on, a sync rewrites blocks of its own txg where they are: between that and the swap of the
//! tree, the pointers that readers follow do not fit what is there. Who finds a block damaged while such a pass is
//! under way waits for its end, and the error stands only if the tree is the same then.

use std::time::Duration;

use base::Txg;
use base::clock::real_now;
use base::lock::{Condvar, LockClass, Mutex, rank};

use crate::error::{DmuError, Result};
use crate::meters::METERS;

static PASSES: LockClass = LockClass::new("dmu.passes", rank::DMU + 37);

/// A pass that takes longer does not wait for this reader alone: the error stands.
const WAIT_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    begun: u64,
    ended: u64,
    /// Of the last pass that began.
    txg: Txg,
    /// Whether it was not the first of its txg: only then there are blocks that it may rewrite.
    rewrites: bool,
    waiting: usize,
}

/// The passes of syncs over an object set, one at a time.
pub(crate) struct Passes {
    state: Mutex<State>,
    over: Condvar,
}

/// A pass, until it is dropped.
pub(super) struct Pass<'a> {
    passes: &'a Passes,
    /// The thread that is in a pass never waits for one.
    _context: txg::SyncContext,
}

impl Passes {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(&PASSES, State::default()),
            over: Condvar::new(),
        }
    }

    /// A pass begins; it ends when the answer is dropped, after the swap.
    pub(super) fn begin(&self, txg: Txg) -> Pass<'_> {
        let mut state = self.state.lock();
        state.begun += 1;
        state.rewrites = state.txg == txg;
        state.txg = txg;
        drop(state);
        Pass {
            passes: self,
            _context: txg::SyncContext::enter(true),
        }
    }

    /// An error of a reader stands unless the tree was swapped meanwhile (`is_same` no longer holds), or is when the
    /// pass that is under way ends: then its blocks may have been reused or rewritten, and the reader looks again.
    pub(crate) fn unless_swapped(&self, is_same: impl Fn() -> bool, error: DmuError) -> Result<()> {
        if is_same() && error.is_damage() {
            self.wait();
        }
        if is_same() {
            return Err(error);
        }
        METERS.reads_repeated.increment();
        Ok(())
    }

    /// Waits for the end of the pass that is under way, if it may rewrite blocks. Threads that sync return at once.
    fn wait(&self) {
        let mut state = self.state.lock();
        let rewrites = state.begun > state.ended && state.rewrites;
        if txg::SyncContext::is_current() || !rewrites {
            return;
        }
        METERS.passes_awaited.increment();
        let (until, this) = (real_now() + WAIT_MAX, state.begun);
        state.waiting += 1;
        while state.ended < this && !self.over.wait_until(&mut state, until) {}
        state.waiting -= 1;
    }

    /// How many readers wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.passes.state.lock().ended += 1;
        self.passes.over.notify_all();
    }
}

#[cfg(test)]
mod tests;
