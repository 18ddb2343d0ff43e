//! Transactions: a held txg, a dirty credit, and the admission of space.

use std::cell::Cell;
use std::sync::Arc;

use base::{ObjectSetId, Txg};
use txg::{Credit, Engine, TxgError, TxgHold};

use crate::meters::METERS;
use crate::stage::Stage;
use crate::tunables;

/// Memory that a block to be freed takes while its txg is in flight: an entry in a deadlist, and one among the ranges
/// that become free.
const FREED_BLOCK_BYTES: u64 = 256;

/// Worst-case numbers of what a transaction is about to do.
#[derive(Clone, Copy, Default)]
pub struct Reservation<'a> {
    /// Bytes of file data that will be written.
    pub write_bytes: u64,
    /// Bytes of the blocks that they lie in, at most; 0 = 128 KiB.
    pub block_bytes: u32,
    /// Whole blocks that become references to stored ones ([`crate::Object::refer_to`]). They are promised room as if
    /// they were written, and take the memory of a pointer.
    pub referenced_blocks: u64,
    /// Names that will be added, changed or removed.
    pub names: u32,
    /// Objects whose dnode or bonus will change.
    pub objects: u32,
    /// Blocks that will be freed beside those that are written over, indirect ones by what reading them costs
    /// ([`crate::Object::last_free_piece`]). A txg takes [`crate::tunables::FREE_BLOCKS_TXG`] of them; the transaction
    /// waits for the next one when the open txg has as many.
    pub freed_blocks: u64,
    /// Whether the transaction frees more than it allocates.
    pub net_free: bool,
    /// Whom to ask for space; without one, nobody.
    pub admission: Option<&'a dyn Admission>,
}

impl Reservation<'_> {
    /// Block size that is reckoned with when none is said.
    const BLOCK: u64 = 128 * 1024;

    const fn block(&self) -> u64 {
        match self.block_bytes {
            0 => Self::BLOCK,
            bytes => bytes as u64,
        }
    }

    /// What references cost their txg, in blocks to be freed: each changes a count, and where the sync cannot refer to
    /// stored blocks after all, it has their bytes to read and write.
    const fn reference_cost(&self) -> u64 {
        const MIN: u64 = 8;
        const BYTES: u64 = 16 * 1024;
        let each = self.block() / BYTES;
        let each = if each < MIN { MIN } else { each };
        self.referenced_blocks.saturating_mul(each)
    }

    /// Bytes that become dirty at most, without what frees take.
    #[must_use]
    pub const fn dirty_bytes(&self) -> u64 {
        /// A name may copy a directory block, split a leaf and touch the header.
        const NAME: u64 = 3 * 16 * 1024;
        const OBJECT: u64 = 2 * 1024;
        let references = self
            .referenced_blocks
            .saturating_mul(crate::object::REFERENCE_BYTES);
        self.data_bytes()
            .saturating_add(references)
            .saturating_add(NAME * self.names as u64)
            .saturating_add(OBJECT * self.objects as u64)
    }

    /// A write that is not aligned dirties the rest of its first and last block.
    const fn data_bytes(&self) -> u64 {
        let edges = if self.write_bytes == 0 {
            0
        } else {
            2 * self.block()
        };
        self.write_bytes.saturating_add(edges)
    }

    /// The blocks that are written, as far as that can be told before.
    #[must_use]
    pub const fn footprint(&self) -> Footprint {
        const META: u64 = 16 * 1024;
        let referenced = self.referenced_blocks.saturating_mul(self.block());
        let data = self.data_bytes().saturating_add(referenced);
        let indirect = if data == 0 { 0 } else { 4 };
        let metas = 3 * self.names as u64 + self.objects as u64 + indirect;
        Footprint {
            data_bytes: data,
            data_blocks: data.div_ceil(self.block()),
            meta_bytes: metas * META,
            meta_blocks: metas,
        }
    }
}

/// Blocks that a transaction has written when its txg syncs, before copies and sectors are reckoned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of blocks of data.
    pub data_bytes: u64,
    /// How many blocks these are.
    pub data_blocks: u64,
    /// Bytes of dnodes, indirect blocks, ZAPs.
    pub meta_bytes: u64,
    /// How many blocks these are.
    pub meta_blocks: u64,
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes that become dirty in memory, at most.
    pub dirty_bytes: u64,
    /// Blocks that are written.
    pub footprint: Footprint,
    /// More is freed than allocated: it may go further.
    pub net_free: bool,
}

/// Space that was promised to a transaction.
pub struct Promise {
    /// The last txg that the transaction may belong to.
    pub until: Txg,
    /// Bytes on the devices.
    pub bytes: u64,
    /// Who is told what the transaction really needs, when it ends.
    pub account: Arc<dyn Account>,
}

/// Keeps account of promises.
pub trait Account: Send + Sync {
    /// A transaction that was promised `bytes` up to the txg `until` has written this.
    fn settle(&self, until: Txg, bytes: u64, written: &Footprint);
}

/// Decides whether there is space for a transaction: the chain of quotas up to the pool.
pub trait Admission: Send + Sync {
    /// Whether so much may be written now; a promise holds until the transaction's txg has synced.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, wanted: &Wanted) -> Result<Option<Promise>, Refusal>;
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
    /// There is room, but it is promised to others who will hardly need all of it: try again.
    #[error("the space left is promised to others")]
    Busy,
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
    /// Short waits for others to give back, then txgs.
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
            Err(Refusal::NoSpace | Refusal::Retry | Refusal::Busy) => return Err(TxError::NoSpace),
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
