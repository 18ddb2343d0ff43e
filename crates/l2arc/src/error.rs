//! What can go wrong with a cache device.

use base::Guid;
use device::DeviceError;

/// What can go wrong with a cache device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum L2ArcError {
    /// It has no room between its labels.
    #[error("cache device {guid}: too small; use one of 64 MiB or more")]
    TooSmall {
        /// Which one.
        guid: Guid,
    },
    /// It could not be read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Its header could not be made.
    #[error(transparent)]
    Format(#[from] format::FormatError),
    /// The thread that writes could not be started.
    #[error("cache devices: no thread: {error}")]
    NoThread {
        /// What the system said.
        error: String,
    },
}
