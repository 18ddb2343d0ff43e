//! Transactions: a held txg, a dirty credit, and the admission of space.

use std::cell::Cell;
use std::sync::Arc;

use base::Txg;
use txg::{Credit, Engine, TxgError, TxgHold};

/// Worst-case numbers of what a transaction is about to do.
#[derive(Clone, Copy, Default)]
pub struct Reservation<'a> {
    /// Bytes of file data that will be written.
    pub write_bytes: u64,
    /// Names that will be added, changed or removed.
    pub names: u32,
    /// Objects whose dnode or bonus will change.
    pub objects: u32,
    /// Whether the transaction frees more than it allocates.
    pub net_free: bool,
    /// Whom to ask for space; without one, nobody.
    pub admission: Option<&'a dyn Admission>,
}

impl Reservation<'_> {
    /// Bytes that become dirty at most.
    #[must_use]
    pub const fn dirty_bytes(&self) -> u64 {
        /// A name may copy a directory block, split a leaf and touch the header.
        const NAME: u64 = 3 * 16 * 1024;
        const OBJECT: u64 = 2 * 1024;
        /// A write that is not aligned dirties the rest of its first and last block.
        const EDGES: u64 = 2 * 128 * 1024;
        let edges = if self.write_bytes == 0 { 0 } else { EDGES };
        self.write_bytes
            .saturating_add(edges)
            .saturating_add(NAME * self.names as u64)
            .saturating_add(OBJECT * self.objects as u64)
    }
}

/// Decides whether there is space for a transaction: the chain of quotas up to the pool.
pub trait Admission: Send + Sync {
    /// Whether `dirty_bytes` more may be written now. `net_free` operations may go further.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, dirty_bytes: u64, net_free: bool) -> Result<(), Refusal>;
}

/// Why space was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pool is full.
    #[error("no space left in the pool")]
    NoSpace,
    /// A quota is reached.
    #[error("a quota is reached")]
    Quota,
    /// Frees on their way may help: try again in the next txg.
    #[error("space is being freed")]
    Retry,
}

/// Why a transaction could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    /// The pool is full.
    #[error("no space left in the pool")]
    NoSpace,
    /// A quota is reached.
    #[error("a quota is reached")]
    Quota,
    /// The engine ended.
    #[error(transparent)]
    Engine(#[from] TxgError),
}

/// A transaction: what is changed with it reaches the disk with its txg, as a whole.
///
/// Dropping it ends it; one that changed nothing costs nothing. A thread holds one at a time: the
/// next txg opens only when all transactions of the last have ended.
#[must_use]
pub struct Tx {
    txg: Txg,
    dirtied: Cell<u64>,
    // The hold goes last: the credit is booked on a txg that cannot have synced yet.
    credit: Option<Credit>,
    hold: Option<TxgHold>,
}

impl Tx {
    /// Waits for dirty credit and space, then holds the open txg.
    ///
    /// # Errors
    /// No space, a quota, or the engine ended.
    pub fn assign(engine: &Arc<Engine>, reservation: &Reservation<'_>) -> Result<Self, TxError> {
        let bytes = reservation.dirty_bytes();
        let credit = engine.reserve(bytes)?;
        if let Some(admission) = reservation.admission {
            const TRIES: u32 = 3;
            let mut tries = 0;
            loop {
                match admission.admit(bytes, reservation.net_free) {
                    Ok(()) => break,
                    Err(Refusal::Quota) => return Err(TxError::Quota),
                    Err(Refusal::Retry) if tries < TRIES => {
                        tries += 1;
                        engine.wait_synced(None)?;
                    }
                    Err(Refusal::NoSpace | Refusal::Retry) => return Err(TxError::NoSpace),
                }
            }
        }
        let hold = engine.hold()?;
        Ok(Self {
            txg: hold.txg(),
            dirtied: Cell::new(0),
            credit: Some(credit),
            hold: Some(hold),
        })
    }

    /// The transaction of syncing context, for the thread that syncs `txg`.
    pub const fn syncing(txg: Txg) -> Self {
        Self {
            txg,
            dirtied: Cell::new(0),
            credit: None,
            hold: None,
        }
    }

    /// The txg that the changes belong to.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.txg
    }

    /// Whether this is the transaction of syncing context.
    #[must_use]
    pub const fn is_syncing(&self) -> bool {
        self.hold.is_none()
    }

    /// Bytes that were made dirty so far.
    #[must_use]
    pub fn dirtied_bytes(&self) -> u64 {
        self.dirtied.get()
    }

    /// Notes that `bytes` more are dirty.
    pub(crate) fn dirtied(&self, bytes: u64) {
        self.dirtied.set(self.dirtied.get().saturating_add(bytes));
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(credit) = &mut self.credit {
            credit.spend(self.txg, self.dirtied.get());
        }
    }
}
