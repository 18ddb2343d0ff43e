//! Why nothing is received, as people know it from OpenZFS.

use admin::{Failure, FailureKind};
use dmu::TxError;
use dsl::DslError;
use replication::receive::{Head, ReceiveError};
use stream::StreamError;

use crate::service::refusal::reason;

/// What was to be received: how a failure begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// It is not known yet.
    Any,
    /// A stream that begins at nothing, or a clone.
    New,
    /// What continues a snapshot that is there.
    Incremental,
    /// The rest of a stream.
    Rest,
}

impl Context {
    /// What a stream is.
    pub(super) const fn of(head: &Head) -> Self {
        if head.resumes_at.is_some() {
            Self::Rest
        } else if head.is_full() || head.is_clone() {
            Self::New
        } else {
            Self::Incremental
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Any => "cannot receive",
            Self::New => "cannot receive new filesystem stream",
            Self::Incremental => "cannot receive incremental stream",
            Self::Rest => "cannot receive resume stream",
        }
    }

    /// A failure; what stands behind the text's first line is advice.
    pub(super) fn failure(self, kind: FailureKind, text: impl AsRef<str>) -> Failure {
        let mut lines = text.as_ref().lines();
        let first = lines.next().unwrap_or("");
        let failure = Failure::new(kind, format!("{}: {first}", self.words()));
        lines.fold(failure, Failure::advise)
    }

    /// Why the first record of all cannot be had.
    pub(super) fn no_stream(self, error: &ReceiveError) -> Failure {
        match error {
            ReceiveError::Stream(StreamError::Truncated | StreamError::Io(_)) => {
                self.failure(FailureKind::Invalid, "failed to read from stream")
            }
            ReceiveError::Stream(_)
            | ReceiveError::Dsl(_)
            | ReceiveError::Dmu(_)
            | ReceiveError::Tx(_)
            | ReceiveError::Engine(_)
            | ReceiveError::Find(_)
            | ReceiveError::UnknownFeature
            | ReceiveError::Unsupported(_)
            | ReceiveError::Upgrade(_)
            | ReceiveError::UpgradeTo(_)
            | ReceiveError::Iterations(_)
            | ReceiveError::Invalid(_) => self.broken(error),
        }
    }

    /// Why a stream, or a step of it, failed.
    pub(super) fn broken(self, error: &ReceiveError) -> Failure {
        match error {
            ReceiveError::Stream(
                StreamError::Truncated | StreamError::Io(_) | StreamError::BadChecksum(_),
            ) => self.failure(
                FailureKind::Invalid,
                "checksum mismatch or incomplete stream",
            ),
            ReceiveError::Stream(error @ StreamError::BadMagic) => {
                self.failure(FailureKind::Invalid, error.to_string())
            }
            ReceiveError::Stream(error) => {
                self.failure(FailureKind::Invalid, format!("invalid stream ({error})"))
            }
            ReceiveError::Dsl(error) => {
                let (kind, text) = reason(error);
                self.failure(kind, text)
            }
            ReceiveError::Find(error) => self.failure(FailureKind::Medium, error.to_string()),
            ReceiveError::Dmu(error) => self.failure(FailureKind::Medium, error.to_string()),
            ReceiveError::Tx(TxError::NoSpace | TxError::Quota) => {
                self.failure(FailureKind::Space, "out of space")
            }
            ReceiveError::Tx(TxError::Engine(error)) | ReceiveError::Engine(error) => {
                self.failure(FailureKind::Medium, error.to_string())
            }
            ReceiveError::UnknownFeature
            | ReceiveError::Unsupported(_)
            | ReceiveError::UpgradeTo(_)
            | ReceiveError::Iterations(_) => {
                self.failure(FailureKind::Unsupported, error.to_string())
            }
            ReceiveError::Upgrade(feature) => {
                let text = "pool must be upgraded to receive this stream.";
                let advice = format!("it needs the feature {feature}");
                self.failure(FailureKind::Unsupported, text).advise(advice)
            }
            ReceiveError::Invalid(_) => {
                self.failure(FailureKind::Invalid, format!("invalid stream ({error})"))
            }
        }
    }

    /// Why a stream cannot begin, or its snapshot not be made, at a dataset.
    pub(super) fn refused(self, path: &str, force: bool, error: &DslError) -> Failure {
        let (kind, usual) = reason(error);
        let failure = |text: String| self.failure(kind, text);
        if let DslError::Exists { name } = error {
            if name.contains('@') {
                let text = format!("cannot restore to {name}: destination already exists");
                return Failure::new(kind, text);
            }
            let what = if force {
                "must destroy it to overwrite it"
            } else {
                "must specify -F to overwrite it"
            };
            return failure(format!("destination '{path}' exists\n{what}"));
        }
        if let DslError::NotFound { name } = error {
            return failure(format!("destination '{name}' does not exist"));
        }
        if let DslError::NoSource { .. } = error {
            return failure(format!(
                "most recent snapshot of {path} does not\nmatch incremental source"
            ));
        }
        if let DslError::Modified { .. } = error {
            return failure(format!(
                "destination {path} has been modified\nsince most recent snapshot"
            ));
        }
        if let DslError::PartlyReceived { .. } = error {
            return failure(format!(
                "destination {path} contains partially-complete state from \"zfs receive -s\"."
            ))
            .advise(format!(
                "go on with it by 'zfs send -t' of its receive_resume_token, or run 'zfs receive -A {path}'"
            ));
        }
        if let DslError::Unsupported { what, .. } = error
            && *what == "large blocks"
        {
            let text =
                "incremental send stream requires -L (--large-block), to match previous receive.";
            return failure(text.to_owned());
        }
        if let DslError::NotSealed { .. } = error {
            let text = if force && self == Self::New {
                "zfs receive -F cannot be used to destroy an encrypted filesystem or overwrite an \
                 unencrypted one with an encrypted one"
            } else {
                "the destination is not encrypted, and cannot continue a raw encrypted stream"
            };
            return failure(text.to_owned());
        }
        if let DslError::OtherKeys { .. } = error {
            let text = "the destination was encrypted with other keys than the raw stream";
            return failure(text.to_owned());
        }
        if let DslError::OtherVectors { is_unknown, .. } = error {
            let text = if *is_unknown {
                "IV set guid missing. See errata 4 at \
                 https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-ER."
            } else {
                "IV set guid mismatch. See the 'zfs receive' man page section\n\
                 discussing the limitations of raw encrypted send streams."
            };
            return failure(text.to_owned());
        }
        if let DslError::KeyUnloaded { .. } = error {
            return failure("inherited key must be loaded".to_owned());
        }
        failure(usual)
    }
}
