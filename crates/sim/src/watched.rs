//! A device whose reads or writes somebody looks at before they happen.

use device::{BlockDevice, DeviceError, DeviceKind};
use std::sync::Arc;

type Watch = Box<dyn Fn(u64, usize) + Send + Sync>;

/// Passes everything on, and tells of each read, or of each write, before it does: its offset and length in bytes.
/// Whoever is told may make it wait.
pub struct WatchedDevice {
    inner: Arc<dyn BlockDevice>,
    reads: Option<Watch>,
    writes: Option<Watch>,
}

impl WatchedDevice {
    /// The reads of `inner`, told to `watch`.
    pub fn reads(
        inner: Arc<dyn BlockDevice>,
        watch: impl Fn(u64, usize) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            reads: Some(Box::new(watch)),
            writes: None,
        }
    }

    /// The writes to `inner`, told to `watch`.
    pub fn writes(
        inner: Arc<dyn BlockDevice>,
        watch: impl Fn(u64, usize) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            reads: None,
            writes: Some(Box::new(watch)),
        }
    }

    fn tell(watch: Option<&Watch>, offset: u64, length: usize) {
        if let Some(watch) = watch {
            watch(offset, length);
        }
    }
}

impl BlockDevice for WatchedDevice {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        Self::tell(self.reads.as_ref(), offset, bytes.len());
        self.inner.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Self::tell(self.writes.as_ref(), offset, bytes.len());
        self.inner.write(offset, bytes)
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        Self::tell(self.writes.as_ref(), offset, length);
        self.inner.write_vectored(offset, pieces)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn failure(&self) -> Option<DeviceError> {
        self.inner.failure()
    }

    fn clear_failure(&self) {
        self.inner.clear_failure();
    }
}
