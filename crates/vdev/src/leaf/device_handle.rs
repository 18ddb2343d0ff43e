//! The device of a leaf with everything that is counted and remembered about its use.

use super::asked_read::AskedRead;
use super::awaited::{Awaited, ReadResult};
use super::io_gate::Gate;
use super::meters::Meters;
use super::missed::{Missed, Pass};
use super::typical::Typical;
use super::unflushed::{Unflushed, UnflushedWrites};
use crate::tunables;
use crate::{Condition, Failure, Fence, IoClass, LeafFailure, TxgRanges, VdevAux, VdevState};
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, RwLock, rank};
use base::metrics::flow;
use base::{Guid, Txg};
use device::{BlockDevice, DeviceError};
use format::label;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use sys::{Buffer, BufferMut};

static DEVICE_CLASS: LockClass = LockClass::new("vdev.device", rank::VDEV + 40);
static CONDITION_CLASS: LockClass = LockClass::new("vdev.condition", rank::VDEV + 41);
static UNFLUSHED_CLASS: LockClass = LockClass::new("vdev.unflushed", rank::VDEV + 42);
static MISSING_CLASS: LockClass = LockClass::new("vdev.missing", rank::VDEV + 43);

/// An operation that takes longer is counted as slow.
const SLOW_NS: u64 = 30_000_000_000;

/// The txg of what is copied without knowing of which it is.
pub(crate) const COPIED: Txg = Txg(0);

/// What is known of a leaf before it is opened.
#[derive(Clone, Debug)]
pub struct LeafConfig {
    /// Its guid.
    pub guid: Guid,
    /// Where its device was last seen.
    pub path: String,
    /// The top-level vdev's sector size as a power of two.
    pub ashift: u32,
    /// Of a distributed spare its number, from 0: it has no device, what it holds lies on other leaves of its dRAID.
    pub spare_room: Option<usize>,
}

/// See the module.
pub(crate) struct DeviceHandle {
    pub(crate) config: LeafConfig,
    pub(crate) path: Arc<str>,
    device: RwLock<Option<Arc<dyn BlockDevice>>>,
    condition: Mutex<Condition>,
    /// Follows `condition` and `device`: read without a lock before each operation.
    usable: AtomicBool,
    changed: AtomicBool,
    probing: AtomicBool,
    pub(super) missed: Mutex<Missed>,
    has_missing: AtomicBool,
    pub(super) unflushed: Mutex<UnflushedWrites>,
    /// How often it lost what had been copied to it.
    lost_copies: AtomicU64,
    /// Since this was last asked, copies were lost, …
    has_lost_copies: AtomicBool,
    /// … or something else that it was given.
    has_lost_writes: AtomicBool,
    active: AtomicUsize,
    pub(crate) gate: Gate,
    pub(crate) meters: Arc<Meters>,
    /// How long the device takes for a read.
    pub(super) read_time: Typical,
    /// Until when it is written; for ever, where nothing is said.
    fence: OnceLock<Arc<Fence>>,
}

impl DeviceHandle {
    pub(crate) fn new(config: LeafConfig, device: Option<Arc<dyn BlockDevice>>) -> Self {
        let is_there = device.is_some() || config.spare_room.is_some();
        let condition = match is_there {
            true => Condition::HEALTHY,
            false => Condition::new(VdevState::CantOpen, VdevAux::OpenFailed),
        };
        Self {
            path: config.path.as_str().into(),
            meters: Meters::new(config.guid),
            config,
            usable: AtomicBool::new(is_there),
            device: RwLock::new(&DEVICE_CLASS, device),
            condition: Mutex::new(&CONDITION_CLASS, condition),
            changed: AtomicBool::new(false),
            probing: AtomicBool::new(false),
            missed: Mutex::new(&MISSING_CLASS, Missed::default()),
            has_missing: AtomicBool::new(false),
            unflushed: Mutex::new(&UNFLUSHED_CLASS, UnflushedWrites::default()),
            lost_copies: AtomicU64::new(0),
            has_lost_copies: AtomicBool::new(false),
            has_lost_writes: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            gate: Gate::new(),
            read_time: Typical::default(),
            fence: OnceLock::new(),
        }
    }

