//! Volumes that a program has open.

use std::sync::Arc;

use control::OpenVolume;
use volume::{Durability, VolumeError};

use super::pool::Shared;
use super::{Cause, Error, Pool, Result};

/// An open volume (`tank/disk`), or a snapshot of one (`tank/disk@monday`): a row of bytes, as a disk is.
///
/// Clones are handles on the same volume; all may be used from any thread. While there is one, the volume is neither
/// destroyed nor rolled back (`Error::Busy`).
///
/// ```
/// # use millpond::{CreateOptions, Pool};
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(image).file_size(128 << 20))?;
/// pool.create_volume("pond/disk", 16 << 20, &[("refreservation", "none")])?;
/// let disk = pool.open_volume("pond/disk")?;
/// disk.write_at(512, b"hello")?;
/// disk.flush()?;
/// let mut bytes = [0; 5];
/// disk.read_at(512, &mut bytes)?;
/// assert_eq!(&bytes, b"hello");
/// disk.discard(0, disk.size())?;
/// # drop(disk);
/// # pool.export()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Volume {
    volume: Arc<OpenVolume>,
    /// The pool stays open.
    _pool: Arc<Shared>,
}

impl Pool {
    /// Opens a volume or a snapshot of one.
    ///
    /// # Errors
    /// There is none of that name, or it is a file system; its key is not loaded; or it cannot be read.
    pub fn open_volume(&self, name: &str) -> Result<Volume> {
        self.check_alive()?;
        Ok(Volume {
            volume: self.shared.opened.volume(name)?,
            _pool: Arc::clone(&self.shared),
        })
    }
}

impl Volume {
    fn told<T>(&self, result: volume::Result<T>) -> Result<T> {
        result.map_err(|error| {
            let name = self.volume.name().unwrap_or_default();
            Error::of_volume(&name, error)
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.volume.size()
    }

    /// Bytes of its blocks: what [`Volume::discard`] frees.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.volume.block_size()
    }

    /// Whether changes are refused now.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    /// Fills `bytes` with what is at `offset`.
    ///
    /// # Errors
    /// The range is not within the volume, or it cannot be read.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.told(self.volume.read_at(offset, bytes))
    }

    /// Writes. It is durable after the next [`Volume::flush`], or some seconds later.
    ///
    /// # Errors
    /// The range is not within the volume; it is read-only; or there is no room. A part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.volume.write_at(offset, bytes, Durability::Later);
        self.told(written)
    }

    /// Makes a range zeroes, and frees the blocks that lie in it as a whole.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn write_zeroes(&self, offset: u64, length: u64) -> Result<()> {
        let zeroed = self.volume.write_zeroes(offset, length, Durability::Later);
        self.told(zeroed)
    }

    /// Frees the blocks that lie in a range as a whole: they read as zeroes then. The rest of it stays as it is.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let freed = self.volume.discard(offset, length, Durability::Later);
        self.told(freed)
    }

    /// Returns when all that was changed so far, through any handle, is durable.
    ///
    /// # Errors
    /// It could not be written.
    pub fn flush(&self) -> Result<()> {
        self.told(self.volume.flush())
    }
}

impl Error {
    fn of_volume(name: &str, error: VolumeError) -> Self {
        let make: fn(Cause) -> Self = match &error {
            VolumeError::ReadOnly => Self::ReadOnly,
            VolumeError::NoSpace => Self::NoSpace,
            VolumeError::QuotaExceeded => Self::QuotaExceeded,
            VolumeError::OutOfRange { .. } | VolumeError::Unaligned { .. } => Self::Invalid,
            VolumeError::Closed => Self::Stale,
            VolumeError::NoSize
            | VolumeError::Storage(_)
            | VolumeError::Stopped(_)
            | VolumeError::Log(_) => Self::Damaged,
        };
        make(Cause::of(name, None, error))
    }
}
