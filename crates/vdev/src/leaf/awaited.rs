//! What the waiter of several reads is told: whose turn it is, and what came of them.

use crate::Failure;
use base::lock::{Condvar, LockClass, Mutex, rank};
use sys::Buffer;

static CLASS: LockClass = LockClass::new("vdev.awaited_reads", rank::VDEV + 36);

/// What became of a read.
pub(crate) type ReadResult = Result<Buffer, Failure>;

/// See the module. Reads are known by their numbers.
pub(crate) struct Awaited {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Default)]
struct State {
    /// Reads whose turn it is, and since when.
    turns: Vec<(usize, u64)>,
    results: Vec<Option<ReadResult>>,
    /// How many have no result yet.
    open: usize,
}

impl Awaited {
    /// Nothing is awaited yet.
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(&CLASS, State::default()),
            told: Condvar::new(),
        }
    }

    /// Awaits one more; answers its number.
    pub(crate) fn add(&self) -> usize {
        let mut state = self.state.lock();
        state.results.push(None);
        state.open += 1;
        state.results.len() - 1
    }

    /// It is this read's turn, since then.
    pub(crate) fn turn(&self, read: usize, start_ns: u64) {
        self.state.lock().turns.push((read, start_ns));
        self.told.notify_one();
    }

    /// This came of a read.
    pub(crate) fn done(&self, read: usize, result: ReadResult) {
        let mut state = self.state.lock();
        state.results[read] = Some(result);
        state.open -= 1;
        if state.open == 0 {
            self.told.notify_one();
        }
    }

    /// Waits for turns; none once every read has its result.
    pub(crate) fn next_turns(&self) -> Vec<(usize, u64)> {
        let mut state = self.state.lock();
        while state.turns.is_empty() && state.open > 0 {
            self.told.wait(&mut state);
        }
        std::mem::take(&mut state.turns)
    }

    /// What came of all of them, by their numbers.
    pub(crate) fn take_results(&self) -> Vec<Option<ReadResult>> {
        std::mem::take(&mut self.state.lock().results)
    }
}
