//! One cache device: its reads, its errors, and whether it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Guid;
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use base::metrics::HistogramSnapshot;
use device::BlockDevice;
use sys::{Buffer, BufferMut};

use crate::index::{CopyKey, Index};
use crate::meters::DeviceMeters;
use crate::sweep::Sweep;
use crate::tunables;

static SWEEP: LockClass = LockClass::new("l2arc.sweep", rank::CACHE + 21);

/// Whether a cache device is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheDeviceState {
    /// It is.
    Online,
    /// It had too many errors.
    Faulted,
}

/// What a cache device did, and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDeviceStatistics {
    /// Whether it is in use.
    pub state: CacheDeviceState,
    /// Bytes that copies can take.
    pub room_bytes: u64,
    /// Bytes that they take.
    pub in_use_bytes: u64,
    /// Reads and how long the device took for them, in nanoseconds.
    pub read_ns: HistogramSnapshot,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes and how long the device took for them, in nanoseconds.
    pub write_ns: HistogramSnapshot,
    /// Bytes written.
    pub write_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Reads that gave other bytes than were written.
    pub checksum_errors: u64,
}

/// Reads under way.
#[derive(Default)]
struct Underway {
    count: AtomicU64,
    /// When the device was last seen to answer, while reads are under way.
    answered_ns: AtomicU64,
}

/// See the module.
pub(crate) struct CacheDevice {
    pub(crate) guid: Guid,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) meters: Arc<DeviceMeters>,
    /// The one who writes has it: the feed, and before it the rebuild.
    pub(crate) sweep: Mutex<Sweep>,
    room_bytes: u64,
    /// Whether what it held before is known: only then it is written.
    is_ready: AtomicBool,
    is_faulted: AtomicBool,
    is_leaving: AtomicBool,
    was_filled: AtomicBool,
    underway: Underway,
}

impl CacheDevice {
    pub(crate) fn new(guid: Guid, device: Arc<dyn BlockDevice>, sweep: Sweep) -> Arc<Self> {
        Arc::new(Self {
            guid,
            device,
            meters: DeviceMeters::new(guid),
            room_bytes: sweep.room_bytes(),
            is_ready: AtomicBool::new(false),
            sweep: Mutex::new(&SWEEP, sweep),
            is_faulted: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            was_filled: AtomicBool::new(false),
            underway: Underway::default(),
        })
    }

    /// Whether copies are read and written.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_faulted.load(Ordering::Acquire) && !self.is_leaving()
    }

    /// Whether copies are written.
    pub(crate) fn is_fed(&self) -> bool {
        self.is_usable() && self.is_ready.load(Ordering::Acquire)
    }

    /// What it held before is known.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Whether it was written to its end once.
    pub(crate) fn was_filled(&self) -> bool {
        self.was_filled.load(Ordering::Relaxed)
    }

    pub(crate) fn note_filled(&self, was_filled: bool) {
        self.was_filled.store(was_filled, Ordering::Relaxed);
    }

    /// Whether it is a device of the pool no more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    /// From now on nothing is read or written.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        self.meters.clear_errors();
        self.is_faulted.store(false, Ordering::Release);
    }

    /// An error was counted: too many end its use.
    pub(crate) fn judge(&self) {
        if self.meters.errors() >= tunables::ERRORS_MAX.get() {
            self.is_faulted.store(true, Ordering::Release);
        }
    }

    /// The bytes of a copy, if the device has them and they are right. What is wrong is forgotten, unless it was
    /// written over meanwhile.
    pub(crate) fn read(
        &self,
        index: &Index,
        key: &CopyKey,
        (offset, size): (u64, u64),
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Buffer> {
        let len = usize::try_from(size).ok()?;
        let _turn = self.turn()?;
        let mut bytes = BufferMut::scratch(len);
        let begun_ns = monotonic_ns();
        let result = self.device.read(offset, &mut bytes);
        let now_ns = monotonic_ns();
        self.underway.answered_ns.store(now_ns, Ordering::Release);
        self.meters.read_ns.record(now_ns.saturating_sub(begun_ns));
        if result.is_ok() && is_right(&bytes) {
            self.meters.read_bytes.add(size);
            return Some(bytes.freeze());
        }
        if !index.remove(key, self, offset) {
            self.meters.outrun.increment();
            return None;
        }
        match result {
            Ok(()) => self.meters.checksum_errors.increment(),
            Err(_) => self.meters.read_errors.increment(),
        }
        self.judge();
        None
    }

    /// Leave to read: not while many do, or one waits for long.
    fn turn(&self) -> Option<Turn<'_>> {
        let now_ns = monotonic_ns();
        let before = self.underway.count.fetch_add(1, Ordering::AcqRel);
        let turn = Turn(self);
        if before == 0 {
            self.underway.answered_ns.store(now_ns, Ordering::Release);
        }
        let answered_ns = self.underway.answered_ns.load(Ordering::Acquire);
        let silent_ms = now_ns.saturating_sub(answered_ns) / 1_000_000;
        let is_slow = before > 0 && silent_ms >= tunables::SLOW_READ_MS.get();
        if before >= tunables::READS_MAX.get() || is_slow {
            self.meters.passed_by.increment();
            return None;
        }
        Some(turn)
    }

    pub(crate) fn statistics(&self) -> CacheDeviceStatistics {
        let meters = &self.meters;
        let in_use_bytes = u64::try_from(meters.in_use_bytes.get()).unwrap_or_default();
        CacheDeviceStatistics {
            state: match self.is_faulted.load(Ordering::Acquire) {
                true => CacheDeviceState::Faulted,
                false => CacheDeviceState::Online,
            },
            room_bytes: self.room_bytes,
            in_use_bytes,
            read_ns: meters.read_ns.snapshot(),
            read_bytes: meters.read_bytes.get(),
            write_ns: meters.write_ns.snapshot(),
            write_bytes: meters.write_bytes.get(),
            read_errors: meters.read_errors.get(),
            write_errors: meters.write_errors.get(),
            checksum_errors: meters.checksum_errors.get(),
        }
    }
}

/// A read that is under way, until it is dropped.
struct Turn<'a>(&'a CacheDevice);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.underway.count.fetch_sub(1, Ordering::AcqRel);
    }
}
