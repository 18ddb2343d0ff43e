//! Writes of txgs while a log is being written. A log block's flush waits for all that the device was
//! given before it, so a quick device gets little at once: one write, of few bytes.

use super::WRITE_BYTES_MAX;

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
/// met a flush, or a processor that was busy.
const LATE_MAX: u32 = 16;

/// What is known of a device's log and small writes.
#[derive(Debug, Default)]
pub(super) struct BesideLog {
    /// When a durable write last began or ended; 0 = never.
    log_at_ns: u64,
    /// By how many the small writes that took long outnumber the others.
    late: u32,
    /// Until then the device does not count as quick.
    slow_until_ns: u64,
}

impl BesideLog {
    pub(super) fn log_written(&mut self, now_ns: u64) {
        self.log_at_ns = now_ns;
    }

    pub(super) fn write_ended(&mut self, len: usize, started_ns: u64, now_ns: u64) {
        if len > SMALL_BYTES {
            return;
        }
        if now_ns.saturating_sub(started_ns) <= QUICK_NS {
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
            1
        } else {
            u32::MAX
        }
    }

    pub(super) fn write_bytes_max(&self, now_ns: u64) -> usize {
        if self.is_held_back(now_ns) {
            SMALL_BYTES
        } else {
            WRITE_BYTES_MAX
        }
    }
}
