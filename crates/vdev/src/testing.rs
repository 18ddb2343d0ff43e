//! A device in memory with faults on demand, for this crate's tests.

use device::{BlockDevice, DeviceError, DeviceKind, Operation};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use sys::Errno;

#[derive(Default)]
pub(crate) struct MemoryDevice {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) fail_reads: AtomicBool,
    pub(crate) fail_writes: AtomicBool,
    pub(crate) fail_flush: AtomicBool,
    /// Flushes fail because the device is gone, which it knows from then on.
    pub(crate) is_gone: AtomicBool,
    /// Fail writes that touch this byte; `usize::MAX` = none.
    pub(crate) bad_byte: AtomicUsize,
    /// Fail reads that touch this byte; `usize::MAX` = none.
    pub(crate) bad_read: AtomicUsize,
    pub(crate) delay_us: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    pub(crate) flushes: AtomicUsize,
    /// Called by each flush.
    pub(crate) on_flush: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    failed: AtomicBool,
}

impl MemoryDevice {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        let device = Self {
            bytes: Mutex::new(vec![0; size]),
            ..Self::default()
        };
        device.bad_byte.store(usize::MAX, Ordering::Relaxed);
        device.bad_read.store(usize::MAX, Ordering::Relaxed);
        Arc::new(device)
    }

    fn error(&self, operation: Operation, offset: u64, len: usize) -> DeviceError {
        let device = "memory".into();
        DeviceError::Io {
            device,
            operation,
            offset,
            len: len as u64,
            error: Errno::IO,
        }
    }
}

impl BlockDevice for MemoryDevice {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if self.fail_reads.load(Ordering::Relaxed) {
            return Err(self.error(Operation::Read, offset, bytes.len()));
        }
        let start = offset as usize;
        let bad = self.bad_read.load(Ordering::Relaxed);
        if (start..start + bytes.len()).contains(&bad) {
            return Err(self.error(Operation::Read, offset, bytes.len()));
        }
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[start..start + bytes.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored(offset, &[bytes])
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let delay_us = self.delay_us.load(Ordering::Relaxed) as u64;
        if delay_us > 0 {
            std::thread::sleep(Duration::from_micros(delay_us));
        }
        let len: usize = pieces.iter().map(|p| p.len()).sum();
        let start = offset as usize;
        let bad = self.bad_byte.load(Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) {
            return Err(DeviceError::FlushFailed {
                device: "memory".into(),
                error: Errno::IO,
            });
        }
        if self.fail_writes.load(Ordering::Relaxed) || (start..start + len).contains(&bad) {
            return Err(self.error(Operation::Write, offset, len));
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut at = start;
        let mut bytes = self.bytes.lock().unwrap();
        for piece in pieces {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let on_flush = self.on_flush.lock().unwrap().clone();
        if let Some(on_flush) = on_flush {
            on_flush();
        }
        if self.failed.load(Ordering::Relaxed) || self.fail_flush.load(Ordering::Relaxed) {
            self.failed.store(true, Ordering::Relaxed);
            return self.failure().map_or(Ok(()), Err);
        }
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
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
        let failed = self.failed.load(Ordering::Relaxed);
        failed.then(|| DeviceError::FlushFailed {
            device: "memory".into(),
            error: match self.is_gone.load(Ordering::Relaxed) {
                true => Errno::NXIO,
                false => Errno::IO,
            },
        })
    }

    fn clear_failure(&self) {
        self.failed.store(false, Ordering::Relaxed);
    }
}
