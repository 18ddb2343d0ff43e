//! The states of a vdev and their reasons, with the numbers that configurations and tools use.

use std::fmt;

/// How a vdev is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VdevState {
    /// Not yet looked at.
    Unknown = 0,
    /// Not open.
    Closed = 1,
    /// Taken offline by the operator.
    Offline = 2,
    /// Taken out of the machine.
    Removed = 3,
    /// Could not be opened.
    CantOpen = 4,
    /// Out of use after too many errors, or by the operator.
    Faulted = 5,
    /// In use, with something wrong.
    Degraded = 6,
    /// In use.
    Healthy = 7,
}

/// Why a vdev is in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum VdevAux {
    /// No reason.
    None = 0,
    /// The device cannot be opened.
    OpenFailed = 1,
    /// The label is wrong.
    CorruptData = 2,
    /// Too few children are usable.
    NoReplicas = 3,
    /// The guids do not add up: a device is missing from the configuration.
    BadGuidSum = 4,
    /// The device is too small.
    TooSmall = 5,
    /// There is no label, or its sizes do not fit.
    BadLabel = 6,
    /// The pool's version is newer than we know.
    VersionNewer = 7,
    /// The pool's version is older than we know.
    VersionOlder = 8,
    /// The pool uses a feature that we do not know.
    UnsupportedFeature = 9,
    /// A spare in use in another pool.
    Spared = 10,
    /// Too many errors.
    ErrorsExceeded = 11,
    /// An I/O failed.
    IoFailure = 12,
    /// The intent log cannot be read.
    BadLog = 13,
    /// The operator wanted it so.
    External = 14,
    /// The device was split off into another pool.
    SplitPool = 15,
    /// The sector size is out of range.
    BadAshift = 16,
    /// The operator wanted it so for good.
    ExternalPersist = 17,
    /// Another host uses the pool.
    Active = 18,
    /// All children are offline.
    ChildrenOffline = 19,
    /// The device's sectors are larger than the vdev's.
    AshiftTooBig = 20,
}

impl VdevState {
    /// The word that `zpool status` shows, given the reason.
    #[must_use]
    pub const fn name(self, aux: VdevAux) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Closed | Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
            Self::CantOpen => match aux {
                VdevAux::CorruptData | VdevAux::BadLog => "FAULTED",
                VdevAux::SplitPool => "SPLIT",
                VdevAux::None
                | VdevAux::OpenFailed
                | VdevAux::NoReplicas
                | VdevAux::BadGuidSum
                | VdevAux::TooSmall
                | VdevAux::BadLabel
                | VdevAux::VersionNewer
                | VdevAux::VersionOlder
                | VdevAux::UnsupportedFeature
                | VdevAux::Spared
                | VdevAux::ErrorsExceeded
                | VdevAux::IoFailure
                | VdevAux::External
                | VdevAux::BadAshift
                | VdevAux::ExternalPersist
                | VdevAux::Active
                | VdevAux::ChildrenOffline
                | VdevAux::AshiftTooBig => "UNAVAIL",
            },
            Self::Faulted => "FAULTED",
            Self::Degraded => "DEGRADED",
            Self::Healthy => "ONLINE",
        }
    }

    /// Whether such a vdev is asked at all.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Degraded | Self::Healthy)
    }
}

impl fmt::Display for VdevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name(VdevAux::None))
    }
}

impl fmt::Display for VdevAux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no reason given",
            Self::OpenFailed => "cannot open",
            Self::CorruptData => "corrupted data",
            Self::NoReplicas => "insufficient replicas",
            Self::BadGuidSum => "missing device",
            Self::TooSmall => "device too small",
            Self::BadLabel => "bad label",
            Self::VersionNewer => "newer version",
            Self::VersionOlder => "older version",
            Self::UnsupportedFeature => "unsupported feature(s)",
            Self::Spared => "currently in use",
            Self::ErrorsExceeded => "too many errors",
            Self::IoFailure => "experienced I/O failures",
            Self::BadLog => "bad intent log",
            Self::External => "external device fault",
            Self::SplitPool => "split into new pool",
            Self::BadAshift => "unsupported minimum blocksize",
            Self::ExternalPersist => "forced fault",
            Self::Active => "currently in use by another host",
            Self::ChildrenOffline => "all children offline",
            Self::AshiftTooBig => "device block size exceeds the vdev's",
        })
    }
}

/// A state with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// How the vdev is.
    pub state: VdevState,
    /// Why.
    pub aux: VdevAux,
}

impl Condition {
    /// All is well.
    pub const HEALTHY: Self = Self {
        state: VdevState::Healthy,
        aux: VdevAux::None,
    };

    /// The device is not there any more.
    pub const REMOVED: Self = Self {
        state: VdevState::Removed,
        aux: VdevAux::None,
    };

    /// A state and its reason.
    #[must_use]
    pub const fn new(state: VdevState, aux: VdevAux) -> Self {
        Self { state, aux }
    }

    /// How a vdev with such children is, of which `tolerance` may be missing.
    #[must_use]
    pub fn of_interior(children: &[Self], tolerance: usize) -> Self {
        let count = |is: fn(VdevState) -> bool| children.iter().filter(|c| is(c.state)).count();
        let usable = count(VdevState::is_usable);
        if usable == 0 || children.len() - usable > tolerance {
            let offline = count(|state| matches!(state, VdevState::Offline));
            if !children.is_empty() && offline == children.len() {
                return Self::new(VdevState::Offline, VdevAux::ChildrenOffline);
            }
            return Self::new(VdevState::CantOpen, VdevAux::NoReplicas);
        }
        if count(|state| matches!(state, VdevState::Healthy)) == children.len() {
            return Self::HEALTHY;
        }
        Self::new(VdevState::Degraded, VdevAux::None)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state.name(self.aux))
    }
}
