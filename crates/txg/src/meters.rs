//! What can be watched: why txgs close, and how long closing, syncing and waiting take.

use std::sync::Arc;
use std::time::Duration;

use base::metrics::{Counter, Histogram, Source, Value, registry};

use crate::state::CloseReason;

/// The meters of one engine.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    closed: [Counter; 4],
    /// From closing a txg to the next being open: new transactions wait that long.
    quiesce_ns: Histogram,
    pub(crate) sync_ns: Histogram,
    pub(crate) delay_ns: Histogram,
    pub(crate) parked: Counter,
    /// Operations that waited without a thread.
    pub(crate) postponed: Counter,
    /// How often frees waited for the next txg, because the open one had enough of them.
    pub(crate) frees_waited: Counter,
    /// How often the engine was suspended.
    pub(crate) suspended: Counter,
}

/// What reservations promised against what was made dirty. `reserved = spent + returned + held`, and
/// `dirtied = spent + overrun`.
#[derive(Debug, Default)]
pub(crate) struct DirtyMeters {
    /// Bytes reserved, ever.
    pub(crate) reserved: Counter,
    /// Bytes of reservations that were made dirty.
    pub(crate) spent: Counter,
    /// Bytes of reservations that were not needed.
    pub(crate) returned: Counter,
}

/// A duration in nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Meters {
    /// New meters, in the registry for as long as they live.
    pub(crate) fn listed() -> Arc<Self> {
        let meters = Arc::new(Self::default());
        registry().add_source("txg", &meters);
        meters
    }

    pub(crate) fn closed(&self, reason: CloseReason, time: Duration) {
        self.closed[reason as usize].increment();
        self.quiesce_ns.record(nanoseconds(time));
    }

    pub(crate) fn close_counts(&self) -> [(&'static str, u64); 4] {
        CloseReason::ALL.map(|reason| (reason.name(), self.closed[reason as usize].get()))
    }
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (reason, count) in self.close_counts() {
            sink(&format!("closed.{reason}"), Value::Counter(count));
        }
        sink("parked", Value::Counter(self.parked.get()));
        sink("postponed", Value::Counter(self.postponed.get()));
        sink("frees_waited", Value::Counter(self.frees_waited.get()));
        sink("suspended", Value::Counter(self.suspended.get()));
        for (name, histogram) in [
            ("quiesce_ns", &self.quiesce_ns),
            ("sync_ns", &self.sync_ns),
            ("delay_ns", &self.delay_ns),
        ] {
            sink(name, Value::Histogram(Box::new(histogram.snapshot())));
        }
    }
}
