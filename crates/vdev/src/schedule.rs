//! Which operation a device gets next: classes with limits, and writes that give way to reads.
//!
//! A pure state machine: time is given to it, threads and simulations drive it alike. Each class has
//! a minimum that it always gets and a maximum. Writes of txgs also obey feedback: while reads flow,
//! their latency is compared with what it is without such writes, and the share of writes shrinks
//! until reads take at most [`RATIO_TARGET`] times as long. Below one write at a time the share
//! is given in slices, so that a disk which must seek does so twice a period and not with each write.
//! Beside a log they go one at a time and in small pieces, where the device is quick enough for that.

mod beside_log;
mod feedback;

use crate::IoClass;
use beside_log::BesideLog;
use feedback::Feedback;

/// Reads that take this much longer because of writes are acceptable.
pub const RATIO_TARGET: f64 = 1.10;

const CLASSES: usize = IoClass::ALL.len();
/// Operations at once on a device, of all classes.
const TOTAL_MAX: u32 = 1000;
/// Dirty data, in thousandths of the limit, from which writes get more than their minimum, …
const RAMP_FROM: u32 = 300;
/// … and from which they get their maximum.
const RAMP_TO: u32 = 600;

/// How many operations of a class may be on a device at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLimits {
    /// What it gets whatever others do.
    pub min: u32,
    /// What it gets at most.
    pub max: u32,
}

/// How operations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Classes, limits, and feedback from read latency.
    Classes,
    /// First come, first served: the fault that classes cure, for tests.
    Fifo,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An operation of this class starts now.
    Start(IoClass),
    /// Nothing before this moment, unless something ends or arrives.
    At(u64),
    /// Nothing until something ends or arrives.
    Idle,
}

/// The state of one device.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    active: [u32; CLASSES],
    waiting: [u32; CLASSES],
    /// The order of arrival, for [`Policy::Fifo`] only.
    arrivals: Vec<IoClass>,
    /// Dirty data in thousandths of the limit.
    dirty_permille: u32,
    /// When someone's read or durable write was last under way.
    interactive_at_ns: u64,
    feedback: Feedback,
    beside_log: BesideLog,
}

/// How long after an interactive operation scans keep to their minimum.
const BACK_OFF_NS: u64 = 20_000_000;

/// The limits of a class, as OpenZFS has them by default.
#[must_use]
pub const fn limits(class: IoClass) -> ClassLimits {
    let (min, max) = match class {
        IoClass::SyncRead | IoClass::SyncWrite => (10, 10),
        IoClass::AsyncRead => (1, 3),
        IoClass::AsyncWrite => (2, 10),
        IoClass::Scan => (1, 3),
        IoClass::Trim => (1, 2),
    };
    ClassLimits { min, max }
}

