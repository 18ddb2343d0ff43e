//! Block devices: the trait, files and disks, partitions inside images, and disks that servers of NBD have.
//!
//! A device is bytes at offsets, a flush that makes writes durable, and typed errors that name the
//! device. What the bytes mean is nobody's business here.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod error;
mod file;
mod partition;
mod remote;
mod tunables;

pub use error::{DeviceError, Operation};
pub use file::{Access, FileDevice, LOCKED};
pub use partition::{exists, file_of, is_locked, lock_holder, partitions_in};
pub use remote::{absolute, is_remote, name, paths_in};
pub use tunables::TUNABLES;

use std::path::Path;
use std::sync::Arc;

/// Opens what somebody named: a file, a disk, a partition inside an image, or a disk that a server has.
///
/// # Errors
/// Why it cannot be had.
pub fn open(path: &Path, access: Access) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    if is_remote(path) {
        return Ok(Arc::new(remote::RemoteDisk::open(path, access)?));
    }
    Ok(Arc::new(FileDevice::open(path, access)?))
}

/// Opens what a pool says its device is. A server is connected to only if somebody named its disk to this process.
///
/// # Errors
/// Why it cannot be had.
pub fn open_again(path: &Path, access: Access) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    if !may_open_again(path) {
        return Err(DeviceError::NotFound {
            device: path.to_string_lossy().into(),
        });
    }
    open(path, access)
}

/// Whether [`open_again`] opens that if it can: all but servers' disks that nobody named to this process.
#[must_use]
pub fn may_open_again(path: &Path) -> bool {
    !is_remote(path) || remote::is_named(path)
}

/// Whether this process may write a device, as far as that shows without opening it. What a server has, it shows when
/// it is asked.
///
/// # Errors
/// It may not.
pub fn may_write(path: &Path) -> Result<(), DeviceError> {
    if is_remote(path) {
        return Ok(());
    }
    match sys::may_write(&file_of(path)) {
        Err(error @ (sys::Errno::ACCESS | sys::Errno::PERM | sys::Errno::ROFS)) => {
            let name = path.to_string_lossy();
            Err(file::open_error(&name.into(), error, true))
        }
        // The rest shows when it is opened.
        Err(_) | Ok(()) => Ok(()),
    }
}

/// Whether a device may be written now.
pub type MayWrite = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a device is, as far as the layers above care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Disk,
    /// A disk that a server has.
    Remote,
    /// Memory or a simulation.
    Memory,
}

/// Bytes at offsets that outlive us. All calls may come from many threads at once.
pub trait BlockDevice: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// Anything but all of the bytes.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes all of `bytes` at `offset`; durable only after the next [`BlockDevice::flush`].
    ///
    /// # Errors
    /// Anything but all of the bytes; what was written in part is undefined.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Writes `pieces` one after the other from `offset` on, in as few operations as possible.
    ///
    /// # Errors
    /// As for [`BlockDevice::write`].
    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let mut offset = offset;
        for piece in pieces {
            self.write(offset, piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Makes every write that returned before this call durable.
    ///
    /// After a failure nobody knows which writes are durable, and the operating system may have
    /// forgotten them: the device stays failed (see [`BlockDevice::failure`]), and refuses writes
    /// and flushes, until [`BlockDevice::clear_failure`].
    ///
    /// # Errors
    /// What the device said, or that it failed before.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Gives `len` bytes at `offset` back; what they read as from then on is undefined.
    ///
    /// # Errors
    /// What the device said; [`DeviceError::Unsupported`] if it cannot.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Whether [`BlockDevice::discard`] can be hoped to work.
    fn can_discard(&self) -> bool {
        true
    }

    /// Whether writes are possible.
    fn is_writable(&self) -> bool;

    /// The unit in bytes in which the device must be read and written.
    fn sector_size(&self) -> u32;

    /// The unit in bytes in which the device is best written.
    fn physical_sector_size(&self) -> u32 {
        self.sector_size()
    }

    /// What the device is.
    fn kind(&self) -> DeviceKind;

    /// The device's name for people.
    fn describe(&self) -> String;

    /// The flush failure that the device still suffers from, if any.
    fn failure(&self) -> Option<DeviceError>;

    /// Ends the refusal after a flush failure. The caller writes again everything that it wrote
    /// since the last good flush.
    fn clear_failure(&self);

    /// From now on nothing is sent to the device, nor the rest of what was begun, while `may_write` says no. Devices
    /// ask to which a change may be on its way for long.
    fn set_fence(&self, may_write: MayWrite) {
        drop(may_write);
    }

    /// Looks again how large the device is: one that has become larger is so from now on. One that has become smaller
    /// is as large as it was, and gives errors there.
    ///
    /// # Errors
    /// What the device said.
    fn refresh_size(&self) -> Result<u64, DeviceError> {
        Ok(self.size())
    }
}
