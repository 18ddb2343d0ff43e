//! How far a copy is, on a terminal.

use std::io::Write;

use crate::print::nice;

const INTERVAL_NS: u64 = 200_000_000;

pub(super) struct Progress {
    shown: bool,
    next_ns: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl Progress {
    pub(super) fn new(shown: bool) -> Self {
        Self {
            shown,
            next_ns: base::clock::monotonic_ns() + INTERVAL_NS,
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
        if !self.shown {
            return;
        }
        let now = base::clock::monotonic_ns();
        if now >= self.next_ns {
            self.next_ns = now + INTERVAL_NS;
            let line = format!("\r{} entries, {}B \x1b[K", self.entries, nice(self.bytes));
            // A terminal that takes nothing stops no copy.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Removes the line.
    pub(super) fn finish(&mut self) {
        if self.shown {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
