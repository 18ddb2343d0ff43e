//! How errors of the engine become the lines that users know.

use std::fmt;

use dsl::DslError;

use crate::{Failure, FailureKind};

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
        other => {
            let kind = match other {
                DslError::Dmu(_) | DslError::Format { .. } | DslError::Damaged { .. } => {
                    Kind::Medium
                }
                DslError::Unsupported { .. } => Kind::Unsupported,
                _ => Kind::Invalid,
            };
            return (kind, other.to_string());
        }
    };
    (kind, text.to_owned())
}

/// `cannot VERB 'NAME': REASON`.
pub(crate) fn refused(verb: &str, name: &str, error: &DslError) -> Failure {
    let (kind, text) = reason(error);
    Failure::cannot(kind, verb, name, text)
}
