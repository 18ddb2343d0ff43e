//! How errors of the engine become the lines that users know.

use std::fmt;
use std::path::Path;

use admin::{Failure, FailureKind};
use device::{Access, DeviceError};
use dsl::DslError;
use format::config::keys;
use format::label::PoolState;
use pool::PoolError;

#[cfg(test)]
mod tests;

/// Something of the pool that could not be read; the text says what.
pub(crate) fn unreadable(error: impl fmt::Display) -> Failure {
    Failure::new(FailureKind::Medium, format!("I/O error: {error}"))
}

/// The reason of a refused request about datasets, and what a caller can do about it.
pub(crate) fn reason(error: &DslError) -> (FailureKind, String) {
    use FailureKind as Kind;
    let (kind, text) = match error {
        DslError::NotFound { .. } => (Kind::Missing, "dataset does not exist"),
        DslError::Exists { .. } => (Kind::Exists, "dataset already exists"),
        DslError::Busy { .. } => (Kind::Busy, "dataset is busy"),
        DslError::PartlyReceived { .. } => return (Kind::Busy, error.to_string()),
        DslError::NoSpace | DslError::Quota { .. } => (Kind::Space, "out of space"),
        DslError::ReadOnly => (Kind::ReadOnly, "pool is read-only"),
        DslError::NotClone { .. } => (Kind::Invalid, "not a cloned filesystem"),
        DslError::HoldExists { .. } => (Kind::Exists, "tag already exists on this dataset"),
        DslError::NoSuchHold { .. } => (Kind::Missing, "no such tag on this dataset"),
        DslError::BadName { problem, .. } => return (Kind::Invalid, problem.to_string()),
        DslError::FeatureDisabled { feature } => {
            let text = "pool and or dataset must be upgraded to set this property or value";
            return (Kind::Unsupported, format!("{text} ({feature})"));
        }
        // The engine ends or waits when its devices fail.
        DslError::Dmu(_)
        | DslError::Format { .. }
        | DslError::Damaged { .. }
        | DslError::Engine(_) => return (Kind::Medium, error.to_string()),
        DslError::Unsupported { .. } | DslError::PoolVersion { .. } => {
            return (Kind::Unsupported, error.to_string());
        }
        DslError::Again { .. } => return (Kind::Busy, error.to_string()),
        DslError::KeyUnloaded { .. } => (Kind::Permission, "encryption key not loaded"),
        DslError::Key { .. } => return (Kind::Permission, error.to_string()),
        DslError::NotEncrypted { .. }
        | DslError::KeyChange { .. }
        | DslError::NotEncryptionRoot { .. }
        | DslError::KeyLoaded { .. }
        | DslError::NotSnapshot { .. }
        | DslError::IsSnapshot { .. }
        | DslError::HasChildren { .. }
        | DslError::HasSnapshots { .. }
        | DslError::HasClones { .. }
        | DslError::NotLatest { .. }
        | DslError::Modified { .. }
        | DslError::NoSource { .. }
        | DslError::OtherRedaction { .. }
        | DslError::NotResumable { .. }
        | DslError::NotSealed { .. }
        | DslError::OtherKeys { .. }
        | DslError::OtherVectors { .. }
        | DslError::Unrelated { .. }
        | DslError::BadValue { .. }
        | DslError::Populate { .. } => return (Kind::Invalid, error.to_string()),
    };
    (kind, text.to_owned())
}

