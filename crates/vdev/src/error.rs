//! What can go wrong in a vdev: where, and on which leaves.

use crate::{VdevAux, VdevState};
use base::{Guid, VdevId};
use device::DeviceError;
use format::FormatError;
use std::fmt;
use std::sync::Arc;

/// Why one leaf did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device said so.
    Device(DeviceError),
    /// The bytes came, but they are not the right ones.
    Checksum,
    /// The leaf is not in a state to be asked.
    Unavailable(VdevState, VdevAux),
    /// The leaf missed the writes of that txg.
    Missing,
}

/// One leaf's part in a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafFailure {
    /// The leaf.
    pub leaf: Guid,
    /// Its path.
    pub path: Arc<str>,
    /// What happened.
    pub failure: Failure,
}

impl fmt::Display for LeafFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            // A device error begins with the device's name.
            Failure::Device(error) => write!(f, "{error}"),
            Failure::Checksum => write!(f, "{}: checksum mismatch", self.path),
            Failure::Unavailable(state, aux) => write!(f, "{}: {state} ({aux})", self.path),
            Failure::Missing => write!(f, "{}: missed this txg", self.path),
        }
    }
}

/// A vdev's failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VdevError {
    /// No such top-level vdev, or it is not there.
    #[error("vdev {0} is missing")]
    NoSuchTop(VdevId),
    /// The place is not inside the vdev.
    #[error("vdev {vdev}: {len} bytes at offset {offset} are beyond its size of {asize}")]
    OutOfRange {
        /// The top-level vdev.
        vdev: VdevId,
        /// Offset in its allocatable area.
        offset: u64,
        /// How much.
        len: u64,
        /// The size of its allocatable area.
        asize: u64,
    },
    /// The vdev was removed, and nothing says where what lay at that place is.
    #[error("vdev {vdev} was removed: nothing is known of {len} bytes at offset {offset}")]
    NotMapped {
        /// The top-level vdev.
        vdev: VdevId,
        /// Offset in its allocatable area.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// No leaf gave the right bytes.
    #[error("vdev {vdev}: read of {len} bytes at offset {offset} failed: {}", list(.failures))]
    ReadFailed {
        /// The top-level vdev.
        vdev: VdevId,
        /// Offset in its allocatable area.
        offset: u64,
        /// How much.
        len: u64,
        /// What each leaf said.
        failures: Vec<LeafFailure>,
    },
    /// No leaf took the bytes.
    #[error("vdev {vdev}: write of {len} bytes at offset {offset} failed: {}", list(.failures))]
    WriteFailed {
        /// The top-level vdev.
        vdev: VdevId,
        /// Offset in its allocatable area.
        offset: u64,
        /// How much.
        len: u64,
        /// What each leaf said.
        failures: Vec<LeafFailure>,
    },
    /// No leaf could make its writes durable.
    #[error("vdev {vdev}: flush failed: {}", list(.failures))]
    FlushFailed {
        /// The top-level vdev.
        vdev: VdevId,
        /// What each leaf said.
        failures: Vec<LeafFailure>,
    },
    /// One leaf's device failed in an operation that concerns that leaf alone.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// One leaf could not do what concerns that leaf alone.
    #[error("{0}")]
    Leaf(LeafFailure),
    /// What is to be written does not fit the format.
    #[error("{path}: {error}")]
    Format {
        /// The leaf's path.
        path: Arc<str>,
        /// What does not fit.
        error: FormatError,
    },
    /// The device is too small to hold the labels and anything else.
    #[error("{device}: {size} bytes are too few: a device needs at least 64 MiB")]
    TooSmall {
        /// The device.
        device: String,
        /// Its size in bytes.
        size: u64,
    },
}

impl From<LeafFailure> for VdevError {
    fn from(failure: LeafFailure) -> Self {
        Self::Leaf(failure)
    }
}

impl VdevError {
    /// Whether some leaf gave bytes, but no leaf the right ones.
    #[must_use]
    pub fn is_checksum(&self) -> bool {
        matches!(self, Self::ReadFailed { failures, .. }
            if failures.iter().any(|f| f.failure == Failure::Checksum))
    }

    /// Whether no leaf could be asked that has the bytes: they are gone, or out of use. When they are back, the bytes
    /// may be, too.
    #[must_use]
    pub fn is_of_absence(&self) -> bool {
        let Self::ReadFailed { failures, .. } = self else {
            return false;
        };
        let is_absent = |leaf: &LeafFailure| match &leaf.failure {
            Failure::Unavailable(..) => true,
            Failure::Device(error) => error.is_gone(),
            Failure::Checksum | Failure::Missing => false,
        };
        let has_nothing = |leaf: &LeafFailure| leaf.failure == Failure::Missing;
        failures.iter().any(is_absent)
            && failures
                .iter()
                .all(|leaf| is_absent(leaf) || has_nothing(leaf))
    }

    /// What a device said, where what concerns one leaf alone failed by it.
    #[must_use]
    pub const fn of_device(&self) -> Option<&DeviceError> {
        match self {
            Self::Device(error) => Some(error),
            Self::Leaf(leaf) => match &leaf.failure {
                Failure::Device(error) => Some(error),
                Failure::Checksum | Failure::Missing | Failure::Unavailable(..) => None,
            },
            Self::NoSuchTop(_)
            | Self::OutOfRange { .. }
            | Self::NotMapped { .. }
            | Self::ReadFailed { .. }
            | Self::WriteFailed { .. }
            | Self::FlushFailed { .. }
            | Self::Format { .. }
            | Self::TooSmall { .. } => None,
        }
    }

    /// Whether a leaf did not take something because the file system that holds its image is full.
    #[must_use]
    pub fn is_of_full_host(&self) -> bool {
        let is_full = |error: &DeviceError| matches!(error, DeviceError::HostFull { .. });
        let is_for_room = |leaf: &LeafFailure| match &leaf.failure {
            Failure::Device(error) => is_full(error),
            Failure::Checksum | Failure::Missing | Failure::Unavailable(..) => false,
        };
        match self {
            Self::Device(error) => is_full(error),
            Self::Leaf(leaf) => is_for_room(leaf),
            Self::WriteFailed { failures, .. } | Self::FlushFailed { failures, .. } => {
                failures.iter().any(is_for_room)
            }
            Self::NoSuchTop(_)
            | Self::OutOfRange { .. }
            | Self::NotMapped { .. }
            | Self::ReadFailed { .. }
            | Self::Format { .. }
            | Self::TooSmall { .. } => false,
        }
    }
}

fn list(failures: &[LeafFailure]) -> String {
    if failures.is_empty() {
        return "no leaf is available".to_owned();
    }
    failures
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
