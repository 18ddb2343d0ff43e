//! What can go wrong while waiting for a transaction group.

use base::Txg;

/// Why a wait or a reservation ended without what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TxgError {
    /// The sync target gave up: nothing after `txg` reaches the disk any more.
    #[error("txg {txg} could not be synced: {reason}")]
    SyncFailed {
        /// The txg whose sync failed.
        txg: Txg,
        /// What the sync target said.
        reason: String,
    },
    /// A device failed and may come back: nothing is synced until [`Engine::resume`](crate::Engine::resume).
    #[error("the pool is suspended: {reason}")]
    Suspended {
        /// What failed.
        reason: String,
    },
    /// The calling thread must not wait, and would have had to ([`without_waiting`](crate::without_waiting)). Nothing
    /// was changed, and nobody but who postponed the operation sees this.
    #[error("the operation goes on later")]
    Postponed,
    /// The engine was stopped (the pool is being exported).
    #[error("the transaction engine has stopped")]
    Stopped,
}

/// What a sync target says when it gives up on a txg for good.
///
/// A device that may come back is not such a failure: the target itself waits for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SyncFailure {
    /// One line naming the thing that failed.
    pub reason: String,
}
