//! What can go wrong.

use txg::TxgError;

/// Why something could not be made durable, or a log not be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntentError {
    /// Neither the log nor the txg reached the disk: the pool has stopped.
    #[error("nothing is made durable any more: {0}")]
    Engine(#[from] TxgError),
}
