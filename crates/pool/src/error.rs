//! What can go wrong with a pool, and what the user can do about it.

use base::{Guid, Txg, VdevId};
use device::DeviceError;
use dmu::DmuError;
use format::FormatError;
use vdev::VdevError;

/// Result of this crate.
pub type Result<T, E = PoolError> = std::result::Result<T, E>;

/// A feature that stands in the way, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFeature {
    /// Its name on disk.
    pub guid: String,
    /// The pool's own words about it; empty when it has none.
    pub description: String,
}

impl std::fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { guid, description } = self;
        if description.is_empty() {
            return f.write_str(guid);
        }
        write!(f, "{guid} ({description})")
    }
}

/// Who used a pool last.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LastUser {
    /// The host's name; empty when unknown.
    pub host_name: String,
    /// The host's number; 0 when unknown.
    pub host_id: u64,
    /// When, seconds since 1970.
    pub timestamp: u64,
}

impl LastUser {
    /// The host's name as it is shown.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        if self.host_name.is_empty() {
            return "<unknown>";
        }
        &self.host_name
    }
}

/// Why a pool cannot be opened for writing although it can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportBlocker {
    /// A dataset's intent log was not replayed, and cannot be claimed.
    #[error("the intent log of '{dataset}' holds changes that cannot be claimed")]
    IntentLog {
        /// The dataset.
        dataset: String,
    },
    /// A kind of vdev that is read only.
    #[error("it has a {kind} vdev")]
    VdevKind {
        /// The kind.
        kind: &'static str,
    },
    /// Blocks are cloned.
    #[error("its tables of cloned blocks are not of this machine's kind")]
    BlockCloning,
    /// Blocks are deduplicated, and how is not known, or by a machine of the other byte order.
    #[error("it has a dedup table of an unknown kind or of the other byte order")]
    Dedup,
    /// The logs of the dedup tables are too long: all of their entries must be known before one is changed.
    #[error("the logs of its dedup tables have more entries than there is memory for ({max})")]
    DedupLogs {
        /// So many there may be.
        max: usize,
    },
    /// A checkpoint exists, and its uberblock cannot be read.
    #[error("it has a checkpoint that cannot be read")]
    Checkpoint,
    /// A feature is active that is not maintained.
    #[error("the feature '{feature}' is active")]
    Feature {
        /// The feature.
        feature: String,
    },
    /// A vdev is missing.
    #[error("vdev {vdev} is missing")]
    MissingVdev {
        /// The vdev.
        vdev: u64,
    },
    /// A device is missing or must be resilvered first.
    #[error("a device must be resilvered first ({path})")]
    Resilver {
        /// The device.
        path: String,
    },
    /// A scan that was not finished.
    #[error("a scan of kind {function} is under way")]
    Scan {
        /// The scan function.
        function: u64,
    },
}

