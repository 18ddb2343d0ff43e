//! How many writes of txgs a device gets beside reads, from what the reads' latency says.

use super::RATIO_TARGET;

/// Time over which the latency of reads is averaged, and in which the writes' slice lies.
const PERIOD_NS: u64 = 1_000_000_000;
/// Reads that are under way for less than this part of the time are a trickle: they are not worth
/// holding writes back for.
const TRICKLE: f64 = 0.25;
/// Reads that are under way for more than this part of the time are protected (again).
const BUSY: f64 = 0.5;
/// Periods for which reads that turned out to be a trickle are not protected.
const TRICKLE_PERIODS: u32 = 8;
/// Without a read for so long, writes are alone.
const QUIET_NS: u64 = 100_000_000;
/// A read that starts so soon after a write may still pay for it (a seek back).
const AFTER_WRITE_NS: u64 = 10_000_000;
/// Writes pause for so long at the start of a period: reads show what they take without writes.
const PROBE_NS: u64 = 25_000_000;
/// Writes never get less of the time than this, …
const SHARE_MIN: f64 = 0.05;
/// … and more the nearer dirty data come to their limit from this on (in thousandths of it), …
const PRESSED_FROM: u32 = 900;
const PRESSED_TO: u32 = 1000;
/// … when they have stayed there for so long: writers who wait for a burst of reads are to be slowed down, not those
/// who would wait for ever.
const PRESSED_AFTER_NS: u64 = 20_000_000_000;
/// After so long at the limit writes get what they want.
const PRESSED_FULL_NS: u64 = 60_000_000_000;
const SHARE_MAX: f64 = 10.0;
/// What they begin with.
const SHARE_FIRST: f64 = 0.25;
/// Sizes of reads differ by powers of two: each has its own latency.
const SIZES: usize = 16;
const SMALLEST_SHIFT: u32 = 12;
/// An excess of latency that is as good as none: writes get twice as much.
const UNNOTICED: f64 = 0.03;
/// Writes at once within a slice.
const SLICE_DEPTH: u32 = 2;
/// Weight of a new sample of a latency.
const WEIGHT: f64 = 1.0 / 16.0;

#[derive(Debug)]
pub(super) struct Feedback {
    /// Latency of reads without writes, by size; 0 = not known. Nanoseconds.
    alone_ns: [f64; SIZES],
    /// Writes at once; below 1, the part of the time in which there are writes.
    share: f64,
    /// Periods until reads are looked at again; 0 while they are protected.
    unprotected_periods: u32,
    period_start_ns: u64,
    /// Reads of this period: how many, how long they took, how long they would have alone.
    reads: u32,
    taken_ns: f64,
    expected_ns: f64,
    last_read_ns: u64,
    last_write_ns: u64,
    /// Since when writes are active; none are when it is `None`.
    writing_since_ns: Option<u64>,
    /// Time with writes in this period.
    written_ns: u64,
    /// For how long dirty data have been near their limit, and until when that is reckoned.
    pressed_ns: u64,
    reckoned_at_ns: u64,
}

impl Default for Feedback {
    fn default() -> Self {
        Self {
            alone_ns: [0.0; SIZES],
            share: SHARE_FIRST,
            unprotected_periods: 0,
            period_start_ns: 0,
            reads: 0,
            taken_ns: 0.0,
            expected_ns: 0.0,
            last_read_ns: 0,
            last_write_ns: 0,
            writing_since_ns: None,
            written_ns: 0,
            pressed_ns: 0,
            reckoned_at_ns: 0,
        }
    }
}

fn size_index(len: usize) -> usize {
    let shift = len.max(1).ilog2().saturating_sub(SMALLEST_SHIFT);
    (shift as usize).min(SIZES - 1)
}

impl Feedback {
    pub(super) fn share_permille(&self) -> u64 {
        (self.share * 1000.0) as u64
    }

    pub(super) fn write_started(&mut self, now_ns: u64, active: u32) {
        if active == 1 {
            self.writing_since_ns = Some(now_ns);
        }
    }

    pub(super) fn write_ended(&mut self, now_ns: u64, active: u32) {
        self.last_write_ns = now_ns;
        if active == 0
            && let Some(since) = self.writing_since_ns.take()
        {
            self.written_ns += now_ns.saturating_sub(since.max(self.period_start_ns));
        }
    }

