//! Why a stream cannot be received.

use crypto::PBKDF2_ITERATIONS_SECONDS;
use dmu::{DmuError, TxError};
use dsl::DslError;
use stream::StreamError;
use txg::TxgError;

use crate::blocks::FindError;

/// Why a stream cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The stream itself.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The tree of datasets.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// The object set that is written.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// No room, a quota, or the engine ended.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// The engine ended.
    #[error(transparent)]
    Engine(#[from] TxgError),
    /// The blocks of a snapshot that is healed.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The stream makes use of what nobody knows.
    #[error("stream has unsupported feature")]
    UnknownFeature,
    /// The stream makes use of what this version cannot write.
    #[error("stream has {0}, which this version cannot write")]
    Unsupported(&'static str),
    /// The pool has not enabled a feature of the stream.
    #[error("pool must be upgraded to receive this stream (feature {0})")]
    Upgrade(&'static str),
    /// The pool is older than what the stream has.
    #[error("pool must be upgraded to receive this stream (version {0})")]
    UpgradeTo(u64),
    /// Making its key of a passphrase would take too long.
    #[error(
        "its key takes {0} iterations (pbkdf2iters), and no more than {PBKDF2_ITERATIONS_SECONDS} are received"
    )]
    Iterations(u64),
    /// A record that no sender makes.
    #[error("invalid record: {0}")]
    Invalid(&'static str),
}
