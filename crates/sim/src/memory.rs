//! A device in memory without a past, for tests that run long: nothing is recorded, so that an
//! operation costs the same however many there were. Reads may take the time that a modelled
//! device would take, and flushes a time of their own, by sleeping: under a schedule in its time.

#[cfg(test)]
mod tests;

use crate::{DeviceModel, SparseImage};
use base::lock::{Condvar, LockClass, Mutex, RwLock, rank};
use base::thread;
use device::{BlockDevice, DeviceError, DeviceKind, Operation};
use std::time::Duration;
use sys::Errno;

static IMAGE: LockClass = LockClass::new("sim.memory", rank::DEVICE + 11);
static PACE: LockClass = LockClass::new("sim.pace", rank::DEVICE + 10);

/// How busy a paced device is.
struct Pace {
    /// Reads under way.
    active: usize,
    /// Where the head of a disk is.
    head: u64,
}

/// See the module.
pub struct MemoryDisk {
    size: u64,
    image: RwLock<SparseImage>,
    /// Whose time reads take; none: no time.
    model: Option<DeviceModel>,
    /// What a flush takes.
    flush_time: Duration,
    pace: Mutex<Pace>,
    freed: Condvar,
}

impl MemoryDisk {
    /// A disk of zeros that answers at once.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self {
            size,
            image: RwLock::new(&IMAGE, SparseImage::new()),
            model: None,
            flush_time: Duration::ZERO,
            pace: Mutex::new(&PACE, Pace { active: 0, head: 0 }),
            freed: Condvar::new(),
        }
    }

    /// A disk whose reads take the time that `model`'s would.
    #[must_use]
    pub fn paced(size: u64, model: DeviceModel) -> Self {
        Self {
            model: Some(model),
            ..Self::new(size)
        }
    }

    /// A disk whose flushes take so long.
    #[must_use]
    pub fn slow_to_flush(size: u64, flush_time: Duration) -> Self {
        Self {
            flush_time,
            ..Self::new(size)
        }
    }

    /// Waits for a turn, then for as long as the read takes.
    fn take_time(&self, offset: u64, len: u64) {
        let Some(model) = self.model else { return };
        let mut pace = self.pace.lock();
        while pace.active >= model.at_once() {
            self.freed.wait(&mut pace);
        }
        pace.active += 1;
        let cost_ns = model.cost_ns(pace.head, offset, len);
        pace.head = offset + len;
        drop(pace);
        thread::sleep(Duration::from_nanos(cost_ns));
        self.pace.lock().active -= 1;
        self.freed.notify_one();
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if offset.checked_add(len).is_some_and(|end| end <= self.size) {
            return Ok(());
        }
        Err(DeviceError::Io {
            device: "memory".into(),
            operation,
            offset,
            len,
            error: Errno::INVAL,
        })
    }
}

impl BlockDevice for MemoryDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.check(Operation::Read, offset, bytes.len() as u64)?;
        self.take_time(offset, bytes.len() as u64);
        self.image.read().read(offset, bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(Operation::Write, offset, bytes.len() as u64)?;
        self.image.write().write(offset, bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if !self.flush_time.is_zero() {
            thread::sleep(self.flush_time);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(Operation::Discard, offset, len)?;
        self.image.write().clear(offset, len);
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Memory
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn failure(&self) -> Option<DeviceError> {
        None
    }

    fn clear_failure(&self) {}
}
