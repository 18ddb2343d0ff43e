//! What is counted of a leaf.

use super::io_gate::Gate;
use crate::IoClass;
use base::Guid;
use base::clock::monotonic_ns;
use base::metrics::{Counter, Gauge, Histogram, HistogramSnapshot, Source, Value, registry};
use std::sync::Arc;

/// Errors of a leaf since import or `zpool clear`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Reads that gave wrong bytes.
    pub checksum: u64,
    /// Operations that took longer than 30 s.
    pub slow: u64,
    /// Discards that failed.
    pub trim: u64,
}

/// One class of operations on a leaf.
#[derive(Default)]
pub(crate) struct ClassMeters {
    pub(crate) bytes: Counter,
    pub(crate) depth: Gauge,
    /// Operations that wait for their turn.
    pub(crate) pending: Gauge,
    pub(crate) latency_ns: Histogram,
    pub(crate) queue_wait_ns: Histogram,
    /// From being queued to being done.
    pub(crate) total_ns: Histogram,
    /// Sizes of operations of one piece.
    pub(crate) single_bytes: Histogram,
    /// Sizes of operations that were merged of several pieces.
    pub(crate) merged_bytes: Histogram,
}

/// One leaf.
#[derive(Default)]
pub(crate) struct Meters {
    classes: [ClassMeters; IoClass::ALL.len()],
    pub(crate) read_errors: Counter,
    pub(crate) write_errors: Counter,
    pub(crate) checksum_errors: Counter,
    pub(crate) slow: Counter,
    pub(crate) trim_errors: Counter,
    pub(crate) healed: Counter,
    pub(crate) queued_bytes: Gauge,
    pub(crate) merged: Counter,
    pub(crate) producer_helps: Counter,
    pub(crate) reads_from_queue: Counter,
    flush_ns: Histogram,
}

/// What one class of operations did on a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Which class.
    pub class: IoClass,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations on the device right now.
    pub active: u64,
    /// Operations that wait for their turn right now.
    pub pending: u64,
    /// Operations and how long the device took for them, in nanoseconds.
    pub latency_ns: HistogramSnapshot,
    /// How long they waited for their turn, in nanoseconds.
    pub queue_wait_ns: HistogramSnapshot,
    /// From being queued to being done, in nanoseconds.
    pub total_ns: HistogramSnapshot,
    /// Sizes of operations of one piece, in bytes.
    pub single_bytes: HistogramSnapshot,
    /// Sizes of operations that were merged of several pieces, in bytes.
    pub merged_bytes: HistogramSnapshot,
}

/// What a leaf did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafStatistics {
    /// By class.
    pub classes: Vec<ClassStatistics>,
    /// Bytes queued for writing right now.
    pub queued_bytes: u64,
    /// The most bytes that were ever queued.
    pub queued_bytes_high_water: u64,
    /// Writes that were joined to the one before them.
    pub merged: u64,
    /// How often a producer wrote itself, because the queue was full or it had to wait anyway.
    pub producer_helps: u64,
    /// Reads that the write queue served.
    pub reads_from_queue: u64,
    /// Blocks that were written again with the right bytes.
    pub healed: u64,
    /// Txg writes at once beside reads, in thousandths; below 1000 the part of the time.
    pub write_share_permille: u64,
    /// Flushes and how long they took, in nanoseconds.
    pub flush_ns: HistogramSnapshot,
}

impl Meters {
    pub(crate) fn new(leaf: Guid) -> Arc<Self> {
        let meters = Arc::new(Self::default());
        registry().add_source(format!("vdev.{:016x}", leaf.0), &meters);
        meters
    }

    pub(crate) const fn class(&self, class: IoClass) -> &ClassMeters {
        &self.classes[class as usize]
    }

    pub(crate) fn flushing<T>(&self, flush: impl FnOnce() -> T) -> T {
        let start_ns = monotonic_ns();
        let result = flush();
        self.flush_ns
            .record(monotonic_ns().saturating_sub(start_ns));
        result
    }

    pub(crate) fn errors(&self) -> ErrorCounts {
        ErrorCounts {
            read: self.read_errors.get(),
            write: self.write_errors.get(),
            checksum: self.checksum_errors.get(),
            slow: self.slow.get(),
            trim: self.trim_errors.get(),
        }
    }

    pub(crate) fn clear_errors(&self) {
        self.read_errors.reset();
        self.write_errors.reset();
        self.checksum_errors.reset();
        self.slow.reset();
        self.trim_errors.reset();
    }

    pub(crate) fn statistics(&self, gate: &Gate) -> LeafStatistics {
        let write_share_permille = gate.write_share_permille();
        let level = |value: i64| u64::try_from(value).unwrap_or(0);
        let class = |class: IoClass| {
            let meters = self.class(class);
            ClassStatistics {
                class,
                bytes: meters.bytes.get(),
                active: level(meters.depth.get()),
                pending: level(meters.pending.get()),
                latency_ns: meters.latency_ns.snapshot(),
                queue_wait_ns: meters.queue_wait_ns.snapshot(),
                total_ns: meters.total_ns.snapshot(),
                single_bytes: meters.single_bytes.snapshot(),
                merged_bytes: meters.merged_bytes.snapshot(),
            }
        };
        LeafStatistics {
            classes: IoClass::ALL.into_iter().map(class).collect(),
            queued_bytes: level(self.queued_bytes.get()),
            queued_bytes_high_water: level(self.queued_bytes.high_water()),
            merged: self.merged.get(),
            producer_helps: self.producer_helps.get(),
            reads_from_queue: self.reads_from_queue.get(),
            healed: self.healed.get(),
            write_share_permille,
            flush_ns: self.flush_ns.snapshot(),
        }
    }
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for class in IoClass::ALL {
            let meters = self.class(class);
            let name = class.name();
            let mut tell = |what: &str, value| sink(&format!("{name}.{what}"), value);
            tell("bytes", Value::from(&meters.bytes));
            tell("depth", Value::from(&meters.depth));
            tell("pending", Value::from(&meters.pending));
            tell("latency_ns", Value::from(&meters.latency_ns));
            tell("queue_wait_ns", Value::from(&meters.queue_wait_ns));
            tell("total_ns", Value::from(&meters.total_ns));
            tell("single_bytes", Value::from(&meters.single_bytes));
            tell("merged_bytes", Value::from(&meters.merged_bytes));
        }
        sink("errors.read", Value::from(&self.read_errors));
        sink("errors.write", Value::from(&self.write_errors));
        sink("errors.checksum", Value::from(&self.checksum_errors));
        sink("slow", Value::from(&self.slow));
        sink("errors.trim", Value::from(&self.trim_errors));
        sink("healed", Value::from(&self.healed));
        sink("queue.bytes", Value::from(&self.queued_bytes));
        sink("queue.merged", Value::from(&self.merged));
        sink("queue.producer_helps", Value::from(&self.producer_helps));
        sink("queue.reads", Value::from(&self.reads_from_queue));
        sink("flush_ns", Value::from(&self.flush_ns));
    }
}
