//! Where operations wait for their turn on a device: the [`Scheduler`] with locks around it. A thread waits here, or
//! asks for a turn that it is told of.

use super::awaited::Awaited;
use crate::{IoClass, Next, Policy, Scheduler};
use base::clock::monotonic_ns;
use base::lock::{Condvar, LockClass, Mutex, rank};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

static CLASS: LockClass = LockClass::new("vdev.gate", rank::VDEV + 35);

const CLASSES: usize = IoClass::ALL.len();
/// Limits change with time, too: who waits looks again after this long.
const LOOK_AGAIN_NS: u64 = 20_000_000;

/// Who waits for a turn.
enum Waiting {
    /// A thread, here.
    Thread,
    /// Who awaits the read of that number.
    Read(Arc<Awaited>, usize),
}

struct State {
    scheduler: Scheduler,
    /// Who waits, by class, in the order of arrival.
    lines: [VecDeque<Waiting>; CLASSES],
    /// Operations that may start, and whose threads have not noticed yet.
    granted: [u32; CLASSES],
}

impl State {
    fn arrive(&mut self, class: IoClass, waiting: Waiting) {
        self.scheduler.arrive(class);
        self.lines[class as usize].push_back(waiting);
    }
}

/// One device's gate.
pub(crate) struct Gate {
    state: Mutex<State>,
    wake: [Condvar; CLASSES],
}

impl Gate {
    pub(crate) fn new() -> Self {
        let state = State {
            scheduler: Scheduler::new(Policy::Classes),
            lines: std::array::from_fn(|_| VecDeque::new()),
            granted: [0; CLASSES],
        };
        Self {
            state: Mutex::new(&CLASS, state),
            wake: std::array::from_fn(|_| Condvar::new()),
        }
    }

    /// Waits until an operation of `class` may start; answers when that is.
    pub(crate) fn enter(&self, class: IoClass) -> u64 {
        let mut state = self.state.lock();
        state.arrive(class, Waiting::Thread);
        loop {
            let now_ns = monotonic_ns();
            let at_ns = self.grant(&mut state, now_ns);
            if state.granted[class as usize] > 0 {
                state.granted[class as usize] -= 1;
                return now_ns;
            }
            let wait_ns = at_ns.saturating_sub(now_ns).clamp(1000, LOOK_AGAIN_NS);
            self.wake[class as usize].wait_for(&mut state, Duration::from_nanos(wait_ns));
        }
    }

    /// Asks for a turn for a read, of which `awaited` is told. It is for classes whose limits do not wait for a moment:
    /// nobody looks at the clock for them.
    pub(crate) fn ask(&self, class: IoClass, awaited: Arc<Awaited>, read: usize) {
        let mut state = self.state.lock();
        state.arrive(class, Waiting::Read(awaited, read));
        self.grant(&mut state, monotonic_ns());
    }

    /// An operation that started then has ended now.
    pub(crate) fn leave(&self, class: IoClass, len: usize, started_ns: u64, now_ns: u64) {
        let mut state = self.state.lock();
        state.scheduler.end(class, len, started_ns, now_ns);
        self.grant(&mut state, now_ns);
    }

    /// The most bytes of a txg's write that starts now.
    pub(crate) fn write_bytes_max(&self) -> usize {
        self.state.lock().scheduler.write_bytes_max(monotonic_ns())
    }

    /// Says how much is dirty, in thousandths of the limit.
    pub(crate) fn set_dirty(&self, permille: u32) {
        self.state.lock().scheduler.set_dirty(permille);
    }

    /// The share of txg writes beside reads, in thousandths.
    pub(crate) fn write_share_permille(&self) -> u64 {
        self.state.lock().scheduler.write_share_permille()
    }

    /// Lets start what may; answers when to look again.
    fn grant(&self, state: &mut State, now_ns: u64) -> u64 {
        loop {
            match state.scheduler.next(now_ns) {
                Next::Start(class) => match state.lines[class as usize].pop_front() {
                    Some(Waiting::Read(awaited, read)) => awaited.turn(read, now_ns),
                    Some(Waiting::Thread) | None => {
                        state.granted[class as usize] += 1;
                        self.wake[class as usize].notify_one();
                    }
                },
                Next::At(at_ns) => return at_ns,
                Next::Idle => return u64::MAX,
            }
        }
    }
}
