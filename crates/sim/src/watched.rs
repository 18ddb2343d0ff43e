//! A device whose reads somebody looks at before they happen.

use device::{BlockDevice, DeviceError, DeviceKind};
use std::sync::Arc;

type Watch = Box<dyn Fn(u64, usize) + Send + Sync>;

/// Passes everything on, and tells of each read before it does: its offset and length in bytes. Whoever is told may
/// make the read wait.
pub struct WatchedReads {
    inner: Arc<dyn BlockDevice>,
    watch: Watch,
}

impl WatchedReads {
    /// The reads of `inner`, told to `watch`.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        watch: impl Fn(u64, usize) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            watch: Box::new(watch),
        }
    }
}

impl BlockDevice for WatchedReads {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        (self.watch)(offset, bytes.len());
        self.inner.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.write(offset, bytes)
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
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
