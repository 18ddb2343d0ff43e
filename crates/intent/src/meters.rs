//! What can be watched: how long commits take and why, and what goes into the log.

use std::sync::Arc;

use base::clock::monotonic_ns;
use base::metrics::{Counter, Gauge, Histogram, Source, Value, registry};

/// The meters of one log, in the registry under `log.`.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) commits: Counter,
    /// Commits that had to wait for the txg: no chain yet, no space, or a failure.
    pub(crate) fallbacks: Counter,
    /// Commits that waited for a txg because changes of it are in no record.
    pub(crate) unlogged: Counter,
    /// Commits that found a place and led a batch.
    pub(crate) led: Counter,
    pub(crate) batches: Counter,
    pub(crate) flushes: Counter,
    pub(crate) blocks: Counter,
    pub(crate) records: Counter,
    /// Bytes written to log blocks, padding included.
    pub(crate) bytes: Counter,
    /// Bytes that the committed operations changed: of data, and of records of other kinds.
    pub(crate) bytes_dirtied: Counter,
    /// Of `bytes`, those of records, the data of writes apart.
    pub(crate) record_bytes: Counter,
    /// Of `bytes`, file data.
    pub(crate) data_bytes: Counter,
    /// Bytes of blocks written where they belong, for records that point to them.
    pub(crate) indirect_bytes: Counter,
    /// Blocks freed because their records had synced.
    pub(crate) freed: Counter,
    /// Commits under way.
    pub(crate) outstanding: Gauge,
    pub(crate) blocks_in_flight: Gauge,
    /// The whole commit.
    pub(crate) fsync_ns: Histogram,
    /// From the arrival of a commit to the start of its batch: those before it.
    pub(crate) wait_turn_ns: Histogram,
    /// From the planning of a batch to the end of its flush: the devices.
    pub(crate) wait_device_ns: Histogram,
    /// From then to the release of its waiters: batches before it.
    pub(crate) wait_prefix_ns: Histogram,
    /// How long a txg's sync waits for the batches that allocated in it.
    pub(crate) wait_sync_ns: Histogram,
    /// Commits that a batch serves.
    pub(crate) batch_waiters: Histogram,
    /// Commits under way when a batch starts, its own included.
    pub(crate) outstanding_then: Histogram,
}

/// What one log did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// Commits that were asked for.
    pub commits: u64,
    /// Commits that waited for their txg.
    pub fallbacks: u64,
    /// Batches that were planned.
    pub batches: u64,
    /// Device flushes that it did.
    pub flushes: u64,
    /// Bytes written to log blocks.
    pub bytes: u64,
    /// Bytes of blocks that were written in place.
    pub indirect_bytes: u64,
}

impl Meters {
    pub(crate) fn statistics(&self) -> LogStatistics {
        LogStatistics {
            commits: self.commits.get(),
            fallbacks: self.fallbacks.get(),
            batches: self.batches.get(),
            flushes: self.flushes.get(),
            bytes: self.bytes.get(),
            indirect_bytes: self.indirect_bytes.get(),
        }
    }

    /// A commit that began then has ended.
    pub(crate) fn ended(&self, start_ns: u64) {
        self.outstanding.add(-1);
        self.fsync_ns
            .record(monotonic_ns().saturating_sub(start_ns));
    }

    /// New meters, in the registry for as long as they live.
    pub(crate) fn listed() -> Arc<Self> {
        let meters = Arc::new(Self::default());
        registry().add_source("log", &meters);
        meters
    }
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, counter) in [
            ("commits", &self.commits),
            ("fallbacks", &self.fallbacks),
            ("unlogged", &self.unlogged),
            ("led", &self.led),
            ("batches", &self.batches),
            ("flushes", &self.flushes),
            ("blocks", &self.blocks),
            ("records", &self.records),
            ("bytes", &self.bytes),
            ("bytes_dirtied", &self.bytes_dirtied),
            ("record_bytes", &self.record_bytes),
            ("data_bytes", &self.data_bytes),
            ("indirect_bytes", &self.indirect_bytes),
            ("freed", &self.freed),
        ] {
            sink(name, Value::Counter(counter.get()));
        }
        sink("outstanding", Value::from(&self.outstanding));
        sink("blocks_in_flight", Value::from(&self.blocks_in_flight));
        for (name, histogram) in [
            ("fsync_ns", &self.fsync_ns),
            ("wait_turn_ns", &self.wait_turn_ns),
            ("wait_device_ns", &self.wait_device_ns),
            ("wait_prefix_ns", &self.wait_prefix_ns),
            ("wait_sync_ns", &self.wait_sync_ns),
            ("batch_waiters", &self.batch_waiters),
            ("outstanding_then", &self.outstanding_then),
        ] {
            sink(name, Value::Histogram(Box::new(histogram.snapshot())));
        }
    }
}
