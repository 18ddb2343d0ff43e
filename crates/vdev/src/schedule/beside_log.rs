//! Writes of txgs while a log is being written. A log block's flush waits for all that the device was
//! given before it, so a quick device gets little at once: one write, of few bytes.
//!
//! A device on which even a lone small write takes long, as one behind a network does, would be slow for txgs that way.
//! It gets as many at once as make up for it, but only while each takes hardly longer than one alone: what is slow for
//! want of bandwidth would make the log wait for all of them.

use crate::tunables::WRITE_BYTES_MAX;

/// So long after a log block more are expected.
const FLOWS_NS: u64 = 50_000_000;
/// The most bytes of one write beside a log.
const SMALL_BYTES: usize = 128 << 10;
/// Small writes that take longer than this one at a time would slow txgs down too much: below
/// 64 MB/s. Such a device has its usual queue instead.
const QUICK_NS: u64 = 2_000_000;
/// After so long a device that was not quick is tried again.
const TRY_AGAIN_NS: u64 = 1_000_000_000;
/// It is not quick when so many more small writes took longer than did not. Single ones may: they
/// met a flush, or a CPU that was busy.
const LATE_MAX: u32 = 16;

/// A lone small write that takes so long is worth no second one: half a gigabyte a second.
const WORTH_ONE_NS: u64 = 250_000;
/// As many small writes at once as a device gets at most beside a log.
const AT_ONCE_MAX: u32 = 10;
/// Writes that are looked at before their number changes.
const SAMPLES: u32 = 16;
/// Writes may take longer together than alone by this factor.
const TOGETHER_MAX: f64 = 1.5;

/// How many small writes a device takes at once without each taking longer.
#[derive(Debug)]
struct Depth {
    /// As many at once now.
    at_once: u32,
    /// What a small write takes alone; 0 = not known.
    alone_ns: f64,
    /// Of this number of writes at once: how many ended, and how long they took.
    samples: u32,
    taken_ns: f64,
    /// When lone writes were last looked at.
    probed_at_ns: u64,
    /// When the number changed: older writes say nothing of it.
    changed_at_ns: u64,
}

impl Default for Depth {
    fn default() -> Self {
        Self {
            at_once: 1,
            alone_ns: 0.0,
            samples: 0,
            taken_ns: 0.0,
            probed_at_ns: 0,
            changed_at_ns: 0,
        }
    }
}

impl Depth {
    fn change(&mut self, at_once: u32, now_ns: u64) {
        if at_once != self.at_once {
            self.changed_at_ns = now_ns;
        }
        (self.at_once, self.samples, self.taken_ns) = (at_once, 0, 0.0);
    }

    fn ended(&mut self, started_ns: u64, now_ns: u64) {
        if started_ns < self.changed_at_ns {
            return;
        }
        self.samples += 1;
        self.taken_ns += now_ns.saturating_sub(started_ns) as f64;
        if self.samples < SAMPLES {
            return;
        }
        let mean = self.taken_ns / f64::from(self.samples);
        if self.at_once == 1 {
            self.alone_ns = mean;
            self.probed_at_ns = now_ns;
        } else if now_ns.saturating_sub(self.probed_at_ns) > TRY_AGAIN_NS {
            return self.change(1, now_ns);
        }
        let worth = (self.alone_ns / WORTH_ONE_NS as f64).ceil() as u32;
        let worth = worth.clamp(1, AT_ONCE_MAX);
        let next = if mean > self.alone_ns * TOGETHER_MAX {
            self.at_once.saturating_sub(1).max(1)
        } else {
            (self.at_once + 1).min(worth)
        };
        self.change(next, now_ns);
    }
}

/// What is known of a device's log and small writes.
#[derive(Debug, Default)]
pub(super) struct BesideLog {
    /// When a durable write last began or ended; 0 = never.
    log_at_ns: u64,
    /// By how many the small writes that took long outnumber the others.
    late: u32,
    /// Until then the device does not count as quick.
    slow_until_ns: u64,
    depth: Depth,
}

impl BesideLog {
    pub(super) fn log_written(&mut self, now_ns: u64) {
        self.log_at_ns = now_ns;
    }

    pub(super) fn write_ended(&mut self, len: usize, started_ns: u64, now_ns: u64) {
        if len > SMALL_BYTES {
            return;
        }
        // Of several at once each may have waited for the others.
        let quick_ns = QUICK_NS * u64::from(self.depth.at_once);
        if self.is_held_back(now_ns) {
            self.depth.ended(started_ns, now_ns);
        }
        if now_ns.saturating_sub(started_ns) <= quick_ns {
            self.late = self.late.saturating_sub(1);
            return;
        }
        self.late += 1;
        if self.late == LATE_MAX {
            self.slow_until_ns = now_ns + TRY_AGAIN_NS;
            self.late = 0;
        }
    }

    fn is_held_back(&self, now_ns: u64) -> bool {
        self.log_at_ns != 0
            && now_ns.saturating_sub(self.log_at_ns) < FLOWS_NS
            && now_ns >= self.slow_until_ns
    }

    pub(super) fn writes_at_once(&self, now_ns: u64) -> u32 {
        if self.is_held_back(now_ns) {
            self.depth.at_once
        } else {
            u32::MAX
        }
    }

    pub(super) fn write_bytes_max(&self, now_ns: u64) -> usize {
        if self.is_held_back(now_ns) {
            SMALL_BYTES
        } else {
            WRITE_BYTES_MAX.count()
        }
    }
}