impl Scheduler {
    /// An idle device.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            active: [0; CLASSES],
            waiting: [0; CLASSES],
            arrivals: Vec::new(),
            dirty_permille: 0,
            interactive_at_ns: 0,
            feedback: Feedback::default(),
            beside_log: BesideLog::default(),
        }
    }

    /// The most bytes of a txg's write that starts now.
    #[must_use]
    pub fn write_bytes_max(&self, now_ns: u64) -> usize {
        self.beside_log.write_bytes_max(now_ns)
    }

    /// Says how much is dirty, in thousandths of the limit: the more, the more writes at once.
    pub fn set_dirty(&mut self, permille: u32) {
        self.dirty_permille = permille;
    }

    /// Operations of a class on the device.
    #[must_use]
    pub const fn active(&self, class: IoClass) -> u32 {
        self.active[class as usize]
    }

    /// Operations of a class that wait.
    #[must_use]
    pub const fn waiting(&self, class: IoClass) -> u32 {
        self.waiting[class as usize]
    }

    /// The share that txg writes have beside reads: how many at once, in thousandths.
    #[must_use]
    pub fn write_share_permille(&self) -> u64 {
        self.feedback.share_permille()
    }

    /// An operation of `class` wants to start.
    pub fn arrive(&mut self, class: IoClass) {
        self.waiting[class as usize] += 1;
        if self.policy == Policy::Fifo {
            self.arrivals.push(class);
        }
    }

    /// What comes next; a start is noted.
    pub fn next(&mut self, now_ns: u64) -> Next {
        if self.policy == Policy::Fifo {
            return self.next_arrival();
        }
        if self.active.iter().sum::<u32>() >= TOTAL_MAX {
            return Next::Idle;
        }
        let mut later = None;
        for floor in [true, false] {
            for class in IoClass::ALL {
                if self.waiting(class) == 0 {
                    continue;
                }
                let limits = self.limits_now(class, now_ns);
                let limit = if floor { limits.min } else { limits.max };
                if self.active(class) < limit {
                    return self.start(class, now_ns);
                }
                if class == IoClass::AsyncWrite && limits.max == 0 {
                    later = Some(Next::At(self.feedback.slice_at_ns(now_ns)));
                }
            }
        }
        later.unwrap_or(Next::Idle)
    }

    fn next_arrival(&mut self) -> Next {
        const DEPTH: u32 = 32;
        if self.arrivals.is_empty() || self.active.iter().sum::<u32>() >= DEPTH {
            return Next::Idle;
        }
        let class = self.arrivals.remove(0);
        self.start(class, 0)
    }

    fn start(&mut self, class: IoClass, now_ns: u64) -> Next {
        self.waiting[class as usize] -= 1;
        self.active[class as usize] += 1;
        match class {
            IoClass::SyncRead => self.interactive_at_ns = now_ns,
            IoClass::SyncWrite => {
                self.interactive_at_ns = now_ns;
                self.beside_log.log_written(now_ns);
            }
            IoClass::AsyncWrite => self.feedback.write_started(now_ns, self.active(class)),
            IoClass::AsyncRead | IoClass::Scan | IoClass::Trim => {}
        }
        Next::Start(class)
    }

    /// An operation of `class` on `len` bytes that started then has ended now.
    pub fn end(&mut self, class: IoClass, len: usize, started_ns: u64, now_ns: u64) {
        self.active[class as usize] = self.active[class as usize].saturating_sub(1);
        match class {
            IoClass::SyncRead | IoClass::AsyncRead => {
                self.feedback.read_ended(len, started_ns, now_ns);
            }
            IoClass::AsyncWrite => {
                self.feedback.write_ended(now_ns, self.active(class));
                self.beside_log.write_ended(len, started_ns, now_ns);
            }
            IoClass::SyncWrite => self.beside_log.log_written(now_ns),
            IoClass::Scan | IoClass::Trim => {}
        }
        if matches!(class, IoClass::SyncRead | IoClass::SyncWrite) {
            self.interactive_at_ns = now_ns;
        }
    }

    fn limits_now(&mut self, class: IoClass, now_ns: u64) -> ClassLimits {
        let ClassLimits { min, max } = limits(class);
        match class {
            IoClass::AsyncWrite => {
                let above = self.dirty_permille.clamp(RAMP_FROM, RAMP_TO) - RAMP_FROM;
                let wanted = min + (max - min) * above / (RAMP_TO - RAMP_FROM);
                let allowed = self
                    .feedback
                    .writes_at_once(now_ns, wanted, self.dirty_permille);
                let allowed = allowed.min(self.beside_log.writes_at_once(now_ns));
                ClassLimits {
                    min: min.min(allowed),
                    max: wanted.min(allowed),
                }
            }
            IoClass::Scan if now_ns.saturating_sub(self.interactive_at_ns) < BACK_OFF_NS => {
                ClassLimits { min, max: min }
            }
            IoClass::SyncRead
            | IoClass::SyncWrite
            | IoClass::AsyncRead
            | IoClass::Scan
            | IoClass::Trim => ClassLimits { min, max },
        }
    }
}
