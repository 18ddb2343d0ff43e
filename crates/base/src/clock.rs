//! Time as a value that is passed in, so that tests can own it.

use crate::{schedule, thread};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where an engine asks what time it is.
pub trait Clock: Send + Sync {
    /// Wall-clock time in nanoseconds since 1970-01-01 UTC.
    fn now(&self) -> u64;

    /// Nanoseconds since some fixed moment; never goes backwards.
    fn monotonic_ns(&self) -> u64;

    /// Lets `ns` nanoseconds pass.
    fn sleep_ns(&self, ns: u64);

    /// Wall-clock time in whole seconds since 1970-01-01 UTC.
    fn now_s(&self) -> u64 {
        self.now() / 1_000_000_000
    }
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Nanoseconds since the first call in this process; under a schedule by its clock.
#[must_use]
pub fn monotonic_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    schedule::elapsed_ns().unwrap_or_else(|| nanoseconds(since(*START.get_or_init(real_now))))
}

/// This moment by the machine's own clock, also where an engine was given another: for what is measured, for lines of
/// progress, and for patience with devices, programs and people. Only a schedule puts its own in its place.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the clock is read here")]
pub fn real_now() -> Instant {
    schedule::now().unwrap_or_else(Instant::now)
}

/// How long ago a moment of [`real_now`] was.
#[must_use]
pub fn since(moment: Instant) -> Duration {
    real_now().saturating_duration_since(moment)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock is read here")]
    fn now(&self) -> u64 {
        schedule::elapsed_ns().unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, nanoseconds)
        })
    }

    fn monotonic_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        thread::sleep(Duration::from_nanos(ns));
    }
}

/// A clock that moves only when told to: for tests, simulation and reproducible images.
#[derive(Debug)]
pub struct ManualClock {
    ns: AtomicU64,
    start_ns: u64,
}

impl ManualClock {
    /// A clock that shows `ns` since 1970.
    #[must_use]
    pub const fn new(ns: u64) -> Self {
        Self {
            ns: AtomicU64::new(ns),
            start_ns: ns,
        }
    }

    /// Moves the clock forward.
    pub fn advance_ns(&self, ns: u64) {
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.now().saturating_sub(self.start_ns)
    }

    fn sleep_ns(&self, ns: u64) {
        self.advance_ns(ns);
    }
}
