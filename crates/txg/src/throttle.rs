//! When delayed reservations may go on: one after the other, at a rate that follows what the devices take.
//!
//! Reservations that sleep each for themselves go on together: who was let in together comes back together, and
//! the front end's queue holds hundreds of requests at one moment and none at another. So each goes on its delay after
//! the one before it, whoever asked. Many writers then come to the rate at which one would go, and dirty bytes settle
//! well below the limit.
//!
//! Near the limit the delay of one may be far longer than its bytes need to be written. No reservation holds up those
//! behind it for longer than [`SLOWEST`] times that.

use base::sync::atomic::{AtomicU64, Ordering};

/// A reservation takes at most so many times as long as writing its bytes does.
const SLOWEST: u64 = 2;
/// The limit is taken to be written in so many seconds until a txg has shown it.
const LIMIT_S: u64 = 10;
/// A txg shows how fast bytes are written when it wrote this part of the limit.
const SHOWN_PART: u64 = 16;

#[derive(Default)]
pub(crate) struct Throttle {
    /// When the last of those that are delayed goes on, in nanoseconds of [`base::clock::monotonic_ns`].
    last_due_ns: AtomicU64,
    /// Bytes a second that the last large txg wrote; 0: there was none.
    bytes_per_s: AtomicU64,
}

impl Throttle {
    /// When a reservation of `bytes` that is made at `now_ns` and delayed by `delay_ns` may go on, with a limit of
    /// `limit` dirty bytes.
    pub(crate) fn due_ns(&self, now_ns: u64, delay_ns: u64, bytes: u64, limit: u64) -> u64 {
        let delay_ns = delay_ns.min(self.longest_ns(bytes, limit));
        let mut last = self.last_due_ns.load(Ordering::Relaxed);
        loop {
            let due = now_ns.max(last).saturating_add(delay_ns);
            match self.last_due_ns.compare_exchange_weak(
                last,
                due,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return due,
                Err(other) => last = other,
            }
        }
    }

    fn longest_ns(&self, bytes: u64, limit: u64) -> u64 {
        let per_s = match self.bytes_per_s.load(Ordering::Relaxed) {
            0 => limit / LIMIT_S,
            shown => shown,
        };
        let ns = u128::from(bytes) * u128::from(SLOWEST) * 1_000_000_000 / u128::from(per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// A txg wrote `bytes` in `elapsed_ns`.
    pub(crate) fn wrote(&self, bytes: u64, elapsed_ns: u64, limit: u64) {
        if bytes < limit / SHOWN_PART {
            return;
        }
        let per_s = u128::from(bytes) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
        let per_s = u64::try_from(per_s).unwrap_or(u64::MAX).max(1);
        self.bytes_per_s.store(per_s, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
