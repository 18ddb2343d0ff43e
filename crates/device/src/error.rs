//! What can go wrong with a device: which one, where, and what to do about it.

use std::fmt;
use std::sync::Arc;
use sys::Errno;

/// What was asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
    /// Giving space back.
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        })
    }
}

/// A device's failure. Cheap to clone: one failure may concern many waiters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Nothing has that name.
    #[error("{device}: no such file or device; check the path, or search with -d")]
    NotFound {
        /// The path.
        device: Arc<str>,
    },
    /// We may not open it so.
    #[error(
        "{device}: permission denied to open it for {}; change its owner or mode, or run as root",
        if *.write { "writing" } else { "reading" }
    )]
    Denied {
        /// The path.
        device: Arc<str>,
        /// Whether it was to be written.
        write: bool,
    },
    /// Nothing can be written where it is.
    #[error("{device}: read-only, or on a file system that is; it cannot be opened for writing")]
    ReadOnlyPlace {
        /// The path.
        device: Arc<str>,
    },
    /// Someone else has it.
    #[error(
        "{device}: in use by another process or mount; export the pool there, or open it read-only"
    )]
    Busy {
        /// The path.
        device: Arc<str>,
    },
    /// It is there already.
    #[error("{device}: exists already; remove it or choose another name")]
    Exists {
        /// The path.
        device: Arc<str>,
    },
    /// It is a directory, a socket or the like.
    #[error("{device}: neither a regular file nor a block device")]
    NotADevice {
        /// The path.
        device: Arc<str>,
    },
    /// Opening failed in some other way.
    #[error("{device}: cannot be opened: {}", base::host_reason(&(*error).into()))]
    Open {
        /// The path.
        device: Arc<str>,
        /// What the kernel said.
        error: Errno,
    },
    /// A write to a device that is open for reading.
    #[error("{device}: open for reading only")]
    ReadOnly {
        /// The device.
        device: Arc<str>,
    },
    /// The place is not inside the device.
    #[error("{device}: {operation} of {len} bytes at {offset} is beyond its end at {size}")]
    OutOfRange {
        /// The device.
        device: Arc<str>,
        /// What was asked.
        operation: Operation,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// The device's size.
        size: u64,
    },
    /// The device ended earlier than its size says: it shrank or is truncated.
    #[error("{device}: only {got} of {len} bytes at {offset} are there: the file is truncated")]
    Truncated {
        /// The device.
        device: Arc<str>,
        /// Where.
        offset: u64,
        /// How much was asked for.
        len: u64,
        /// How much there was.
        got: u64,
    },
    /// The operation failed.
    #[error("{device}: {operation} of {len} bytes at {offset} failed: {error}")]
    Io {
        /// The device.
        device: Arc<str>,
        /// What was asked.
        operation: Operation,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// What the kernel said.
        error: Errno,
    },
    /// The file system that holds the image is full.
    #[error("{device}: the file system that holds it is full")]
    HostFull {
        /// The device.
        device: Arc<str>,
    },
    /// The file has no name any more.
    #[error(
        "{device}: the file was removed while in use; what is written to it would be lost with this \
         process"
    )]
    Removed {
        /// The device.
        device: Arc<str>,
    },
    /// The file is shorter than it was.
    #[error("{device}: the file shrank from {was} to {now} bytes while in use")]
    Shrunk {
        /// The device.
        device: Arc<str>,
        /// Its size in bytes when it was opened.
        was: u64,
        /// Its size in bytes now.
        now: u64,
    },
    /// Writes could not be made durable.
    #[error("{device}: flush failed ({error}); what was written since the last flush may be lost")]
    FlushFailed {
        /// The device.
        device: Arc<str>,
        /// What the kernel said.
        error: Errno,
    },
    /// The server that has it cannot be reached, or does not give it.
    #[error("{device}: cannot be connected to: {reason}")]
    Unreachable {
        /// Its URI.
        device: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
    /// The connection to the server that has it broke.
    #[error("{device}: the connection to it broke: {reason}")]
    Disconnected {
        /// Its URI.
        device: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// The device cannot do this.
    #[error("{device}: {operation} is not supported")]
    Unsupported {
        /// The device.
        device: Arc<str>,
        /// What was asked.
        operation: Operation,
    },
}

impl DeviceError {
    /// What a number says that an operation failed with.
    pub(crate) fn of_number(
        device: Arc<str>,
        operation: Operation,
        (offset, len): (u64, u64),
        error: Errno,
    ) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::HostFull { device },
            error => Self::Io {
                device,
                operation,
                offset,
                len,
                error,
            },
        }
    }

    /// The kernel's error number, where one is behind the failure.
    #[must_use]
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { error, .. } | Self::Io { error, .. } | Self::FlushFailed { error, .. } => {
                Some(*error)
            }
            Self::HostFull { .. } => Some(Errno::NOSPC),
            Self::NotFound { .. } => Some(Errno::NOENT),
            Self::Denied { .. } => Some(Errno::ACCESS),
            Self::ReadOnlyPlace { .. } => Some(Errno::ROFS),
            Self::Busy { .. } => Some(Errno::BUSY),
            Self::Exists { .. } => Some(Errno::EXIST),
            // It is gone.
            Self::Disconnected { .. } => Some(Errno::NXIO),
            Self::NotADevice { .. }
            | Self::ReadOnly { .. }
            | Self::OutOfRange { .. }
            | Self::Truncated { .. }
            | Self::Removed { .. }
            | Self::Shrunk { .. }
            | Self::Unreachable { .. }
            | Self::Unsupported { .. } => None,
        }
    }

    /// Whether it could be opened for reading still.
    #[must_use]
    pub const fn is_of_writing(&self) -> bool {
        matches!(
            self,
            Self::Denied { write: true, .. } | Self::ReadOnlyPlace { .. }
        )
    }

    /// Whether the device itself is gone (and not just unwilling at one place).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.errno(), Some(Errno::NXIO | Errno::NODEV))
    }
}
