//! Until when a pool may be written that other hosts can reach as well.
//!
//! A host that has not told the others for too long that it has the pool must take it for another one's: from that
//! moment on nothing is written, also not what was asked for before.

use base::clock::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. One that nobody has closed is open for ever.
pub struct Fence {
    /// As of [`monotonic_ns`].
    until_ns: AtomicU64,
}

impl Default for Fence {
    fn default() -> Self {
        Self {
            until_ns: AtomicU64::new(u64::MAX),
        }
    }
}

impl Fence {
    /// Whether writes may begin now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        until_ns == u64::MAX || monotonic_ns() < until_ns
    }

    /// They may until then, a moment of [`monotonic_ns`]; `u64::MAX` is for ever.
    pub fn open_until(&self, until_ns: u64) {
        self.until_ns.store(until_ns, Ordering::Release);
    }
}