    pub(crate) fn set_fence(&self, fence: &Arc<Fence>) {
        // A leaf that is put elsewhere in its pool has it already.
        let _ = self.fence.set(Arc::clone(fence));
        if let Some(device) = self.device() {
            self.fence_off(device.as_ref());
        }
    }

    /// Tells a device until when it is written.
    fn fence_off(&self, device: &dyn BlockDevice) {
        if let Some(fence) = self.fence.get().cloned() {
            device.set_fence(Arc::new(move || fence.is_open()));
        }
    }

    fn is_fenced(&self) -> bool {
        self.fence.get().is_some_and(|fence| !fence.is_open())
    }

    pub(crate) fn device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.device.read().clone()
    }

    pub(crate) fn set_device(&self, device: Option<Arc<dyn BlockDevice>>) {
        let present = device.is_some() || self.config.spare_room.is_some();
        if let Some(device) = &device {
            self.fence_off(device.as_ref());
        }
        *self.device.write() = device;
        let condition = self.condition();
        self.usable
            .store(present && condition.state.is_usable(), Ordering::Release);
    }

    pub(crate) fn condition(&self) -> Condition {
        *self.condition.lock()
    }

    pub(crate) fn set_condition(&self, new: Condition) {
        let present = self.device.read().is_some() || self.config.spare_room.is_some();
        let mut condition = self.condition.lock();
        if *condition != new {
            *condition = new;
            self.changed.store(true, Ordering::Release);
        }
        self.usable
            .store(present && new.state.is_usable(), Ordering::Release);
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.usable.load(Ordering::Acquire)
    }

    /// Operations that are on the device or wait for it.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn missing(&self) -> TxgRanges {
        self.missed.lock().ranges().clone()
    }

    pub(crate) fn misses(&self, txg: Txg) -> bool {
        self.has_missing.load(Ordering::Acquire) && self.missed.lock().ranges().contains(txg)
    }

    /// Whether the leaf missed anything.
    pub(crate) fn misses_some(&self) -> bool {
        self.has_missing.load(Ordering::Acquire)
    }

    pub(crate) fn set_missing(&self, new: TxgRanges) {
        let mut missed = self.missed.lock();
        missed.set(new);
        self.missed_changed(&missed);
    }

    /// The leaf gave wrong bytes of a block of `birth`. Until it is known what it missed, they do not count.
    pub(crate) fn note_wrong(&self, birth: Txg) {
        if self.missed.lock().note_wrong(birth) {
            self.meters.checksum_errors.increment();
        }
    }

    /// From here on it is known what the leaf missed.
    pub(crate) fn missing_is_known(&self) {
        let wrong = self.missed.lock().known();
        self.meters.checksum_errors.add(wrong);
    }

    pub(crate) fn lost_copies(&self) -> u64 {
        self.lost_copies.load(Ordering::Acquire)
    }

    pub(crate) fn note_lost_copy(&self) {
        self.lost_copies.fetch_add(1, Ordering::AcqRel);
        self.has_lost_copies.store(true, Ordering::Release);
    }

    /// Notes of a txg that something may have been lost in it: see [`super::Leaf::note_lost`].
    pub(crate) fn note_lost(&self, txg: Txg, is_stored: bool) {
        let copies = self.has_lost_copies.swap(false, Ordering::AcqRel);
        let writes = self.has_lost_writes.swap(false, Ordering::AcqRel);
        if !is_stored || !(copies || writes) {
            return;
        }
        let mut missed = self.missed.lock();
        if copies || missed.is_in_any() {
            missed.note_passing(txg);
            self.missed_changed(&missed);
        }
    }

    pub(crate) fn note_missing(&self, txg: Txg) {
        if txg == COPIED {
            // Who copies sees to it: it need not be this leaf that lacks it.
            self.note_lost_copy();
            return;
        }
        let mut missed = self.missed.lock();
        if missed.note(txg) {
            self.missed_changed(&missed);
        }
    }

    /// A pass over what was missed has seen everything; whether it had begun.
    pub(super) fn end(&self, pass: Pass) -> bool {
        let mut missed = self.missed.lock();
        let ended = missed.end(pass);
        self.missed_changed(&missed);
        ended
    }

    /// Under the lock of `missed`.
    fn missed_changed(&self, missed: &Missed) {
        let any = !missed.ranges().is_empty();
        self.has_missing.store(any, Ordering::Release);
        self.changed.store(true, Ordering::Release);
    }

    pub(crate) fn failure(&self, failure: Failure) -> LeafFailure {
        LeafFailure {
            leaf: self.config.guid,
            path: Arc::clone(&self.path),
            failure,
        }
    }

    fn usable_device(&self) -> Result<Arc<dyn BlockDevice>, Failure> {
        match self.device() {
            Some(device) if self.is_usable() => Ok(device),
            _ => {
                let condition = self.condition();
                Err(Failure::Unavailable(condition.state, condition.aux))
            }
        }
    }

    /// Does one device operation of `bytes` bytes in so many pieces, counted.
    fn operate<T>(
        &self,
        class: IoClass,
        size: (usize, usize),
        operation: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        self.active.fetch_add(1, Ordering::Relaxed);
        let start_ns = self.gate.enter(class);
        self.operate_in_turn(class, size, start_ns, operation)
    }

    /// The same when its turn has begun; it counts as active already.
    pub(super) fn operate_in_turn<T>(
        &self,
        class: IoClass,
        (bytes, pieces): (usize, usize),
        start_ns: u64,
        operation: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let meters = self.meters.class(class);
        meters.depth.add(1);
        let result = operation();
        let end_ns = monotonic_ns();
        self.gate.leave(class, bytes, start_ns, end_ns);
        let taken_ns = end_ns.saturating_sub(start_ns);
        meters.depth.add(-1);
        self.active.fetch_sub(1, Ordering::Relaxed);
        meters.latency_ns.record(taken_ns);
        meters.bytes.add(bytes as u64);
        if pieces > 1 {
            meters.merged_bytes.record(bytes as u64);
        } else {
            meters.single_bytes.record(bytes as u64);
        }
        if taken_ns > SLOW_NS {
            self.meters.slow.increment();
        }
        result
    }

    /// Prepares a read from the device, which is to ask the gate for its turn.
    fn prepare_read(
        self: &Arc<Self>,
        (offset, len): (u64, usize),
        class: IoClass,
        newer: Vec<(u64, Buffer)>,
    ) -> Result<AskedRead, Failure> {
        let device = self.usable_device()?;
        self.meters.class(class).pending.add(1);
        self.active.fetch_add(1, Ordering::Relaxed);
        Ok(AskedRead {
            handle: Arc::clone(self),
            device,
            offset,
            len,
            class,
            asked_ns: monotonic_ns(),
            newer,
        })
    }

    /// Reads from the device, except for what is newer; waits for its turn.
    pub(crate) fn read(
        self: &Arc<Self>,
        place: (u64, usize),
        class: IoClass,
        newer: Vec<(u64, Buffer)>,
    ) -> ReadResult {
        let read = self.prepare_read(place, class, newer)?;
        read.run(self.gate.enter(class))
    }

    /// The same without waiting: `awaited` is told when it is the turn of the read of that number.
    pub(crate) fn ask_read(
        self: &Arc<Self>,
        place: (u64, usize),
        class: IoClass,
        newer: Vec<(u64, Buffer)>,
        (awaited, number): (&Arc<Awaited>, usize),
    ) -> Result<AskedRead, Failure> {
        let read = self.prepare_read(place, class, newer)?;
        self.gate.ask(class, Arc::clone(awaited), number);
        Ok(read)
    }

    /// Counts a read that failed, and finds out whether the device is still there.
    pub(super) fn read_failed(&self, device: &dyn BlockDevice, error: &DeviceError) {
        self.meters.read_errors.increment();
        self.after_error(device, error);
    }

    /// Writes pieces that lie one after the other, each with its txg.
    pub(crate) fn write(
        &self,
        offset: u64,
        pieces: &[(Buffer, Txg)],
        class: IoClass,
    ) -> Result<(), Failure> {
        let device = self.usable_device()?;
        let slices: Vec<&[u8]> = pieces.iter().map(|piece| &piece.0[..]).collect();
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let size = (bytes, slices.len());
        flow().device_written.add(bytes as u64);
        let mut is_fenced = false;
        let write = || {
            // Now that it is its turn: it may have waited for long.
            is_fenced = self.is_fenced();
            match is_fenced {
                true => Ok(()),
                false => device.write_vectored(offset, &slices),
            }
        };
        self.operate(class, size, write).map_err(Failure::Device)?;
        if is_fenced {
            return Err(Failure::Unavailable(VdevState::CantOpen, VdevAux::Active));
        }
        let full = {
            let mut unflushed = self.unflushed.lock();
            let (mut at, mut kept) = (offset, 0);
            for (data, txg) in pieces {
                kept = unflushed.push(Unflushed {
                    offset: at,
                    data: data.clone(),
                    txg: *txg,
                });
                at += data.len() as u64;
            }
            kept > tunables::UNFLUSHED_BYTES_MAX.count()
        };
        if full {
            // A failure here is not lost: the device stays failed, so the flush that someone
            // waits for, and every write until then, reports it.
            let _ = self.flush();
        }
        Ok(())
    }

    /// Gives bytes back to the device.
    pub(crate) fn discard(&self, offset: u64, len: usize) -> Result<(), DeviceError> {
        let class = IoClass::Trim;
        let Ok(device) = self.usable_device() else {
            return Err(DeviceError::NotFound {
                device: Arc::clone(&self.path),
            });
        };
        let meters = self.meters.class(class);
        let start_ns = monotonic_ns();
        meters.pending.add(1);
        if self.is_fenced() {
            return Err(DeviceError::NotFound {
                device: Arc::clone(&self.path),
            });
        }
        let discard = || {
            meters.pending.add(-1);
            let waited_ns = monotonic_ns().saturating_sub(start_ns);
            meters.queue_wait_ns.record(waited_ns);
            device.discard(offset, len as u64)
        };
        let result = self.operate(class, (len, 1), discard);
        let total_ns = monotonic_ns().saturating_sub(start_ns);
        meters.total_ns.record(total_ns);
        if result.is_err() {
            self.meters.trim_errors.increment();
        }
        result
    }

    /// Writes what nobody will read, where nobody has anything: it is not kept in case a flush fails.
    pub(crate) fn overwrite(&self, offset: u64, filler: &[u8]) -> Result<(), Failure> {
        let device = self.usable_device()?;
        if self.is_fenced() {
            return Err(Failure::Unavailable(VdevState::CantOpen, VdevAux::Active));
        }
        let write = || device.write(offset, filler);
        self.operate(IoClass::Trim, (filler.len(), 1), write)
            .map_err(Failure::Device)
    }

    /// Counts a write that failed for good, and finds out whether the device is still there.
    pub(crate) fn write_failed(&self, failure: &Failure) {
        if let Failure::Device(error) = failure {
            self.meters.write_errors.increment();
            if let Some(device) = self.device() {
                self.after_error(&*device, error);
            }
        }
    }

    /// Makes the finished writes durable. When that fails no later flush does: see [`DeviceHandle::rewrite`].
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        let Some(device) = self.device() else {
            return Err(DeviceError::NotFound {
                device: Arc::clone(&self.path),
            });
        };
        let through = {
            let unflushed = self.unflushed.lock();
            if let Some(doubt) = unflushed.doubt() {
                return Err(doubt.clone());
            }
            unflushed.through()
        };
        let result = self.meters.flushing(|| device.flush());
        let mut unflushed = self.unflushed.lock();
        if let Err(error) = &result {
            unflushed.set_doubt(error);
        } else if let Some(doubt) = unflushed.doubt() {
            // Another flush failed meanwhile: which of the two the device meant nobody knows.
            return Err(doubt.clone());
        } else {
            unflushed.flushed(through);
        }
        result
    }

    /// Gives up every write that may have been lost: its txg is missing.
    pub(crate) fn lose_unflushed(&self) {
        let mut unflushed = self.unflushed.lock();
        for write in unflushed.lose() {
            self.note_missing(write.txg);
            if write.txg != COPIED {
                self.has_lost_writes.store(true, Ordering::Release);
            }
        }
    }

    /// Whether there are writes that no flush has covered.
    pub(crate) fn has_unflushed(&self) -> bool {
        !self.unflushed.lock().is_empty()
    }

    /// Of a device that may have lost what it was given since its last good flush: writes that again, and flushes.
    /// Until all of it is done no flush succeeds.
    pub(crate) fn rewrite(&self) -> Result<(), DeviceError> {
        let Some(device) = self.device() else {
            return Ok(());
        };
        device.clear_failure();
        let (writes, through) = {
            let unflushed = self.unflushed.lock();
            (unflushed.all(), unflushed.through())
        };
        let write_all = || {
            for write in &writes {
                device.write(write.offset, &write.data)?;
            }
            self.meters.flushing(|| device.flush())
        };
        let result = write_all();
        let mut unflushed = self.unflushed.lock();
        match &result {
            Ok(()) => unflushed.rewritten(through),
            Err(error) => unflushed.set_doubt(error),
        }
        result
    }

    /// Whether what was written since the last good flush may be lost, though the device is in use.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let failed = self
            .device()
            .is_some_and(|device| device.failure().is_some());
        failed || self.unflushed.lock().doubt().is_some()
    }

    /// After an I/O error: a leaf of which no label can be read (or, when writable, written back)
    /// is out of use. A failed flush and a full host are other people's concern: the pool stops.
    fn after_error(&self, device: &dyn BlockDevice, error: &DeviceError) {
        let other = matches!(
            error,
            DeviceError::HostFull { .. } | DeviceError::FlushFailed { .. }
        );
        if other || self.probing.swap(true, Ordering::AcqRel) {
            return;
        }
        if !probe(device) {
            self.fail(error, VdevAux::ErrorsExceeded);
        }
        self.probing.store(false, Ordering::Release);
    }

    /// Takes the leaf out of use, as its device failed it with `error`: removed, or faulted for `aux` if the device is
    /// there. One that is out of use stays as it is.
    pub(crate) fn fail(&self, error: &DeviceError, aux: VdevAux) {
        if !self.remove_if_gone(Some(error)) && self.is_usable() {
            self.set_condition(Condition::new(VdevState::Faulted, aux));
        }
    }

    /// See [`super::Leaf::remove_if_gone`].
    pub(crate) fn remove_if_gone(&self, error: Option<&DeviceError>) -> bool {
        let known = || self.device().and_then(|device| device.failure());
        let is_gone = error.is_some_and(DeviceError::is_gone)
            || known().is_some_and(|failure| failure.is_gone());
        if is_gone && self.is_usable() {
            self.set_condition(Condition::REMOVED);
        }
        is_gone
    }
}

/// Whether the boot environment block of some label can be read and, on a writable device, be
/// written back unchanged.
pub(crate) fn probe(device: &dyn BlockDevice) -> bool {
    let mut block = BufferMut::scratch(label::BOOT_ENVIRONMENT_SIZE);
    (1..label::COUNT).any(|index| {
        let Some(start) = label::offset(device.size(), index) else {
            return false;
        };
        let offset = start + label::BOOT_ENVIRONMENT_OFFSET;
        device.read(offset, &mut block).is_ok()
            && (!device.is_writable() || device.write(offset, &block).is_ok())
    })
}
