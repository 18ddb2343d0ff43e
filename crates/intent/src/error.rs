//! What can go wrong.

use txg::TxgError;

/// Why something could not be made durable, or a log not be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IntentError {
    /// Neither the log nor the txg reached the disk: the pool has stopped.
    #[error("nothing is made durable any more: {0}")]
    Engine(#[from] TxgError),
    /// A record could not be replayed, also not the second time.
    #[error("record {sequence} of the intent log could not be replayed: {reason}")]
    Replay {
        /// Its sequence number.
        sequence: u64,
        /// What the operation said.
        reason: String,
    },
    /// A chain that was claimed cannot be read to its end any more.
    #[error("block {sequence} of the intent log cannot be read")]
    Chain {
        /// The block's sequence number.
        sequence: u64,
    },
    /// Space of a chain could not be claimed.
    #[error("space of an intent log could not be claimed: {0}")]
    Claim(String),
    /// The log holds something that cannot be claimed.
    #[error("the intent log holds {what}")]
    Unsupported {
        /// What.
        what: &'static str,
    },
}
