//! Locks that belong to a class: ranked (the lock order is asserted in debug builds) and counted.
//!
//! A thread may take a lock only if its rank is higher than every rank the thread holds; upper
//! layers take first, so their ranks are lower: see [`rank`]. Trying (`try_lock`) is exempt, for
//! it cannot deadlock. A class declared with [`LockClass::nesting`] may be taken twice by one
//! thread; its users state their own order (by address, by id).
//!
//! Acquisitions and waits are counted by class, hold times of a sample of them, or of all if the
//! class is [`LockClass::watched`].

mod backend;
mod mutex;
mod place;
pub mod rank;
mod rwlock;

use crate::clock::{monotonic_ns, real_now, since};
use crate::metrics::{Counter, Histogram, HistogramSnapshot, Value, registry};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use place::Place;

pub use mutex::{Condvar, Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One acquisition in so many has its hold time measured: reading the clock costs more than all the
/// other counting.
const HOLDS_SAMPLED: u64 = 64;

/// What locks of one purpose share: name, place in the order, counters.
#[derive(Debug)]
pub struct LockClass {
    name: &'static str,
    rank: u16,
    nests: bool,
    /// Threads of a schedule may be made to wait here.
    #[cfg(all(debug_assertions, not(shuttle)))]
    scheduled: bool,
    hold_period: u64,
    listed: AtomicBool,
    acquisitions: Counter,
    contended: Counter,
    wait_ns: Histogram,
    hold_ns: Histogram,
}

/// How often locks of a class were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCounts {
    /// How often a lock of the class was taken.
    pub acquisitions: u64,
    /// How many of these had to wait.
    pub contended: u64,
}

impl LockClass {
    /// A class whose locks a thread holds one at a time.
    #[must_use]
    pub const fn new(name: &'static str, rank: u16) -> Self {
        Self {
            name,
            rank,
            nests: false,
            #[cfg(all(debug_assertions, not(shuttle)))]
            scheduled: true,
            hold_period: HOLDS_SAMPLED,
            listed: AtomicBool::new(false),
            acquisitions: Counter::new(),
            contended: Counter::new(),
            wait_ns: Histogram::new(),
            hold_ns: Histogram::new(),
        }
    }

    /// A class of which a thread may hold several, in an order that its users keep.
    #[must_use]
    pub const fn nesting(name: &'static str, rank: u16) -> Self {
        let mut class = Self::new(name, rank);
        class.nests = true;
        class
    }

    /// The same class with every hold time measured: for locks that are taken rarely and whose
    /// longest hold matters.
    #[must_use]
    pub const fn watched(mut self) -> Self {
        self.hold_period = 1;
        self
    }

    /// The same for locks of what serves the whole process: threads of a schedule do not take turns at them, for who
    /// takes them, and when, is no matter of one history. Nothing else is locked under them.
    #[must_use]
    #[cfg_attr(not(all(debug_assertions, not(shuttle))), expect(unused_mut))]
    pub const fn of_process(mut self) -> Self {
        #[cfg(all(debug_assertions, not(shuttle)))]
        {
            self.scheduled = false;
        }
        self
    }

    /// The class's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The class's place in the lock order.
    #[must_use]
    pub const fn rank(&self) -> u16 {
        self.rank
    }

    /// How often locks of this class were taken.
    #[must_use]
    pub fn counts(&self) -> LockCounts {
        LockCounts {
            acquisitions: self.acquisitions.get(),
            contended: self.contended.get(),
        }
    }

    /// How long the contended acquisitions waited.
    #[must_use]
    pub fn wait_histogram(&self) -> HistogramSnapshot {
        self.wait_ns.snapshot()
    }

    /// How long the locks were held, of those acquisitions that were measured.
    #[must_use]
    pub fn hold_histogram(&self) -> HistogramSnapshot {
        self.hold_ns.snapshot()
    }