/// What a caller can do about an error of the pool.
pub(crate) fn kind_of(error: &PoolError) -> FailureKind {
    match error {
        PoolError::NoSuchPool { .. } | PoolError::NoLabel { .. } | PoolError::NoSuchVdev { .. } => {
            FailureKind::Missing
        }
        PoolError::UnsupportedVersion { .. }
        | PoolError::UnsupportedFeatures { .. }
        | PoolError::UnsupportedVdev { .. }
        | PoolError::ReadOnlyPossible(_) => FailureKind::Unsupported,
        PoolError::InUseElsewhere(_)
        | PoolError::ActiveElsewhere(_)
        | PoolError::Locked { .. }
        | PoolError::DeviceInUse { .. }
        | PoolError::DiscardingCheckpoint
        | PoolError::Busy => FailureKind::Busy,
        PoolError::ReadOnly => FailureKind::ReadOnly,
        PoolError::NoSpace => FailureKind::Space,
        PoolError::CheckpointExists => FailureKind::Exists,
        PoolError::NoCheckpoint | PoolError::NoRemoval => FailureKind::Missing,
        PoolError::Ambiguous { .. }
        | PoolError::BadName { .. }
        | PoolError::Invalid { .. }
        | PoolError::NoHostId
        | PoolError::TooSmall { .. }
        | PoolError::Scan(_) => FailureKind::Invalid,
        PoolError::Device(error) => kind_of_device(error),
        PoolError::Dataset(error) => reason(error).0,
        PoolError::MissingDevices { .. }
        | PoolError::MissingLogs { .. }
        | PoolError::Vdev(_)
        | PoolError::Cache(_)
        | PoolError::Corrupt { .. }
        | PoolError::Damaged(_)
        | PoolError::Object(_)
        | PoolError::Commit(_)
        | PoolError::NoUberblockWritten { .. }
        | PoolError::NoLabelWritten { .. }
        | PoolError::NoConvergence { .. }
        | PoolError::Invariant(_)
        | PoolError::UnnamedReference { .. }
        | PoolError::Free(_)
        | PoolError::Space(_)
        | PoolError::NoUberblock { .. }
        | PoolError::Suspended { .. }
        | PoolError::SplitUnfinished { .. }
        | PoolError::Stopped { .. } => FailureKind::Medium,
    }
}

/// What a caller can do about an error of a device that was to be opened.
#[must_use]
pub const fn kind_of_device(error: &DeviceError) -> FailureKind {
    match error {
        DeviceError::NotFound { .. } => FailureKind::Missing,
        DeviceError::Denied { .. } => FailureKind::Permission,
        DeviceError::Busy { .. } => FailureKind::Busy,
        DeviceError::Exists { .. } => FailureKind::Exists,
        DeviceError::NotADevice { .. } => FailureKind::Invalid,
        DeviceError::ReadOnly { .. } | DeviceError::ReadOnlyPlace { .. } => FailureKind::ReadOnly,
        DeviceError::HostFull { .. } => FailureKind::Space,
        DeviceError::Unsupported { .. } => FailureKind::Unsupported,
        DeviceError::Open { .. }
        | DeviceError::OutOfRange { .. }
        | DeviceError::Truncated { .. }
        | DeviceError::Io { .. }
        | DeviceError::Removed { .. }
        | DeviceError::Shrunk { .. }
        | DeviceError::Unreachable { .. }
        | DeviceError::Disconnected { .. }
        | DeviceError::FlushFailed { .. } => FailureKind::Medium,
    }
}

/// `cannot VERB 'NAME': REASON`.
pub(crate) fn refused(verb: &str, name: &str, error: &DslError) -> Failure {
    let (kind, text) = reason(error);
    Failure::cannot(kind, verb, name, text)
}

/// `cannot VERB 'NAME': REASON` for a pool of which a device failed.
pub(crate) fn device_refused(verb: &str, name: &str, error: &DeviceError) -> Failure {
    Failure {
        os_error: error.errno().map(sys::Errno::raw_os_error),
        ..Failure::cannot(kind_of_device(error), verb, name, error)
    }
}

/// As [`device_refused`], of a device that a pool was to get: one that is in use is not to be had in any other way.
pub(crate) fn new_device_refused(verb: &str, name: &str, error: &DeviceError) -> Failure {
    let failure = device_refused(verb, name, error);
    let DeviceError::Busy { device } = error else {
        return failure;
    };
    let (reason, advice) = match active_pool(device) {
        Some(pool) => (
            format!("{device} is part of active pool '{pool}'"),
            format!("choose another file or disk, or export '{pool}' first"),
        ),
        None => (
            format!("{device} is in use by another process or mount"),
            "choose another file or disk".to_owned(),
        ),
    };
    let message = format!("cannot {verb} '{name}': {reason}");
    Failure { message, ..failure }.advise(advice)
}

/// The pool that a device is part of by its label, and that was not exported.
fn active_pool(device: &str) -> Option<String> {
    let device = device::open_again(Path::new(device), Access::ReadOnly).ok()?;
    let labels = vdev::read_labels(device.as_ref());
    let config = &labels.best_config(None)?.config;
    let is_active = config.u64(keys::STATE) == Some(PoolState::Active.number());
    let name = config.str(keys::NAME).filter(|_| is_active)?;
    Some(name.to_owned())
}