/// An error of a pool.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PoolError {
    /// The device has no label of any pool.
    #[error("{path}: not part of a pool (no valid label)")]
    NoLabel {
        /// The device.
        path: String,
    },
    /// No such pool among what was searched.
    #[error("no such pool available")]
    NoSuchPool {
        /// What was asked for.
        wanted: String,
    },
    /// Several pools match.
    #[error("more than one matching pool; import by numeric ID instead")]
    Ambiguous {
        /// The name.
        name: String,
    },
    /// The version is not known.
    #[error("pool is formatted using an unsupported ZFS version ({version})")]
    UnsupportedVersion {
        /// The version.
        version: u64,
    },
    /// Features are active that are not known.
    #[error("unsupported version or feature: {}", list(.features))]
    UnsupportedFeatures {
        /// Which.
        features: Vec<MissingFeature>,
        /// Whether the pool can be opened read-only.
        readable: bool,
    },
    /// Another host used the pool last and did not export it.
    #[error("pool was previously in use from another system")]
    InUseElsewhere(LastUser),
    /// Another host has the pool.
    #[error("pool is imported on {} (hostid: {:#x})", .0.shown_name(), .0.host_id)]
    ActiveElsewhere(LastUser),
    /// Several hosts can reach the pool, and this one has no number.
    #[error("pool has the multihost property on and the system's hostid is not set")]
    NoHostId,
    /// Another process has a device of the pool open.
    #[error("{path}: in use by another process")]
    Locked {
        /// The device.
        path: String,
    },
    /// Top-level vdevs are missing.
    #[error("one or more devices is currently unavailable")]
    MissingDevices {
        /// The ids of the missing or unusable top-level vdevs.
        vdevs: Vec<u64>,
        /// What is known of why.
        reason: String,
    },
    /// Log vdevs are missing, and nothing else.
    #[error("log devices are missing ({})", .paths.join(", "))]
    MissingLogs {
        /// Where their devices were.
        paths: Vec<String>,
    },
    /// Readable, but not writable.
    #[error(
        "cannot be opened for writing: {0}; '-o readonly=on', 'millpond ls' and 'millpond cp' \
         still work"
    )]
    ReadOnlyPossible(ImportBlocker),
    /// The name is not a pool's name.
    #[error("{reason}")]
    BadName {
        /// What is wrong with it.
        reason: String,
    },
    /// A device is too small.
    #[error("{path}: less than the minimum size (64M)")]
    TooSmall {
        /// The device.
        path: String,
    },
    /// A device belongs to a pool already.
    #[error("{path} is part of {state} pool '{pool}'")]
    DeviceInUse {
        /// The device.
        path: String,
        /// The pool.
        pool: String,
        /// "active", "exported", …
        state: &'static str,
    },
    /// The request does not make sense.
    #[error("{reason}")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// A device could not be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A vdev failed.
    #[error(transparent)]
    Vdev(#[from] VdevError),
    /// A cache device cannot be used.
    #[error(transparent)]
    Cache(#[from] l2arc::L2ArcError),
    /// A structure in the pool is bad.
    #[error("{what}: {source}")]
    Corrupt {
        /// Which structure.
        what: &'static str,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A structure in the pool is missing or contradicts another.
    #[error("the pool is damaged: {0}")]
    Damaged(String),
    /// An object of the pool could not be read or written.
    #[error(transparent)]
    Object(#[from] DmuError),
    /// The datasets' layer failed.
    #[error(transparent)]
    Dataset(#[from] dsl::DslError),
    /// A kind of vdev that is not read yet.
    #[error("{kind} vdevs are not supported")]
    UnsupportedVdev {
        /// The kind.
        kind: String,
    },
    /// A txg's data or a flush failed: it is not durable.
    #[error("a txg could not be made durable: {0}")]
    Commit(VdevError),
    /// No device took the uberblock.
    #[error("no device took the uberblock of txg {txg}")]
    NoUberblockWritten {
        /// The txg.
        txg: Txg,
    },
    /// No device of a vdev took its label.
    #[error("no device of vdev {vdev} took its label")]
    NoLabelWritten {
        /// The vdev.
        vdev: VdevId,
    },
    /// The passes of a txg did not converge.
    #[error("txg {txg} did not converge in {passes} passes")]
    NoConvergence {
        /// The txg.
        txg: Txg,
        /// Passes tried.
        passes: u32,
    },
    /// What only our own code makes is not as it must be.
    #[error("{0}")]
    Invariant(#[from] base::invariant::Violation),
    /// A pointer to a stored block was written that nobody had spoken of while the txg was open.
    #[error("a reference to the block at {offset:#x} of vdev {vdev} was not expected")]
    UnnamedReference {
        /// The vdev of its first copy.
        vdev: VdevId,
        /// Where that begins.
        offset: u64,
    },
    /// A block could not be freed.
    #[error("a block could not be freed: {0}")]
    Free(String),
    /// The allocator found the space maps damaged.
    #[error("{0}")]
    Space(String),
    /// No uberblock leads to a readable tree.
    #[error("I/O error: no usable uberblock: {reason}")]
    NoUberblock {
        /// What the last attempt met.
        reason: String,
    },
    /// The pool is suspended after a device failure.
    #[error("pool I/O is currently suspended: {reason}")]
    Suspended {
        /// Why.
        reason: String,
    },
    /// The pool is open read-only.
    #[error("pool is read-only")]
    ReadOnly,
    /// Datasets are in use.
    #[error("pool is busy")]
    Busy,
    /// No space.
    #[error("out of space")]
    NoSpace,
    /// What is asked for cannot be done while a checkpoint exists.
    #[error("checkpoint exists")]
    CheckpointExists,
    /// What is asked for cannot be done before a checkpoint is gone.
    #[error("currently discarding checkpoint")]
    DiscardingCheckpoint,
    /// No device is being removed.
    #[error("there is no removal in progress")]
    NoRemoval,
    /// There is no checkpoint.
    #[error("checkpoint does not exist")]
    NoCheckpoint,
    /// A scan is running already, or none is.
    #[error("{0}")]
    Scan(&'static str),
    /// Sides have left the pool, and what was to be made of them is none.
    #[error("the sides have been taken away, and the new pool could not be made of them: {reason}")]
    SplitUnfinished {
        /// Why.
        reason: String,
    },
    /// The engine ended.
    #[error("the pool stopped after txg {txg}: {reason}")]
    Stopped {
        /// The last good txg.
        txg: Txg,
        /// Why.
        reason: String,
    },
    /// No such vdev.
    #[error("no such device in pool")]
    NoSuchVdev {
        /// The guid asked for.
        guid: Guid,
    },
}

fn list(features: &[MissingFeature]) -> String {
    let names: Vec<_> = features
        .iter()
        .map(|feature| feature.guid.as_str())
        .collect();
    names.join(", ")
}

impl PoolError {
    /// Whether devices failed that may come back: the pool waits for them.
    pub(crate) fn is_of_devices(&self) -> bool {
        matches!(
            self,
            Self::Commit(_) | Self::NoUberblockWritten { .. } | Self::NoLabelWritten { .. }
        )
    }

    /// What is asked for cannot be, for this reason.
    pub(crate) fn refused(reason: &str) -> Self {
        Self::Invalid {
            reason: reason.to_owned(),
        }
    }

    /// A damaged structure.
    pub(crate) fn corrupt(what: &'static str) -> impl FnOnce(FormatError) -> Self {
        move |source| Self::Corrupt { what, source }
    }
}

impl From<space::SpaceError> for PoolError {
    fn from(error: space::SpaceError) -> Self {
        match error {
            space::SpaceError::NoSpace { .. } => Self::NoSpace,
            space::SpaceError::Contradiction { .. }
            | space::SpaceError::Outside { .. }
            | space::SpaceError::Format { .. }
            | space::SpaceError::Store { .. } => Self::Space(error.to_string()),
        }
    }
}

impl From<txg::TxgError> for PoolError {
    fn from(error: txg::TxgError) -> Self {
        match error {
            txg::TxgError::SyncFailed { txg, reason } => Self::Stopped {
                txg: txg.previous(),
                reason,
            },
            txg::TxgError::Suspended { reason } => Self::Suspended { reason },
            txg::TxgError::Stopped => Self::Stopped {
                txg: Txg(0),
                reason: "the pool is closed".to_owned(),
            },
            // Only file operations are postponed.
            postponed @ txg::TxgError::Postponed => Self::Stopped {
                txg: Txg(0),
                reason: postponed.to_string(),
            },
        }
    }
}

impl From<dmu::TxError> for PoolError {
    fn from(error: dmu::TxError) -> Self {
        match error {
            dmu::TxError::NoSpace | dmu::TxError::Quota => Self::NoSpace,
            dmu::TxError::Engine(error) => error.into(),
        }
    }
}
