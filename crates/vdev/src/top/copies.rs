//! The ranges of a vdev that are being copied to leaves that lack them ([`super::range_copy`]), and what is written
//! into them meanwhile.

use base::lock::{Condvar, LockClass, Mutex, rank};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static STATE: LockClass = LockClass::new("vdev.copies", rank::VDEV + 3);

/// The ranges of a vdev that are being copied. Those of vdevs that take each other's place are one.
pub(crate) struct Copies {
    /// How many there are: a write looks at this alone as long as there are none.
    count: AtomicUsize,
    state: Mutex<State>,
    /// A range is in the queues, or given up.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    ranges: Vec<UnderWay>,
    last: u64,
}

struct UnderWay {
    number: u64,
    range: Range<u64>,
    /// What was written since it began.
    newer: Vec<Range<u64>>,
    /// It is being put into the queues: who writes into it waits for that.
    is_queueing: bool,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Copies {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            state: Mutex::new(&STATE, State::default()),
            ended: Condvar::new(),
        })
    }

    /// A range is about to be written. The caller looks for a block ([`super::Moves::look_for`]).
    pub(super) fn written(&self, range: Range<u64>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut state = self.state.lock();
        while state
            .ranges
            .iter()
            .any(|copy| copy.is_queueing && overlap(&copy.range, &range))
        {
            self.ended.wait(&mut state);
        }
        let copies = state.ranges.iter_mut();
        for copy in copies.filter(|copy| overlap(&copy.range, &range)) {
            copy.newer.push(range.clone());
        }
    }

    pub(super) fn begin(&self, range: Range<u64>) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.ranges.push(UnderWay {
            number,
            range,
            newer: Vec::new(),
            is_queueing: false,
        });
        self.count.fetch_add(1, Ordering::SeqCst);
        number
    }

    /// From here until [`Copies::end`] nobody writes into a range. What was written since it began.
    pub(super) fn queue(&self, number: u64) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        let mut copies = state.ranges.iter_mut();
        let Some(copy) = copies.find(|copy| copy.number == number) else {
            return Vec::new();
        };
        copy.is_queueing = true;
        std::mem::take(&mut copy.newer)
    }

    /// Whether no range is being copied.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().ranges.is_empty() && self.count.load(Ordering::SeqCst) == 0
    }

    pub(super) fn end(&self, number: u64) {
        let mut state = self.state.lock();
        state.ranges.retain(|copy| copy.number != number);
        self.count.fetch_sub(1, Ordering::SeqCst);
        drop(state);
        self.ended.notify_all();
    }
}
