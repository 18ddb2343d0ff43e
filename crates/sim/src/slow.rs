//! A disk whose operations take a time that a seed draws.

use base::random::{Rng, SeededRng};
use base::thread;
use device::{BlockDevice, DeviceError, DeviceKind};
use std::sync::Arc;
use std::time::Duration;

/// One pause in so many is …
const HESITATES: u64 = 64;
/// … up to so many times as long: a whole txg may sync meanwhile.
const HESITATION: u64 = 64;

/// How long operations take at most, µs: half of it before anything is done, half of it before the caller is told. Now
/// and then one hesitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// A read.
    pub read_us: u64,
    /// A write.
    pub write_us: u64,
    /// A flush.
    pub flush_us: u64,
}

impl Slowness {
    /// Nothing takes time.
    pub const NONE: Self = Self {
        read_us: 0,
        write_us: 0,
        flush_us: 0,
    };
}

/// See the module. Under a schedule (`base::schedule`) the time is virtual, and what waits for it is in another order
/// with each seed.
pub struct SlowDisk {
    inner: Arc<dyn BlockDevice>,
    times: Slowness,
    rng: SeededRng,
}

impl SlowDisk {
    /// A disk in front of `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>, times: Slowness, seed: u64) -> Self {
        let rng = SeededRng::new(seed);
        Self { inner, times, rng }
    }

    fn take<T>(&self, longest_us: u64, operation: impl FnOnce() -> T) -> T {
        let pause = || {
            if longest_us == 0 {
                return;
            }
            let times = match self.rng.below(HESITATES) {
                0 => HESITATION,
                _ => 1,
            };
            let pause_us = self.rng.below(longest_us * times / 2 + 1);
            thread::sleep(Duration::from_micros(pause_us));
        };
        pause();
        let outcome = operation();
        pause();
        outcome
    }
}

impl BlockDevice for SlowDisk {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.take(self.times.read_us, || self.inner.read(offset, bytes))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.take(self.times.write_us, || self.inner.write(offset, bytes))
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let write = || self.inner.write_vectored(offset, pieces);
        self.take(self.times.write_us, write)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.take(self.times.flush_us, || self.inner.flush())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.take(self.times.write_us, || self.inner.discard(offset, len))
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
