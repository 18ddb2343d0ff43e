//! How much is dirty or reserved: counters that never go below zero, and the limit that they are measured against.

use std::sync::Arc;

use base::Txg;
use base::invariant;
use base::invariant::Findings;
use base::metrics::{Source, Value};
use base::sync::atomic::{AtomicU64, Ordering};

use crate::meters::DirtyMeters;

/// How many bytes are dirty or reserved, in all and per txg.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Dirty {
    /// Reserved and dirtied bytes that are not yet on disk.
    total: AtomicU64,
    /// The part of `total` that belongs to each txg.
    per_txg: [AtomicU64; Txg::SLOTS],
    /// Bytes dirtied in each txg, written or not, until the txg has synced.
    unsynced: [AtomicU64; Txg::SLOTS],
    /// Bytes that were settled, ever.
    settled: AtomicU64,
    /// The most that `total` ever was.
    high_water: AtomicU64,
    /// Bytes that were dirtied without having been reserved.
    overrun: AtomicU64,
    /// What `total` is measured against; follows the engine's limit.
    limit: AtomicU64,
    findings: Arc<Findings>,
    pub(crate) meters: DirtyMeters,
}

/// A snapshot of the dirty counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyCounts {
    /// Reserved and dirtied bytes that are not yet on disk.
    pub total_bytes: u64,
    /// Reserved bytes, and bytes dirtied in txgs that have not synced: what the space that is free according to the
    /// last synced txg must still hold.
    pub unsynced_bytes: u64,
    /// The most that was ever dirty or reserved.
    pub high_water_bytes: u64,
    /// The limit at which reservations park.
    pub limit_bytes: u64,
    /// Bytes that were dirtied without having been reserved, ever.
    pub overrun_bytes: u64,
}

impl Dirty {
    pub(crate) fn new(limit: u64, findings: &Arc<Findings>) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            findings: Arc::clone(findings),
            ..Self::default()
        }
    }

    /// Dirty bytes at which reservations park.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn unsynced(&self) -> u64 {
        let sum = |slots: &[AtomicU64]| -> u64 {
            slots.iter().map(|slot| slot.load(Ordering::Relaxed)).sum()
        };
        // They change while they are read.
        let reserved = self.total().saturating_sub(sum(&self.per_txg));
        reserved + sum(&self.unsynced)
    }

    /// Everything of `txg` is on disk and accounted.
    pub(crate) fn synced(&self, txg: Txg) {
        self.unsynced[txg.slot()].store(0, Ordering::Relaxed);
    }

    pub(crate) fn high_water(&self) -> u64 {
        self.high_water.load(Ordering::Relaxed)
    }

    /// Adds `bytes` unless that would pass the limit; one reservation always fits an idle engine.
    pub(crate) fn try_add(&self, bytes: u64) -> Option<u64> {
        let limit = self.limit();
        let before = self.total.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        if before != 0 && after > limit {
            self.total.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        if after > self.high_water.load(Ordering::Relaxed) {
            self.high_water.fetch_max(after, Ordering::Relaxed);
        }
        self.meters.reserved.add(bytes);
        Some(after)
    }

    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    pub(crate) fn add_overrun(&self, bytes: u64) {
        self.overrun.fetch_add(bytes, Ordering::Relaxed);
        let after = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.high_water.fetch_max(after, Ordering::Relaxed);
    }

    /// Bytes that were handed to the devices, ever.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Takes off bytes that were added before.
    pub(crate) fn subtract_total(&self, bytes: u64) {
        let before = self.total.fetch_sub(bytes, Ordering::Relaxed);
        let is_there = invariant!(
            self.findings,
            before >= bytes,
            "txg.credit",
            "{bytes} bytes are returned of {before} that are dirty or reserved"
        );
        if !is_there {
            // Nobody shall take what is below zero for an endless amount, and wait for that.
            self.total
                .fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// `txg` opens, and takes over the slot of one that has synced: of that nothing is left.
    pub(crate) fn opens(&self, txg: Txg) {
        let left = |slots: &[AtomicU64; Txg::SLOTS]| slots[txg.slot()].load(Ordering::Relaxed);
        let (dirty, unsynced) = (left(&self.per_txg), left(&self.unsynced));
        invariant!(
            self.findings,
            dirty == 0 && unsynced == 0,
            "txg.credit",
            "{dirty} dirty and {unsynced} unsynced bytes are booked on txg {txg} before it opens"
        );
    }

    /// Books `bytes` of the total on `txg`; the txg's new sum.
    pub(crate) fn book(&self, txg: Txg, bytes: u64) -> u64 {
        self.unsynced[txg.slot()].fetch_add(bytes, Ordering::Relaxed);
        self.per_txg[txg.slot()].fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Takes up to `bytes` (all that are left without a number) off `txg` and off the total.
    pub(crate) fn settle(&self, txg: Txg, bytes: Option<u64>) {
        let slot = &self.per_txg[txg.slot()];
        let mut now = slot.load(Ordering::Relaxed);
        loop {
            let taken = bytes.map_or(now, |bytes| bytes.min(now));
            match slot.compare_exchange_weak(now, now - taken, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.settled.fetch_add(taken, Ordering::Relaxed);
                    return self.subtract_total(taken);
                }
                Err(other) => now = other,
            }
        }
    }
}

impl Source for Dirty {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let level = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let dirtied = self.meters.spent.get() + self.overrun();
        for (name, bytes) in [
            ("reserved_bytes", self.meters.reserved.get()),
            ("dirtied_bytes", dirtied),
            ("returned_bytes", self.meters.returned.get()),
            ("overrun_bytes", self.overrun()),
        ] {
            sink(name, Value::Counter(bytes));
        }
        let total = Value::Gauge {
            level: level(self.total()),
            high_water: level(self.high_water()),
        };
        sink("bytes", total);
        let limit = level(self.limit());
        let limit = Value::Gauge {
            level: limit,
            high_water: limit,
        };
        sink("limit_bytes", limit);
    }
}