    pub(crate) fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        sink("acquisitions", Value::from(&self.acquisitions));
        sink("contended", Value::from(&self.contended));
        sink("wait_ns", Value::from(&self.wait_ns));
        sink("hold_ns", Value::from(&self.hold_ns));
    }

    /// Makes the class visible in the registry, once.
    fn list(&'static self) {
        if !self.listed.load(Ordering::Relaxed) && !self.listed.swap(true, Ordering::Relaxed) {
            registry().add_lock_class(self);
        }
    }

    /// Takes the lock at `place`: `attempt` first, then `wait`.
    fn acquire<G>(
        &'static self,
        place: Place,
        attempt: impl Fn() -> Option<G>,
        wait: impl FnOnce() -> G,
    ) -> (G, Held) {
        let order = OrderNote::ordered(self);
        let sampled = self.acquisitions.increment_sampled(self.hold_period);
        place.wanted();
        if let Some(guard) = attempt() {
            return (guard, Held::new(sampled, order, place));
        }
        self.contended.increment();
        OwnWaits::note(self);
        let start = real_now();
        let guard = place.take_turns(&attempt).unwrap_or_else(wait);
        self.wait_ns
            .record(u64::try_from(since(start).as_nanos()).unwrap_or(u64::MAX));
        (guard, Held::new(sampled, order, place))
    }

    /// Takes a lock only if that needs no waiting.
    fn attempt<G>(
        &'static self,
        place: Place,
        attempt: impl FnOnce() -> Option<G>,
    ) -> Option<(G, Held)> {
        place.wanted();
        let guard = attempt()?;
        let sampled = self.acquisitions.increment_sampled(self.hold_period);
        let order = OrderNote::unordered(self);
        Some((guard, Held::new(sampled, order, place)))
    }
}

/// Where one thread stood in line for locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnWaits {
    /// How often.
    pub count: u64,
    /// The class of the last lock that it waited for.
    pub last: Option<&'static str>,
}

thread_local! {
    static OWN_WAITS: Cell<OwnWaits> = const { Cell::new(OwnWaits { count: 0, last: None }) };
}

impl OwnWaits {
    /// Those of the calling thread: the classes' own counts have those of all threads.
    #[must_use]
    pub fn now() -> Self {
        OWN_WAITS.try_with(Cell::get).unwrap_or_default()
    }

    fn note(class: &LockClass) {
        let _ = OWN_WAITS.try_with(|waits| {
            let count = waits.get().count + 1;
            let last = Some(class.name);
            waits.set(Self { count, last });
        });
    }
}

/// That a lock is held: since when, if that is measured.
#[derive(Debug)]
struct Held {
    /// 0: this hold is not measured.
    since_ns: u64,
    _order: OrderNote,
    place: Place,
}

impl Held {
    fn new(measured: bool, order: OrderNote, place: Place) -> Self {
        Self {
            since_ns: if measured { monotonic_ns().max(1) } else { 0 },
            _order: order,
            place,
        }
    }

    #[cfg(all(debug_assertions, not(shuttle)))]
    const fn place(&self) -> Place {
        self.place
    }

    /// The lock is given up, for good or to wait for a condition.
    fn released(&mut self) {
        if self.since_ns != 0 {
            let held_ns = monotonic_ns().saturating_sub(self.since_ns);
            self.place.class.hold_ns.record(held_ns);
            self.since_ns = 0;
        }
    }

    /// The lock is held again after a wait for a condition.
    fn resumed(&mut self) {
        if self.place.class.hold_period == 1 {
            self.since_ns = monotonic_ns().max(1);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.released();
        // The guard of the lock itself is dropped before.
        self.place.released();
    }
}

/// The note that this thread holds a lock of a class (debug builds only; not in models, whose threads are one of the
/// system's).
#[derive(Debug)]
struct OrderNote {
    #[cfg(all(debug_assertions, not(shuttle)))]
    class: &'static LockClass,
}

#[cfg(all(debug_assertions, not(shuttle)))]
mod held {
    use super::{LockClass, OrderNote};
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<&'static LockClass>> = const { RefCell::new(Vec::new()) };
    }

    impl OrderNote {
        pub(super) fn ordered(class: &'static LockClass) -> Self {
            let _ = HELD.try_with(|held| {
                for other in held.borrow().iter() {
                    let same = std::ptr::eq(*other, class) && class.nests;
                    assert!(
                        same || other.rank < class.rank,
                        "lock order: {} (rank {}) wanted while {} (rank {}) is held",
                        class.name,
                        class.rank,
                        other.name,
                        other.rank,
                    );
                }
            });
            Self::unordered(class)
        }

        pub(super) fn unordered(class: &'static LockClass) -> Self {
            let _ = HELD.try_with(|held| held.borrow_mut().push(class));
            Self { class }
        }
    }

    impl Drop for OrderNote {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(place) = held.iter().rposition(|c| std::ptr::eq(*c, self.class)) {
                    held.remove(place);
                }
            });
        }
    }
}

#[cfg(any(not(debug_assertions), shuttle))]
impl OrderNote {
    const fn ordered(_: &'static LockClass) -> Self {
        Self {}
    }

    const fn unordered(_: &'static LockClass) -> Self {
        Self {}
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
