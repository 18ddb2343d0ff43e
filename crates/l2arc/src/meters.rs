//! What is counted of a cache device, and of all of them.

use base::Guid;
use base::metrics::{Counter, Gauge, Histogram, Source, Value, registry};
use std::sync::Arc;

/// One device.
#[derive(Default)]
pub(crate) struct DeviceMeters {
    /// How long reads took.
    pub(crate) read_ns: Histogram,
    pub(crate) read_bytes: Counter,
    /// How long writes took.
    pub(crate) write_ns: Histogram,
    pub(crate) write_bytes: Counter,
    pub(crate) read_errors: Counter,
    pub(crate) write_errors: Counter,
    pub(crate) checksum_errors: Counter,
    /// Reads that found that their copy had been written over meanwhile.
    pub(crate) outrun: Counter,
    /// Reads that went to the pool, because many were under way here or one took long.
    pub(crate) passed_by: Counter,
    pub(crate) log_blocks: Counter,
    pub(crate) rebuilt: Counter,
    pub(crate) in_use_bytes: Gauge,
}

impl DeviceMeters {
    pub(crate) fn new(device: Guid) -> Arc<Self> {
        let meters = Arc::<Self>::default();
        registry().add_source(format!("l2arc.{:016x}", device.0), &meters);
        meters
    }

    /// Errors of all kinds.
    pub(crate) fn errors(&self) -> u64 {
        self.read_errors.get() + self.write_errors.get() + self.checksum_errors.get()
    }

    pub(crate) fn clear_errors(&self) {
        self.read_errors.reset();
        self.write_errors.reset();
        self.checksum_errors.reset();
    }
}

impl Source for DeviceMeters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, counter) in [
            ("read_bytes", &self.read_bytes),
            ("write_bytes", &self.write_bytes),
            ("read_errors", &self.read_errors),
            ("write_errors", &self.write_errors),
            ("checksum_errors", &self.checksum_errors),
            ("outrun", &self.outrun),
            ("passed_by", &self.passed_by),
            ("log_blocks", &self.log_blocks),
            ("rebuilt", &self.rebuilt),
        ] {
            sink(name, Value::Counter(counter.get()));
        }
        sink("read_ns", Value::from(&self.read_ns));
        sink("write_ns", Value::from(&self.write_ns));
        sink("in_use_bytes", Value::from(&self.in_use_bytes));
    }
}

/// All devices of a pool.
#[derive(Default)]
pub(crate) struct Meters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) offered: Counter,
    pub(crate) refused: Counter,
    pub(crate) copies: Gauge,
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, counter) in [
            ("hits", &self.hits),
            ("misses", &self.misses),
            ("offered", &self.offered),
            ("refused", &self.refused),
        ] {
            sink(name, Value::Counter(counter.get()));
        }
        sink("copies", Value::from(&self.copies));
    }
}