    pub(super) fn read_ended(&mut self, len: usize, started_ns: u64, now_ns: u64) {
        self.last_read_ns = now_ns;
        let taken = now_ns.saturating_sub(started_ns) as f64;
        let alone = &mut self.alone_ns[size_index(len)];
        let disturbed = self.writing_since_ns.is_some()
            || (self.last_write_ns != 0 && started_ns < self.last_write_ns + AFTER_WRITE_NS);
        if !disturbed {
            *alone = if *alone == 0.0 {
                taken
            } else {
                *alone + (taken - *alone) * WEIGHT
            };
        }
        if *alone > 0.0 {
            self.reads += 1;
            self.taken_ns += taken;
            self.expected_ns += *alone;
        }
    }

    /// Whether reads were seen lately.
    fn reads_flow(&self, now_ns: u64) -> bool {
        self.last_read_ns != 0 && now_ns.saturating_sub(self.last_read_ns) < QUIET_NS
    }

    /// The least share of writes, from how near dirty data are to their limit and for how long they have been. 1 is a
    /// full one.
    fn floor(&mut self, now_ns: u64, dirty_permille: u32) -> f64 {
        let passed = match self.reckoned_at_ns {
            0 => 0,
            at => now_ns.saturating_sub(at),
        };
        self.reckoned_at_ns = now_ns;
        self.pressed_ns = if dirty_permille > PRESSED_FROM {
            (self.pressed_ns + passed).min(PRESSED_FULL_NS)
        } else {
            self.pressed_ns.saturating_sub(passed)
        };
        let part = |value: u64, from: u64, to: u64| {
            (value.clamp(from, to) - from) as f64 / (to - from) as f64
        };
        let near = part(
            dirty_permille.into(),
            PRESSED_FROM.into(),
            PRESSED_TO.into(),
        );
        let long = part(self.pressed_ns, PRESSED_AFTER_NS, PRESSED_FULL_NS);
        SHARE_MIN + (1.0 - SHARE_MIN) * near * long
    }

    /// How many writes may be on the device now, of `wanted`.
    pub(super) fn writes_at_once(&mut self, now_ns: u64, wanted: u32, dirty_permille: u32) -> u32 {
        let floor = self.floor(now_ns, dirty_permille);
        if !self.reads_flow(now_ns) {
            self.begin_period(now_ns);
            return wanted;
        }
        if now_ns.saturating_sub(self.period_start_ns) >= PERIOD_NS {
            self.adjust();
            self.begin_period(now_ns);
        }
        if self.unprotected_periods > 0 || floor >= 1.0 {
            return wanted;
        }
        let elapsed = now_ns.saturating_sub(self.period_start_ns);
        if elapsed < PROBE_NS {
            return 0;
        }
        if self.share >= 1.0 {
            return wanted.min(self.share as u32);
        }
        let current = self.writing_since_ns;
        let current = current.map_or(0, |since| {
            now_ns.saturating_sub(since.max(self.period_start_ns))
        });
        let budget = (self.share.max(floor) * PERIOD_NS as f64) as u64;
        if self.written_ns + current < budget {
            wanted.min(SLICE_DEPTH)
        } else {
            0
        }
    }

    /// When writes that may not start now will be looked at again.
    pub(super) fn slice_at_ns(&self, now_ns: u64) -> u64 {
        let probed = self.period_start_ns + PROBE_NS;
        let next = if now_ns < probed {
            probed
        } else {
            self.period_start_ns + PERIOD_NS
        };
        // Reads may end before.
        next.min(self.last_read_ns + QUIET_NS).max(now_ns + 1)
    }

    fn begin_period(&mut self, now_ns: u64) {
        self.period_start_ns = now_ns;
        self.reads = 0;
        self.taken_ns = 0.0;
        self.expected_ns = 0.0;
        self.written_ns = 0;
    }

    /// Moves the share by what the reads of the last period say.
    fn adjust(&mut self) {
        let busy = self.taken_ns / PERIOD_NS as f64;
        if self.unprotected_periods > 0 {
            if self.unprotected_periods > 1 || busy > BUSY {
                self.unprotected_periods -= 1;
            }
            return;
        }
        if busy < TRICKLE {
            self.unprotected_periods = TRICKLE_PERIODS;
            return;
        }
        if self.reads == 0 || self.expected_ns <= 0.0 {
            return;
        }
        let excess = self.taken_ns / self.expected_ns - 1.0;
        let wanted = RATIO_TARGET - 1.0;
        // Towards the goal: quickly down, carefully up.
        let factor = if excess <= UNNOTICED {
            2.0
        } else {
            (wanted / excess).clamp(0.1, 1.25)
        };
        self.share = (self.share * factor).clamp(SHARE_MIN, SHARE_MAX);
    }
}
