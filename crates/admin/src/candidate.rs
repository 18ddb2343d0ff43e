//! Pools that are not imported, as they are found on devices.

use crate::report::{VdevCause, VdevReport, VdevState};

/// How a found pool can be imported, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportState {
    /// All is well.
    Ready,
    /// Ready, and its version has no features.
    LegacyVersion,
    /// Ready, and some features are not enabled.
    FeaturesDisabled,
    /// It was last used elsewhere: needs `-f`.
    UsedElsewhere,
    /// Not exported, and the kernel's own implementation is here, which may have it open: it needs `-f`.
    PerhapsInKernel,
    /// Another host uses it now.
    Active {
        /// Its name.
        host: String,
        /// Its host id.
        host_id: u64,
    },
    /// Another process of this host has it.
    InUse {
        /// Which, if it can be known.
        by: Option<String>,
    },
    /// Several hosts can reach it, and this one has no number by which they would know it.
    NoHostId,
    /// Devices are missing or bad, and it works without them.
    Degraded,
    /// Too many devices are missing.
    MissingDevices,
    /// Nothing but log devices are missing, without which it is imported on demand only.
    MissingLogs,
    /// What leads to its contents is damaged, in this way.
    CorruptData(String),
    /// Its version is not known.
    UnsupportedVersion,
    /// A vdev is of this kind, which is not known.
    UnsupportedVdev(String),
    /// Features are not known; as lines `guid (description)`.
    UnsupportedFeatures(Vec<String>),
    /// Features are not known that only writing needs.
    ReadOnlyFeatures(Vec<String>),
    /// It can be read, and not be written, for this reason.
    ReadOnly(String),
    /// It cannot be imported, for this reason.
    Refused(String),
    /// What its labels lead to was not found out in time.
    Unknown,
}

/// A pool that was found.
#[derive(Debug, Clone)]
pub struct ImportCandidate {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Its state as far as can be seen.
    pub state: VdevState,
    /// Why it is not healthy, where that is not said of a vdev.
    pub cause: Option<VdevCause>,
    /// It was destroyed.
    pub destroyed: bool,
    /// Its comment.
    pub comment: Option<String>,
    /// How it can be imported.
    pub import: ImportState,
    /// Its vdevs.
    pub vdevs: Vec<VdevReport>,
}
