//! Transactions: a held txg, a dirty credit, and the admission of space.

mod admission;
mod reservation;

use std::cell::Cell;
use std::sync::Arc;

use base::{ObjectSetId, Txg};
use txg::{Credit, Engine, TxgError, TxgHold};

use crate::meters::METERS;
use crate::stage::Stage;
use crate::tunables;

pub use admission::{Account, Admission, Footprint, Promise, Refusal, Wanted};
pub(crate) use reservation::REFERENCE_BYTES;
pub use reservation::Reservation;

/// Memory that a block to be freed takes while its txg is in flight: an entry in a deadlist, and one among the ranges
/// that become free.
const FREED_BLOCK_BYTES: u64 = 256;

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
    /// What the lists of the blocks that it frees take, until its txg has synced.
    freed_bytes: u64,
    footprint: Cell<Footprint>,
    promise: Option<Promise>,
    // The hold goes last: the credit is booked on a txg that cannot have synced yet.
    credit: Option<Credit>,
    hold: Option<TxgHold>,
    stage: Option<Stage>,
}

impl Tx {
    /// Waits for dirty credit and space, then holds the open txg; one that frees, a txg that has room for that.
    ///
    /// # Errors
    /// No space, a quota, or the engine ended.
    pub fn assign(engine: &Arc<Engine>, reservation: &Reservation<'_>) -> Result<Self, TxError> {
        let freed_bytes = reservation.freed_blocks.saturating_mul(FREED_BLOCK_BYTES);
        let credit = engine.reserve(reservation.dirty_bytes().saturating_add(freed_bytes))?;
        let wait_blocks = reservation
            .freed_blocks
            .saturating_add(reservation.reference_cost());
        let wanted = Wanted {
            dirty_bytes: reservation.dirty_bytes(),
            footprint: reservation.footprint(),
            net_free: reservation.net_free,
        };
        loop {
            let promise = match reservation.admission {
                Some(admission) => admitted(engine, admission, &wanted)?,
                None => None,
            };
            let hold = engine.hold_to_free(wait_blocks, tunables::FREE_BLOCKS_TXG.get())?;
            // One for an earlier txg is forgotten with that.
            if promise
                .as_ref()
                .is_none_or(|promise| hold.txg() <= promise.until)
            {
                METERS.freed_blocks.add(reservation.freed_blocks);
                return Ok(Self {
                    txg: hold.txg(),
                    dirtied: Cell::new(0),
                    freed_bytes,
                    footprint: Cell::default(),
                    promise,
                    credit: Some(credit),
                    hold: Some(hold),
                    stage: None,
                });
            }
        }
    }

    /// The transaction of syncing context, for the thread that syncs `txg`.
    pub const fn syncing(txg: Txg) -> Self {
        const NOTHING: Footprint = Footprint {
            data_bytes: 0,
            data_blocks: 0,
            meta_bytes: 0,
            meta_blocks: 0,
        };
        Self {
            txg,
            dirtied: Cell::new(0),
            freed_bytes: 0,
            footprint: Cell::new(NOTHING),
            promise: None,
            credit: None,
            hold: None,
            stage: None,
        }
    }

    /// A transaction of syncing context whose changes of one object set can be undone: they are, unless it is
    /// [kept](Tx::keep).
    pub fn staged(txg: Txg, object_set: ObjectSetId) -> Self {
        let mut tx = Self::syncing(txg);
        tx.stage = Some(Stage::new(object_set));
        tx
    }

    /// Ends it with its changes.
    pub fn keep(mut self) {
        if let Some(stage) = self.stage.take() {
            stage.keep();
        }
    }

    /// Whether its changes can be undone.
    #[must_use]
    pub const fn is_staged(&self) -> bool {
        self.stage.is_some()
    }

    pub(crate) const fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }

    /// Has `step` done when this transaction is undone; later ones first. Nothing happens with one that cannot be.
    pub fn on_undo(&self, step: impl FnOnce() + Send + 'static) {
        if let Some(stage) = self.stage() {
            stage.on_undo(Box::new(step));
        }
    }

    /// Has `step` done when this transaction is kept: at once with one that cannot be undone.
    pub fn on_success(&self, step: impl FnOnce() + Send + 'static) {
        match self.stage() {
            Some(stage) => stage.on_success(Box::new(step)),
            None => step(),
        }
    }

    /// Has every change after so many more fail, if this transaction can be undone: for tests of what undoes it.
    pub fn interrupt_after(&self, changes: u64) {
        if let Some(stage) = self.stage() {
            stage.interrupt_after(changes);
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

    /// Notes that one more block is going to be written.
    pub(crate) fn writes(&self, bytes: u64, metadata: bool) {
        let mut footprint = self.footprint.get();
        if metadata {
            footprint.meta_bytes += bytes;
            footprint.meta_blocks += 1;
        } else {
            footprint.data_bytes += bytes;
            footprint.data_blocks += 1;
        }
        self.footprint.set(footprint);
    }
}

/// Asks for space until there is some, or none is to be expected.
fn admitted(
    engine: &Arc<Engine>,
    admission: &dyn Admission,
    wanted: &Wanted,
) -> Result<Option<Promise>, TxError> {
    /// Txgs that are waited for, in case frees on their way are enough.
    const FREES: u32 = 3;
    /// Short waits for others to return, then txgs.
    const PAUSES: u32 = 10;
    const WAITS: u32 = 50;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
    let (mut frees, mut waits) = (0, 0);
    loop {
        match admission.admit(wanted) {
            Ok(promise) => return Ok(promise),
            Err(Refusal::Quota) => return Err(TxError::Quota),
            Err(Refusal::Retry) if frees < FREES => {
                frees += 1;
                engine.wait_synced(None)?;
            }
            Err(Refusal::Busy) if waits < PAUSES => {
                waits += 1;
                base::thread::sleep(PAUSE);
            }
            Err(Refusal::Busy) if waits < WAITS => {
                waits += 1;
                engine.wait_synced(None)?;
            }
            Err(Refusal::NoSpace) => return Err(TxError::NoSpace),
            Err(Refusal::Retry | Refusal::Busy) => {
                return Err(match admission.lasting() {
                    Refusal::Quota => TxError::Quota,
                    Refusal::NoSpace | Refusal::Retry | Refusal::Busy => TxError::NoSpace,
                });
            }
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            let written = self.footprint.get();
            promise
                .account
                .settle(promise.until, promise.bytes, &written);
        }
        if let Some(credit) = &mut self.credit {
            credit.spend(
                self.txg,
                self.dirtied.get().saturating_add(self.freed_bytes),
            );
        }
        if let Some(stage) = self.stage.take() {
            stage.undo();
        }
    }
}
