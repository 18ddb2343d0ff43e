//! What a list says of a pool: the answer of an import, by the same function.

use admin::{ImportState, VdevCause, VdevReport, VdevState};
use format::config::keys;
use format::uberblock::VERSION_FEATURES;
use pool::{FoundPool, Host, MissingFeature, PoolError, Trial};

use crate::compatibility::Compatibility;

/// More features of one pool are not listed.
const FEATURES_MAX: usize = 64;

/// How a pool could be imported: what forbids it first. `state`: that of its vdevs.
pub(super) fn import_state(
    (found, host): (&FoundPool, &Host),
    state: VdevState,
    trial: &Trial,
) -> ImportState {
    if let Err(error) = &trial.outcome {
        return refusal(error);
    }
    if state == VdevState::Unavailable {
        return ImportState::MissingDevices;
    }
    match pool::check_use(found, host) {
        Err(_) if host.is_other(&found.last_user) => ImportState::UsedElsewhere,
        Err(_) => ImportState::PerhapsInKernel,
        Ok(()) if state == VdevState::Degraded => ImportState::Degraded,
        Ok(()) if found.version < VERSION_FEATURES => ImportState::LegacyVersion,
        Ok(()) if lacks_features(trial) => ImportState::FeaturesDisabled,
        Ok(()) => ImportState::Ready,
    }
}

/// Whether `zpool upgrade` would enable a feature.
fn lacks_features(trial: &Trial) -> bool {
    let config = trial.config.as_ref();
    let limit = config.and_then(|config| config.list.str(keys::COMPATIBILITY));
    // Lists of features that cannot be read here say nothing of what is lacking.
    let limit = Compatibility::read(limit.unwrap_or_default());
    limit.is_ok_and(|limit| limit.allows_any(&trial.lacking))
}

/// What an import says, for the list.
fn refusal(error: &PoolError) -> ImportState {
    match error {
        PoolError::UnsupportedVersion { .. } => ImportState::UnsupportedVersion,
        PoolError::UnsupportedFeatures { features, readable } => {
            let lines = feature_lines(features);
            match readable {
                true => ImportState::ReadOnlyFeatures(lines),
                false => ImportState::UnsupportedFeatures(lines),
            }
        }
        PoolError::UnsupportedVdev { kind } => ImportState::UnsupportedVdev(kind.clone()),
        PoolError::MissingDevices { .. } => ImportState::MissingDevices,
        PoolError::MissingLogs { .. } => ImportState::MissingLogs,
        PoolError::ReadOnlyPossible(blocker) => ImportState::ReadOnly(blocker.to_string()),
        PoolError::Device(error) if error.is_of_writing() => {
            ImportState::ReadOnly(error.to_string())
        }
        PoolError::NoUberblock { reason } | PoolError::Damaged(reason) => {
            ImportState::CorruptData(reason.clone())
        }
        PoolError::Corrupt { .. }
        | PoolError::Object(_)
        | PoolError::Dataset(_)
        | PoolError::Vdev(_)
        | PoolError::Space(_)
        | PoolError::Invariant(_) => ImportState::CorruptData(error.to_string()),
        PoolError::NoSuchPool { .. }
        | PoolError::NoLabel { .. }
        | PoolError::InUseElsewhere(_)
        | PoolError::ActiveElsewhere(_)
        | PoolError::NoHostId
        | PoolError::Locked { .. }
        | PoolError::CheckpointExists
        | PoolError::DiscardingCheckpoint
        | PoolError::NoCheckpoint
        | PoolError::NoRemoval
        | PoolError::Ambiguous { .. }
        | PoolError::BadName { .. }
        | PoolError::TooSmall { .. }
        | PoolError::DeviceInUse { .. }
        | PoolError::Invalid { .. }
        | PoolError::Device(_)
        | PoolError::Cache(_)
        | PoolError::Commit(_)
        | PoolError::NoUberblockWritten { .. }
        | PoolError::NoLabelWritten { .. }
        | PoolError::NoConvergence { .. }
        | PoolError::UnnamedReference { .. }
        | PoolError::Free(_)
        | PoolError::Suspended { .. }
        | PoolError::ReadOnly
        | PoolError::Busy
        | PoolError::NoSpace
        | PoolError::Scan(_)
        | PoolError::SplitUnfinished { .. }
        | PoolError::Stopped { .. }
        | PoolError::NoSuchVdev { .. } => ImportState::Refused(error.to_string()),
    }
}

fn feature_lines(features: &[MissingFeature]) -> Vec<String> {
    let mut lines: Vec<String> = features
        .iter()
        .take(FEATURES_MAX)
        .map(ToString::to_string)
        .collect();
    let more = features.len().saturating_sub(FEATURES_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// The state of a pool, and why, that follow from how it could be imported; none: those of its vdevs.
pub(super) fn shown(
    import: &ImportState,
    vdevs: &[VdevReport],
) -> Option<(VdevState, Option<VdevCause>)> {
    let unavailable = |cause| Some((VdevState::Unavailable, cause));
    match import {
        ImportState::MissingDevices => {
            // What is not known of cannot have too few replicas.
            let too_few = |vdev: &VdevReport| {
                vdev.state == VdevState::Unavailable && vdev.cause != Some(VdevCause::MissingDevice)
            };
            unavailable(Some(match vdevs.iter().any(too_few) {
                true => VdevCause::InsufficientReplicas,
                false => VdevCause::MissingDevice,
            }))
        }
        ImportState::MissingLogs => unavailable(Some(VdevCause::MissingDevice)),
        ImportState::UnsupportedVersion => unavailable(Some(VdevCause::NewerVersion)),
        ImportState::UnsupportedVdev(_)
        | ImportState::UnsupportedFeatures(_)
        | ImportState::ReadOnlyFeatures(_) => unavailable(Some(VdevCause::UnsupportedFeatures)),
        ImportState::ReadOnly(_) | ImportState::Refused(_) => unavailable(None),
        ImportState::CorruptData(_) => Some((VdevState::Faulted, Some(VdevCause::CorruptData))),
        ImportState::Ready
        | ImportState::LegacyVersion
        | ImportState::FeaturesDisabled
        | ImportState::UsedElsewhere
        | ImportState::PerhapsInKernel
        | ImportState::Active { .. }
        | ImportState::InUse { .. }
        | ImportState::NoHostId
        | ImportState::Degraded
        | ImportState::Unknown => None,
    }
}
