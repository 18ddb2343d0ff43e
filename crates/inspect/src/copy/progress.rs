//! How far a copy is.

use serde_json::json;

use crate::Audience;
use crate::print::nice;

pub(super) struct Progress {
    audience: Audience,
    interval_ns: u64,
    next_ns: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl Progress {
    pub(super) fn new(audience: Audience) -> Self {
        let interval_ns = u64::try_from(audience.interval().as_nanos()).unwrap_or(u64::MAX);
        Self {
            audience,
            interval_ns,
            next_ns: base::clock::monotonic_ns().saturating_add(interval_ns),
            entries: 0,
            bytes: 0,
        }
    }

    pub(super) fn entry(&mut self) {
        self.entries += 1;
        self.show();
    }

    pub(super) fn bytes(&mut self, count: u64) {
        self.bytes += count;
        self.show();
    }

    fn show(&mut self) {
        if self.audience == Audience::Nobody {
            return;
        }
        let now = base::clock::monotonic_ns();
        if now >= self.next_ns {
            self.next_ns = now.saturating_add(self.interval_ns);
            self.audience.tell(
                || format!("{} entries, {}B ", self.entries, nice(self.bytes)),
                || json!({"what": "copying", "entries": self.entries, "bytes": self.bytes}),
            );
        }
    }

    /// Removes the line.
    pub(super) fn finish(&mut self) {
        self.audience.clear();
    }
}
