//! A part of a device, as a device: a partition inside the image of a disk.

use std::ops::Range;
use std::sync::Arc;

use crate::{BlockDevice, DeviceError, DeviceKind, Operation};

/// A range of a device.
pub struct Part {
    whole: Arc<dyn BlockDevice>,
    start: u64,
    size: u64,
    name: Arc<str>,
}

impl Part {
    /// The bytes `range` of a device, as far as it has them.
    #[must_use]
    pub fn new(whole: Arc<dyn BlockDevice>, range: &Range<u64>, name: &str) -> Self {
        let end = range.end.min(whole.size());
        Self {
            whole,
            start: range.start,
            size: end.saturating_sub(range.start),
            name: name.into(),
        }
    }

    /// Where `len` bytes at `offset` are in the whole device.
    fn place(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DeviceError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(self.start + offset),
            Some(_) | None => Err(DeviceError::OutOfRange {
                device: Arc::clone(&self.name),
                operation,
                offset,
                len,
                size: self.size,
            }),
        }
    }
}

impl BlockDevice for Part {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.place(Operation::Read, offset, bytes.len() as u64)?;
        self.whole.read(at, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let at = self.place(Operation::Write, offset, bytes.len() as u64)?;
        self.whole.write(at, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.whole.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let at = self.place(Operation::Discard, offset, len)?;
        self.whole.discard(at, len)
    }

    fn can_discard(&self) -> bool {
        self.whole.can_discard()
    }

    fn is_writable(&self) -> bool {
        self.whole.is_writable()
    }

    fn sector_size(&self) -> u32 {
        self.whole.sector_size()
    }

    fn physical_sector_size(&self) -> u32 {
        self.whole.physical_sector_size()
    }

    fn kind(&self) -> DeviceKind {
        self.whole.kind()
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn failure(&self) -> Option<DeviceError> {
        self.whole.failure()
    }

    fn clear_failure(&self) {
        self.whole.clear_failure();
    }
}
