//! The tunables of an engine, with their defaults.

use std::sync::Arc;

use base::Txg;
use base::invariant::Findings;

use crate::tunables::{AGE_NS, DELAY_MAX_NS, DELAY_MIN_PERCENT, DIRTY_BYTES_CAP, SYNC_PERCENT};

#[cfg(all(test, not(shuttle)))]
thread_local! {
    /// The old fault, for the negative control: this thread's reservations are not delayed, and meet the limit
    /// as a wall.
    pub(crate) static NO_DELAY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Tunables of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The first open txg.
    pub first: Txg,
    /// Age at which an open txg closes.
    pub timeout_ns: u64,
    /// Dirty bytes at which reservations park.
    pub dirty_bytes_max: u64,
    /// Dirty bytes of one txg, in percent of the limit, at which it closes.
    pub sync_percent: u64,
    /// Dirty bytes, in percent of the limit, from which reservations are delayed.
    pub delay_min_percent: u64,
    /// Slope of the delay.
    pub delay_scale_ns: u64,
    /// The longest delay of one reservation.
    pub delay_ns_max: u64,
    /// The thread (see [`crate::thread_index`]) whose shards the sync thread uses; none: its own.
    pub sync_thread_index: Option<usize>,
    /// Where broken invariants of the pool are noted; the engine ends when there is one.
    pub findings: Arc<Findings>,
}

impl EngineConfig {
    /// The defaults, for a machine with `memory_bytes` of memory.
    #[must_use]
    pub fn for_memory(first: Txg, memory_bytes: u64) -> Self {
        const MIN: u64 = 16 << 20;
        Self {
            first,
            timeout_ns: AGE_NS.get(),
            dirty_bytes_max: (memory_bytes / 10).max(MIN).min(DIRTY_BYTES_CAP.get()),
            sync_percent: SYNC_PERCENT.get(),
            delay_min_percent: DELAY_MIN_PERCENT.get(),
            delay_scale_ns: 500_000,
            delay_ns_max: DELAY_MAX_NS.get(),
            sync_thread_index: None,
            findings: Arc::default(),
        }
    }

    /// A txg closes only when somebody asks for it, nothing is delayed, and the sync thread uses the
    /// shards of the calling thread: what that thread does alone always comes to the same places.
    /// The caller bounds what is dirty, by asking.
    #[must_use]
    pub fn on_request(first: Txg) -> Self {
        /// Far more than any memory; leaves room for sums.
        const NO_LIMIT: u64 = 1 << 56;
        Self {
            timeout_ns: NO_LIMIT,
            dirty_bytes_max: NO_LIMIT,
            sync_thread_index: Some(crate::thread_index()),
            ..Self::for_memory(first, 0)
        }
    }

    /// Dirty bytes of one txg at which it closes.
    pub(crate) fn sync_bytes(&self) -> u64 {
        (self.dirty_bytes_max / 100)
            .saturating_mul(self.sync_percent)
            .max(1)
    }

    /// How long a reservation waits when `dirty` bytes of `limit` are dirty: nothing below the minimum,
    /// then smoothly more, without a step, up to the cap.
    pub(crate) fn delay_ns(&self, dirty: u64, limit: u64) -> u64 {
        #[cfg(all(test, not(shuttle)))]
        if NO_DELAY.get() {
            return 0;
        }
        let min = (limit / 100).saturating_mul(self.delay_min_percent);
        if dirty <= min {
            return 0;
        }
        let room = limit.saturating_sub(dirty).max(1);
        let delay = u128::from(self.delay_scale_ns) * u128::from(dirty - min) / u128::from(room);
        u64::try_from(delay)
            .unwrap_or(u64::MAX)
            .min(self.delay_ns_max)
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self::for_memory(Txg::INITIAL, 8 << 30)
    }
}
